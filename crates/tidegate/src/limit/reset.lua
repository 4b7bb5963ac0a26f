-- reset: forgets what a key has used. What stays until its end is the number of
-- the newest bucket, so that receipts from before are void.
--
-- KEYS  the marker, then the key of each item
-- ARGV  now, window_ms, coalesce_ms, absurd_ms, slack_ms
-- Returns per item 1, or 0 if there was no such key
return each(function(key)
  local w = fetch(key)
  if not w.stored then return 0 end
  redis.call('DEL', key)
  w.charged, w.total, w.capacity, w.void_below, w.tail = 0, 0, 0, w.ever, w.newest
  save(key, w, true)
  return 1
end, 0)
