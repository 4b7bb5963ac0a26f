-- refund: gives back one charge, once; nothing if it no longer counts.
--
-- KEYS  the marker, then the key of each item
-- ARGV  now, window_ms, coalesce_ms, absurd_ms, slack_ms, capacity, max_refunds;
--       per item: bucket and life, offset, cost
-- Returns per item what was given back, 0 for nothing
local max_refunds = tonumber(ARGV[7])

return each(function(key, at)
  local bucket, offset, cost = tonumber(ARGV[at + 1]), tonumber(ARGV[at + 2]), tonumber(ARGV[at + 3])
  local w = parse(redis.call('HGET', key, 'h'))
  local life = bucket % LIVES
  bucket = (bucket - life) / LIVES
  if not w.stored or life ~= w.life then return 0 end
  live(key, w)
  if w.started_over or w.rewrite or bucket > w.newest or end_of_life(bucket) <= w.instant then return 0 end
  local count
  if bucket == w.newest then
    if offset + cost > w.ever then return 0 end
  else
    count = tonumber(redis.call('HGET', key, int(bucket)))
    if not count or count < cost then return 0 end
  end

  local kept, packed = {}, redis.call('HGET', key, 'r') or ''
  for at = 1, #packed, 24 do
    local b, o, c = struct.unpack(REFUND, packed, at)
    if end_of_life(b) > w.instant then
      if b == bucket and offset < o + c and o < offset + cost then return 0 end
      kept[#kept + 1] = string.sub(packed, at, at + 23)
    end
  end
  if #kept >= max_refunds then return 0 end
  kept[#kept + 1] = struct.pack(REFUND, bucket, offset, cost)

  local born = forget(key, w)
  w.total = w.live - cost
  if count then
    save(key, w, born, int(bucket), int(count - cost), 'r', table.concat(kept))
  else
    w.charged = w.charged - cost
    save(key, w, born, 'r', table.concat(kept))
  end
  return cost
end, 3)
