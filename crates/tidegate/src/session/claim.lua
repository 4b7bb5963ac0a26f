-- claim: orphans to reap, for a while.
--
-- Keys  none
-- Own   how many at most, how many that have fallen silent are found out at most, until when
--       the call is good
-- Answers  as cleanup; then of each claim id, generation, broadcaster, when it was left, which
--          attempt it is, until when, config and value
return finish(plain_each(function(_, at)
  if is_over(ARGV[at + 3]) then return clock_ms end
  start_counting()
  local lag_ms, claims = lag(), {}
  if is_held then return answer(lag_ms, false) end
  take(tonumber(ARGV[at + 1]), tonumber(ARGV[at + 2]), true, function(s)
    local from = s.claimed > 0 and CLAIMED or DISCONNECTED
    s.attempts, s.claimed = s.attempts + 1, now_ms + claim_ms
    put(CLAIMED, s.claimed, s.id)
    if from ~= CLAIMED then call('ZREM', from, s.id) end
    save(s)
    local texts = call('HMGET', s.key, 'config_json', 'value')
    for _, field in ipairs({ s.id, s.generation, s.broadcaster, s.disconnected, s.attempts, s.claimed, texts[1] or '',
      texts[2] or '' }) do
      claims[#claims + 1] = field
    end
  end)
  local found = answer(lag_ms, is_more(true))
  for _, field in ipairs(claims) do found[#found + 1] = field end
  return found
end, 1, 3, SHARED_KEYS))
