-- tasks: the tasks of a run.
--
-- Keys  the run
-- Own   its id
-- Answers  DONE, then of each its name, attempt, when it was started and finished (0: it was not); or why not
return named(each(function(_, at)
  local id = ARGV[at + 1]
  local why = refused(read(id))
  if why then return why end
  local answer, all = { DONE }, call('HGETALL', part('tasks', id))
  for i = 1, #all, 2 do
    local attempt, started, finished = task_of(all[i + 1])
    if attempt then
      answer[#answer + 1] = all[i]
      answer[#answer + 1] = attempt
      answer[#answer + 1] = started
      answer[#answer + 1] = finished
    end
  end
  return answer
end, 1, 1, SHARED_KEYS))
