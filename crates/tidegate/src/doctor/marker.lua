-- marker: that of a partition, as it is.
--
-- KEYS  the marker
-- ARGV  now, 1 to give it an end if it has none, how long that is (ms)
-- Answers  the store's time, its type, 1 if it has no end, 1 if it was given one, then its fields and values if it is a hash
local kind = redis.call('TYPE', KEYS[1]).ok
local is_endless = redis.call('PTTL', KEYS[1]) == -1 and kind == 'hash'
local is_mended = is_endless and ARGV[2] == '1'
if is_mended then redis.call('PEXPIRE', KEYS[1], ARGV[3]) end
local answer = { now(), kind, is_endless and 1 or 0, is_mended and 1 or 0 }
if kind == 'hash' then
  for _, text in ipairs(redis.call('HGETALL', KEYS[1])) do answer[#answer + 1] = text end
end
return answer
