-- lapse: finds out who has fallen silent, and how far behind the claims are.
--
-- Keys  none
-- Own   how many at most, until when the call is good
-- Answers  as cleanup
return finish(plain_each(function(_, at)
  if is_over(ARGV[at + 2]) then return clock_ms end
  start_counting()
  local lag_ms = lag()
  if is_held then return answer(lag_ms, false) end
  lapse(tonumber(ARGV[at + 1]))
  return answer(lag_ms, #due(ACTIVE, 1) > 0)
end, 1, 2, SHARED_KEYS))
