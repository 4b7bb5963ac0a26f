-- failed: notes that an item has failed. The last call's id again changes nothing.
--
-- Keys  the run
-- Own   its id, attempt (empty: any), the item, the reason, the call's id
-- Answers  DONE, how often it has failed, 1 if this call counted, then the item that was dropped to make room, if one was; or
--          why not
return named(each(function(_, at)
  local id, item, reason, call_id = ARGV[at + 1], ARGV[at + 3], ARGV[at + 4], ARGV[at + 5]
  local run = read(id)
  local why = unchangeable(run, ARGV[at + 2])
  if why then return why end
  local failures, failed_at, to_retry = part('failures', id), part('failed_at', id), part('to_retry', id)
  local known = failure(call('HGET', failures, item))
  if known and known.id == call_id then return { DONE, known.count, 0 } end
  local count = call('HLEN', failures)
  -- If one of these is of another type, nothing is written.
  local oldest = call('ZRANGE', failed_at, 0, 0, 'WITHSCORES')
  call('ZCARD', to_retry)
  local this_hour = hour(run.now)
  local by_hour = part('failed', this_hour)
  -- An older program had a list under this name: an hour of that form lists nothing, and keeps nobody from failing.
  local is_listed, why_not = pcall(function()
    index_put(by_hour, run.now, member(id, item), run.now - clock_ms + ttl_ms + HOUR_MS + slack_ms)
    if call('ZCARD', by_hour) > MAX_HOUR then call('ZREMRANGEBYRANK', by_hour, 0, 0) end
  end)
  if not is_listed and not is_corrupt(why_not) then error(why_not, 0) end
  if known and hour(known.last) ~= this_hour then
    redis.pcall('ZREM', part('failed', hour(known.last)), member(id, item))
  end
  local times, first = known and known.count + 1 or 1, known and known.first or run.now
  call('HSET', failures, item, int(times) .. ' ' .. int(first) .. ' ' .. int(run.now) .. ' ' .. #call_id .. ':' .. call_id
    .. reason)
  call('ZADD', failed_at, int(run.now), item)
  call('ZADD', to_retry, int(run.now), item)
  local answer = { DONE, times, 1 }
  if not known and count >= max_failures and oldest[1] then
    call('HDEL', failures, oldest[1])
    call('ZREM', failed_at, oldest[1])
    call('ZREM', to_retry, oldest[1])
    redis.pcall('ZREM', part('failed', hour(tonumber(oldest[2]))), member(id, oldest[1]))
    answer[4] = oldest[1]
  end
  if count == 0 then
    expire(run, failures)
    expire(run, failed_at)
  end
  if call('ZCARD', to_retry) == 1 then expire(run, to_retry) end
  touch(run)
  return answer
end, 1, 5, SHARED_KEYS))
