-- progress: how far a run is.
--
-- Keys  the run
-- Own   its id
-- Answers  DONE, state, items processed, those before this attempt, items that failed, those to retry, the total (-1:
--          nobody has said), when the attempt began, when it was finished or now, when the marker says that writes were lost
--          since it was started (-1: they were not); or why not
return named(each(function(_, at)
  local id = ARGV[at + 1]
  local run = read(id)
  local why = refused(run)
  if why then return why end
  local lost_ms = whole(call('HGET', KEYS[1], 'lost_ms'))
  return { DONE, run.status, call('SCARD', part('processed', id)), run.before, call('HLEN', part('failures', id)),
    call('ZCARD', part('to_retry', id)), run.total or -1, run.attempt_started, run.finished or run.now,
    lost_ms and lost_ms > run.started and lost_ms or -1 }
end, 1, 1, SHARED_KEYS))
