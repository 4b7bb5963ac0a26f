-- take: charges a cost to a key if it fits.
--
-- KEYS  the marker, then the key of each item
-- ARGV  now, window_ms, coalesce_ms, absurd_ms, slack_ms, capacity, hold (1:
--       refuse for a window after a loss), marker_ttl_ms; per item: cost, and the
--       capacity to judge by instead, which a later peek uses too (0: none)
-- Returns per item
--       admitted  1, capacity, total, reset_after_ms, bucket and life, offset
--       rejected  0, capacity, total, reset_after_ms, retry_after_ms, remaining
--       held      2, until_ms from now
local held_ms = held()
local bucket_now = math.floor(now_ms / coalesce_ms)
local reset_after_now = end_of_life(bucket_now) - now_ms
-- Buckets from this number on still count.
local first_live = math.floor((now_ms - window_ms) / coalesce_ms)

-- Anything but a further charge to the bucket of this moment.
local function take(key, header, cost, capacity, remember)
  local w = parse(header)
  live(key, w)
  if w.live + cost > capacity then return refuse(key, w, cost, capacity) end

  local bucket = math.floor(w.instant / coalesce_ms)
  -- The key's end moves with its newest bucket, and with a clock that stepped back.
  local born = bucket ~= w.newest or not w.stored or w.rewrite or w.instant > now_ms
  if w.started_over or w.rewrite then
    if w.stored then redis.call('UNLINK', key) end
    if w.started_over then
      w.newest, w.charged, w.ever, w.tail, w.first = bucket, 0, 0, bucket, bucket
      w.life = (w.life + 1) % LIVES
    else
      redis.call('HSET', key, 'r', voided(w))
    end
  else
    born = forget(key, w) or born
  end
  local finished, count
  if bucket ~= w.newest then
    if w.charged > 0 then
      finished, count = int(w.newest), int(w.charged)
    elseif w.tail >= w.newest then
      w.tail = bucket
    end
    w.newest, w.charged, w.ever = bucket, 0, 0
  end
  local offset = w.ever
  w.charged, w.ever, w.total, w.capacity = w.charged + cost, w.ever + cost, w.live + cost, remember
  if finished then save(key, w, born, finished, count) else save(key, w, born) end
  return { 1, capacity, w.total, end_of_life(bucket) - now_ms, bucket * LIVES + w.life, offset }
end

return each(function(key, at)
  local cost, remember = tonumber(ARGV[at + 1]), tonumber(ARGV[at + 2])
  local capacity = remember == 0 and configured or remember
  if held_ms > 0 then return { 2, held_ms } end
  local header = redis.call('HGET', key, 'h')
  if header then
    local grid, newest, charged, ever, total, tail, life = struct.unpack(HEADER, header)
    if newest == bucket_now and grid == coalesce_ms and tail >= first_live and total + cost <= capacity then
      total = total + cost
      redis.call('HSET', key, 'h',
        struct.pack(HEADER, grid, newest, charged + cost, ever + cost, total, tail, life, remember))
      return { 1, capacity, total, reset_after_now, newest * LIVES + life, ever }
    end
  end
  return take(key, header, cost, capacity, remember)
end, 2)
