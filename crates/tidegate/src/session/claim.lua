-- claim: orphans to reap, for a while.
--
-- Keys  none
-- Own   how many at most; how many that have fallen silent are found out at most
-- Answers  silent sessions, 0, sessions put aside, entries without a session, entries that
--          are no ids, for how long the first had been due, 1 if more are due; then of each
--          claim id, generation, broadcaster, when it was left, which attempt it is, until when,
--          config and value
return finish(each(function(_, at)
  start_counting()
  local lag_ms, claims = lag(), {}
  take(tonumber(ARGV[at + 1]), tonumber(ARGV[at + 2]), true, function(s)
    local from = s.claimed > 0 and CLAIMED or DISCONNECTED
    s.attempts, s.claimed = s.attempts + 1, now_ms + claim_ms
    save(s)
    put(CLAIMED, s.claimed, s.id)
    if from ~= CLAIMED then call('ZREM', from, s.id) end
    local texts = call('HMGET', s.key, 'config_json', 'value')
    for _, field in ipairs({ s.id, s.generation, s.broadcaster, s.disconnected, s.attempts, s.claimed, texts[1] or '',
      texts[2] or '' }) do
      claims[#claims + 1] = field
    end
  end)
  local answer = { lapsed, 0, buried, missing, invalid, lag_ms, is_more(true) and 1 or 0 }
  for _, field in ipairs(claims) do answer[#answer + 1] = field end
  return answer
end, 1, 2, COMMON))
