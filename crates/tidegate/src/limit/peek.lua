-- peek: what a take of one permit would be told. Changes nothing of the key.
--
-- KEYS  the marker, then the key of each item
-- ARGV  as of take, with no arguments per item
-- Returns per item
--       fits      1, capacity, total, reset_after_ms
--       rejected  0, capacity, total, reset_after_ms, retry_after_ms, remaining
--       held      2, until_ms from now
local held_ms = held()

return each(function(key)
  if held_ms > 0 then return { 2, held_ms } end
  local w = parse(redis.call('HGET', key, 'h'))
  live(key, w)
  local capacity = (w.started_over or w.capacity == 0) and configured or w.capacity
  if w.live + 1 > capacity then return refuse(key, w, 1, capacity) end
  return { 1, capacity, w.live, reset_after(w) }
end, 0)
