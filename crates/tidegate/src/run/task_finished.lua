-- task_finished: notes that a task is finished. Repeated it changes nothing.
--
-- Keys  the run
-- Own   its id, attempt (empty: any), the task
-- Answers  DONE, when it was started and when it was finished; or why not
return named(each(function(_, at)
  local id, task = ARGV[at + 1], ARGV[at + 3]
  local run = read(id)
  local why = unchangeable(run, ARGV[at + 2])
  if why then return why end
  local tasks = part('tasks', id)
  local known = call('HGET', tasks, task)
  if not known then return { UNKNOWN_TASK } end
  local attempt, started, finished = task_of(known)
  if not attempt then corrupt(tasks, 'has a task that cannot be read') end
  if finished > 0 then return { DONE, started, finished } end
  call('HSET', tasks, task, int(attempt) .. ' ' .. int(started) .. ' ' .. int(run.now))
  touch(run)
  return { DONE, started, run.now }
end, 1, 3, SHARED_KEYS))
