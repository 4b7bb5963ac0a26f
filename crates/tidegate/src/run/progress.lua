-- progress: how far a run is.
--
-- Keys  the run
-- Own   its id
-- Answers  DONE, state, items processed, those before this attempt, items that failed, those to retry, the total (-1:
--          nobody has said), when the attempt began, when it was finished or now; or why not
return named(each(function(_, at)
  local id = ARGV[at + 1]
  local run = read(id)
  local why = refused(run)
  if why then return why end
  return { DONE, run.status, call('SCARD', part('processed', id)), run.before, call('HLEN', part('failures', id)),
    call('ZCARD', part('to_retry', id)), run.total or -1, run.attempt_started, run.finished or run.now }
end, 1, 1, SHARED_KEYS))
