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
  local ends = tonumber(call('HGET', s.key, field)) or 0
  if ends <= now_ms then return LAPSED end
  ends = math.max(ends, now_ms + lease_ms)
  s.seen, s.deadline = now_ms, math.max(s.deadline, ends)
  save(s, field, ends)
  put(ACTIVE, s.deadline, s.id)
  return { s.generation, ends }
end, 1, 3, COMMON))
