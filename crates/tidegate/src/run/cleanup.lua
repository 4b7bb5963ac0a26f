-- cleanup: takes runs away whose time was over a while ago.
--
-- Keys  anything of the partition
-- Own   how many to look at
-- Answers  how many it took away, 1 if it has not looked at all of them, then how many there are in each state
return named(each(function(_, at)
  local removed, is_more = collect(clock_ms - slack_ms, tonumber(ARGV[at + 1]))
  local answer = { removed, is_more and 1 or 0 }
  for _, state in ipairs(STATES) do answer[#answer + 1] = call('ZCARD', STARTED[state]) end
  return answer
end, 1, 1, SHARED_KEYS))
