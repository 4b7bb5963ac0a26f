-- expire: lets a run end after so long at the latest, whatever is done to it meanwhile.
--
-- Keys  the run
-- Own   its id, attempt (empty: any), after so many ms
-- Answers  DONE, when it ends; or why not
return named(each(function(_, at)
  local run = read(ARGV[at + 1])
  local why = refused(run, ARGV[at + 2])
  if why then return why end
  run.ends = math.min(run.ends, run.now + tonumber(ARGV[at + 3]))
  renew(run)
  call('HSET', run.key, 'updated_ms', int(run.now), 'ends_ms', int(run.ends), 'latest_end_ms', int(run.ends), 'renewed_ms',
    int(clock_ms))
  return { DONE, run.ends }
end, 1, 3, SHARED_KEYS))
