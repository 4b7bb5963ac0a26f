-- start: starts a run, unless it is live already.
--
-- Keys  the run
-- Own   its id
-- Answers  DONE, its attempt, its state, 1 if this call started it; or why not
return named(each(function(k, at)
  local id = ARGV[at + 1]
  local run, attempt, now_ms = read(id), 1, clock_ms
  if run and not run.is_over then
    if IS_TERMINAL[run.status] then return { ENDED, run.status, run.attempt } end
    if run.status ~= 'deleted' then return { DONE, run.attempt, run.status, 0 } end
    attempt, now_ms = run.attempt + 1, run.now
  end
  local function is_full()
    return call('ZCARD', DUE) - (call('ZSCORE', DUE, id) and 1 or 0) >= max_runs
  end
  if is_full() then
    -- Some are listed as due that have been updated since: those are put back first.
    for _ = 1, 16 do
      local _, is_more = collect(clock_ms, 64)
      if not is_more then break end
    end
    if is_full() then return { TOO_MANY_RUNS } end
  end
  local new = { id = id, key = KEYS[k], status = 'running', started = now_ms, ends = now_ms + ttl_ms }
  -- What all runs share first: if that cannot be written, nothing is. An addition comes before what is erased: a server
  -- whose memory is full refuses the first that is written, and nothing after.
  for _, state in ipairs(STATES) do call('ZCARD', STARTED[state]) end
  index_put(DUE, new.ends, id, life(new))
  -- Also if nothing is known of it: what is left of a run may outlive its hash.
  erase(id)
  index_put(STARTED.running, now_ms, id, life(new))
  call('HSET', new.key, 'dag_run_id', id, 'status', 'running', 'attempt', int(attempt), 'start_time', iso(now_ms),
    'started_ms', int(now_ms), 'attempt_started_ms', int(now_ms), 'updated_ms', int(now_ms), 'ends_ms', int(new.ends),
    'renewed_ms', int(clock_ms), 'processed_before', '0')
  expire(new, new.key)
  return { DONE, attempt, 'running', 1 }
end, 1, 1, SHARED_KEYS))
