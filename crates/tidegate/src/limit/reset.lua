-- reset: forgets what a key has used. What stays until its end is that all of
-- the newest bucket was given back, so that receipts from before are void.
--
-- KEYS  the marker, then the key of each item
-- ARGV  now, window_ms, coalesce_ms, absurd_ms, slack_ms, capacity
-- Returns per item 1, or 0 if there was no such key
return each(function(key)
  local w = parse(redis.call('HGET', key, 'h'))
  if not w.stored then return 0 end
  redis.call('DEL', key)
  w.charged, w.total, w.capacity, w.tail = 0, 0, 0, w.newest
  save(key, w, true, 'r', voided(w))
  return 1
end, 0)
