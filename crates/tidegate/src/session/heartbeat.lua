-- heartbeat: a holder is still there.
--
-- Keys  the session
-- Own   its id, holder, generation (empty: any)
-- Answers  its generation and until when it is held; or why not
return finish(each(function(k, at)
  local s, refusal = living(ARGV[at + 1], KEYS[k], ARGV[at + 3])
  if not s then return refusal end
  if s.disconnected > 0 then return IS_DISCONNECTED end
  local field = 'h:' .. ARGV[at + 2]
  local until_ms = lease_end(call('HGET', s.key, field))
  if ends(until_ms) <= now_ms then return LAPSED end
  until_ms = math.max(until_ms, now_ms + lease_ms)
  s.seen, s.deadline = now_ms, math.max(s.deadline, until_ms)
  put(ACTIVE, s.deadline, s.id)
  save(s, field, until_ms)
  return { s.generation, until_ms }
end, 1, 3, SHARED_KEYS))
