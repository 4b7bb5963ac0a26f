-- take: charges a cost to a key if it fits.
--
-- KEYS  the marker, then the key of each item
-- ARGV  now, window_ms, coalesce_ms, absurd_ms, slack_ms, hold (1: refuse for a
--       window after a loss), marker_ttl_ms; per item: cost, capacity, and the
--       capacity that a later peek shall judge by (0: the configured one)
-- Returns per item
--       admitted  1, capacity, total, reset_after_ms, bucket, offset
--       rejected  0, capacity, total, reset_after_ms, retry_after_ms, remaining
--       held      2, until_ms from now
local held_ms = held()

return each(function(key, item)
  local cost, capacity, remember = tonumber(item[1]), tonumber(item[2]), tonumber(item[3])
  if held_ms > 0 then return { 2, held_ms } end
  local w = fetch(key)
  live(key, w)
  if w.live + cost > capacity then return refuse(key, w, cost, capacity) end

  local bucket = math.floor(w.instant / coalesce_ms)
  -- The key's end moves with its newest bucket, and with a clock that stepped back.
  local born = bucket ~= w.newest or not w.stored or w.rewrite or w.instant > now_ms
  if w.started_over or w.rewrite then
    if w.stored then redis.call('DEL', key) end
    if w.started_over then
      w.newest, w.charged, w.ever, w.tail, w.first = bucket, 0, 0, bucket, bucket
    else
      redis.call('HSET', key, 'r', voided(w))
    end
  elseif w.dead then
    redis.call('HDEL', key, unpack(w.dead))
  end
  w.tail = math.max(w.first, w.tail)
  local finished, count
  if bucket ~= w.newest then
    if w.charged > 0 then finished, count = int(w.newest), int(w.charged) end
    if not finished and w.tail >= w.newest then w.tail = bucket end
    w.newest, w.charged, w.ever = bucket, 0, 0
  end
  local offset = w.ever
  w.charged, w.ever, w.total, w.capacity = w.charged + cost, w.ever + cost, w.live + cost, remember
  if finished then save(key, w, born, finished, count) else save(key, w, born) end
  return { 1, capacity, w.total, end_of_life(bucket) - now_ms, bucket, offset }
end, 3)
