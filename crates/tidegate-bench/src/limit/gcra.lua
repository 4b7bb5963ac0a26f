-- A bare GCRA: the least that a limit on Redis can do, one value under one key.
--
-- KEYS  the key
-- ARGV  microseconds per permit, burst in permits, cost
-- Returns 1 and what is left, or 0 and the milliseconds to wait
local each_us, burst, cost = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local time = redis.call('TIME')
local now_us = tonumber(time[1]) * 1000000 + tonumber(time[2])
local full_at = math.max(tonumber(redis.call('GET', KEYS[1])) or now_us, now_us) + each_us * cost
local over_us = full_at - now_us - each_us * burst
if over_us > 0 then return { 0, math.ceil(over_us / 1000) } end
redis.call('SET', KEYS[1], string.format('%.0f', full_at), 'PX', math.ceil((full_at - now_us) / 1000))
return { 1, math.floor(-over_us / each_us) }
