-- pin: over how many partitions a space is spread. Who comes first says so, in the marker of
-- its first partition; without a marker, after a flush, nobody has until it is there again.
--
-- Own   the field of the space, its partitions
-- Answers  as many as it is spread over; 0 if nobody has said so, and the server takes no
--          writes
return each(function(_, at)
  local field, partitions = ARGV[at + 1], ARGV[at + 2]
  if redis.call('EXISTS', KEYS[1]) == 0 then return tonumber(partitions) end
  -- Who finds it writes nothing: a server that takes no writes is still asked.
  local stored = tonumber(redis.call('HGET', KEYS[1], field))
  if stored and stored >= 1 and stored <= 64 then return stored end
  -- Nobody has said that.
  local written = redis.pcall('HSET', KEYS[1], field, partitions)
  return type(written) == 'table' and 0 or tonumber(partitions)
end, 1, 2)
