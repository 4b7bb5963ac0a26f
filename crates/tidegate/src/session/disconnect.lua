-- disconnect: a holder leaves. The last one leaves the session disconnected.
--
-- Keys  the session
-- Own   its id, holder, generation (empty: any)
-- Answers  a list with who holds it then, OTHERS or NOBODY; or why not
return finish(each(function(k, at)
  local s, refusal = living(ARGV[at + 1], KEYS[k], ARGV[at + 3])
  if not s then return refusal end
  if s.disconnected > 0 then return { NOBODY } end
  local field = 'h:' .. ARGV[at + 2]
  local until_ms = lease_end(call('HGET', s.key, field))
  if ends(until_ms) <= now_ms then return { OTHERS } end
  call('HDEL', s.key, field)
  s.seen = now_ms
  if until_ms >= s.deadline then s.deadline = leases(s) end
  if s.deadline == 0 then
    local left, seen = to_take_over(s)
    if left then
      take_over(s, left, seen)
      return { OTHERS }
    end
    leave(s, now_ms)
    return { NOBODY }
  end
  put(ACTIVE, s.deadline, s.id)
  save(s)
  return { OTHERS }
end, 1, 3, SHARED_KEYS))
