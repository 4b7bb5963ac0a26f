-- task_started: notes that a task has begun. One that is under way in this attempt is left alone.
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
    local attempt, started, finished = task_of(known)
    if attempt == run.attempt and finished == 0 then return { DONE, started, 0 } end
  elseif call('HLEN', tasks) >= max_tasks then
    return { TOO_MANY_TASKS }
  end
  call('HSET', tasks, task, int(run.attempt) .. ' ' .. int(run.now) .. ' 0')
  if not known and call('HLEN', tasks) == 1 then expire(run, tasks) end
  call('SET', task_start(id, task), iso(run.now), 'PX', int(life(run)))
  touch(run)
  return { DONE, run.now, 1 }
end, 1, 3, SHARED_KEYS))
