-- flush: in front of `count`, so that what a node has gathered counts once, however often and however late it is sent.
--
-- KEYS  behind those that all share: the number of the last flush that a node has sent
-- ARGV  behind the time: the number of this one, from 1 on, and for how long it is remembered (ms)
-- Answers  as `count` does, or of each that the batch was here before
-- A node begins with the next when this one is answered for, so what is not above the last has been here, or was given up.
-- It is written first: a server whose memory is full refuses that, and then nothing is counted either.
SHARED_KEYS = 6
local known = redis.pcall('GET', KEYS[7])
if tonumber(ARGV[2]) <= (type(known) == 'string' and number_of(known, 0, MAX_WHOLE) or 0) then
  return each(function() return REPEATED end, KEYS_OF_ITEM, 1, SHARED_KEYS)
end
call('SET', KEYS[7], ARGV[2], 'PX', ARGV[3])
