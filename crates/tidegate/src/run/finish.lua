-- finish: ends a run. In the state that it has ended in it changes nothing.
--
-- Keys  the run
-- Own   its id, attempt (empty: any), the state
-- Answers  DONE, its attempt, 1 if this call ended it; or why not
return named(each(function(_, at)
  local state = ARGV[at + 3]
  local run = read(ARGV[at + 1])
  local why = refused(run, ARGV[at + 2])
  if why then return why end
  if run.status == state then return { DONE, run.attempt, 0 } end
  why = unchangeable(run, '')
  if why then return why end
  move(run, state)
  touch(run, 'status', state, 'finished_ms', int(run.now))
  return { DONE, run.attempt, 1 }
end, 1, 3, SHARED_KEYS))
