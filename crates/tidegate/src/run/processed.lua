-- processed: notes that items are processed.
--
-- Keys  the run
-- Own   its id, attempt (empty: any), the items
-- Answers  DONE, how many of them are new, how many there are now; or why not
return named(each(function(_, at)
  local id, first, last = ARGV[at + 1], at + 3, #ARGV
  local run = read(id)
  local why = unchangeable(run, ARGV[at + 2])
  if why then return why end
  local key, to_retry = part('processed', id), part('to_retry', id)
  local before, new, is_full = call('SCARD', key), 0, false
  -- If it is of another type, nothing is written.
  local is_failing = call('ZCARD', to_retry) > 0
  if first <= last and before + last - first < max_processed then
    new = call('SADD', key, unpack(ARGV, first, last))
    if is_failing then call('ZREM', to_retry, unpack(ARGV, first, last)) end
  else
    for i = first, last do
      local is_new = call('SISMEMBER', key, ARGV[i]) == 0
      if is_new and before + new >= max_processed then
        is_full = true
      else
        if is_new then new = new + call('SADD', key, ARGV[i]) end
        if is_failing then call('ZREM', to_retry, ARGV[i]) end
      end
    end
  end
  if before == 0 and new > 0 then expire(run, key) end
  touch(run)
  return is_full and { FULL, new } or { DONE, new, before + new }
end, 1, #ARGV - 1 - SHARED_ARGS, SHARED_KEYS))
