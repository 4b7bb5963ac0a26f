-- task_started: notes that a task has begun. One that was started in this attempt is left alone, finished or not: a
-- call may come twice, and late.
--
-- Keys  the run
-- Own   its id, attempt (empty: any), the task
-- Answers  DONE, when it was started, 1 if this call started it; or why not
return named(each(function(_, at)
  local id, task = ARGV[at + 1], ARGV[at + 3]
  local run = read(id)
  local why = unchangeable(run, ARGV[at + 2])
  if why then return why end
  local tasks = part('tasks', id)
  local known = call('HGET', tasks, task)
  if known then
    local attempt, started = task_of(known)
    if attempt == run.attempt then return { DONE, started, 0 } end
  elseif call('HLEN', tasks) >= max_tasks then
    return { TOO_MANY_TASKS }
  end
  call('HSET', tasks, task, int(run.attempt) .. ' ' .. int(run.now) .. ' 0')
  -- It lives as long as the latest of what it names: who erases a run goes by it.
  expire(run, tasks)
  call('SET', task_start(id, task), iso(run.now), 'PX', int(life(run)))
  touch(run)
  return { DONE, run.now, 1 }
end, 1, 3, SHARED_KEYS))
