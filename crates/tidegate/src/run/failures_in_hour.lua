-- failures_in_hour: items of all runs that failed last in an hour, behind a place, the latest first.
--
-- Keys  the index of the hour
-- Own   the first ms of the hour, where to go on (ms and member; empty: at the latest), how many
-- Answers  1 if there may be more, how far it has looked (ms and member), then of each run, item, reason, how often, when first
--          and last, 1 if it was not processed since
return named(each(function(k, at)
  local from_ms, after_ms, after = tonumber(ARGV[at + 1]), tonumber(ARGV[at + 2]), ARGV[at + 3]
  local limit, set, runs = tonumber(ARGV[at + 4]), KEYS[k], {}
  local rank = after_ms and index_rank(set, after_ms, after) or call('ZCARD', set)
  local answer, found, looked_at = { 0, 0, '' }, 0, 0
  while rank > 0 and found < limit and looked_at < limit + 1000 do
    local some = call('ZRANGE', set, math.max(rank - 100, 0), rank - 1, 'WITHSCORES')
    for i = #some - 1, 1, -2 do
      if found == limit then break end
      local name, at_ms = some[i], tonumber(some[i + 1])
      answer[2], answer[3], looked_at, rank = at_ms, name, looked_at + 1, rank - 1
      local length, from = string.match(name, '^(%d+):()')
      if length then
        local id = string.sub(name, from, from + length - 1)
        local item = string.sub(name, from + length)
        -- A run that somebody else has written over is one that is not there.
        if runs[id] == nil then
          local is_read, run = pcall(read, id)
          runs[id] = is_read and not refused(run) and run or false
        end
        local run = runs[id]
        local text = run and redis.pcall('HGET', part('failures', id), item)
        local known = type(text) == 'string' and failure(text)
        if known and known.last == at_ms and at_ms >= from_ms and at_ms < from_ms + HOUR_MS and at_ms + ttl_ms > run.now then
          local is_open = type(redis.pcall('ZSCORE', part('to_retry', id), item)) == 'string'
          found = found + 1
          for _, field in ipairs({ id, item, known.reason, known.count, known.first, known.last, is_open and 1 or 0 }) do
            answer[#answer + 1] = field
          end
        end
      end
    end
  end
  if rank > 0 then answer[1] = 1 end
  return answer
end, 1, 4, SHARED_KEYS))
