-- delete: deletes a run. For the rest of its life its attempt is remembered.
--
-- Keys  the run
-- Own   its id, attempt (empty: any)
-- Answers  DONE; or why not
return named(each(function(k, at)
  local id = ARGV[at + 1]
  local is_read, run = pcall(read, id)
  if not is_read then
    -- Somebody else has written there: deleting it is what repairs it.
    if not is_corrupt(run) and not string.find(tostring(run), 'CORRUPT', 1, true) then error(run, 0) end
    erase(id)
    call('ZREM', DUE, id)
    return { DONE }
  end
  local why = refused(run, ARGV[at + 2])
  if why then return why end
  run.status = 'deleted'
  -- An index of another type fails the call before anything is done. What is erased comes first then: a server whose memory
  -- is full takes nothing else first.
  call('ZCARD', DUE)
  erase(id)
  index_put(DUE, run.ends, id, life(run))
  call('HSET', KEYS[k], 'dag_run_id', id, 'status', 'deleted', 'attempt', int(run.attempt), 'started_ms', int(run.now),
    'attempt_started_ms', int(run.now), 'updated_ms', int(run.now), 'ends_ms', int(run.ends), 'latest_end_ms',
    int(run.ends), 'renewed_ms', int(clock_ms), 'processed_before', '0')
  expire(run, KEYS[k])
  return { DONE }
end, 1, 2, SHARED_KEYS))
