-- retry: leads a run on in the next attempt that has ended in the one that is meant. Repeated it changes nothing.
--
-- Keys  the run
-- Own   its id, the attempt that it ended in
-- Answers  DONE, its attempt, its state, 1 if this call did it; or why not
return named(each(function(_, at)
  local id = ARGV[at + 1]
  local run = read(id)
  local why = refused(run)
  if why then return why end
  local is_ended = IS_TERMINAL[run.status]
  if int(run.attempt - 1) == ARGV[at + 2] then
    return is_ended and { ENDED, run.status, run.attempt } or { DONE, run.attempt, run.status, 0 }
  end
  if int(run.attempt) ~= ARGV[at + 2] then return { STALE, run.attempt } end
  if not is_ended then return { LIVE, run.status, run.attempt } end
  local processed = call('SCARD', part('processed', id))
  move(run, 'running')
  run.attempt = run.attempt + 1
  touch(run, 'status', 'running', 'attempt', int(run.attempt), 'attempt_started_ms', int(run.now), 'finished_ms', '',
    'processed_before', int(processed))
  return { DONE, run.attempt, 'running', 1 }
end, 1, 2, SHARED_KEYS))
