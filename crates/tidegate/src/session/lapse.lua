-- lapse: finds out who has fallen silent, and how far behind the claims are.
--
-- Keys  none
-- Own   how many at most
-- Answers  as cleanup
return finish(each(function(_, at)
  start_counting()
  local lag_ms = lag()
  lapse(tonumber(ARGV[at + 1]))
  local more = #due(ACTIVE, int(now_ms), far_ms, 1)
  return { lapsed, 0, 0, missing, invalid, lag_ms, more }
end, 1, 1, COMMON))
