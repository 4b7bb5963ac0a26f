-- pin: over how many partitions a space is spread. Who comes first says so, in the marker of
-- its first partition; without a marker, after a flush, nobody has until it is there again.
--
-- Own   the field of the space, its partitions
-- Answers  as many as it is spread over
return each(function(_, at)
  local field, partitions = ARGV[at + 1], ARGV[at + 2]
  if redis.call('EXISTS', KEYS[1]) == 0 then return tonumber(partitions) end
  redis.call('HSETNX', KEYS[1], field, partitions)
  local stored = tonumber(redis.call('HGET', KEYS[1], field))
  if stored and stored >= 1 and stored <= 64 then return stored end
  -- Nobody has said that.
  redis.call('HSET', KEYS[1], field, partitions)
  return tonumber(partitions)
end, 1, 2)
