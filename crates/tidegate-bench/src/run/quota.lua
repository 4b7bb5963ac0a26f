-- The seed's script, as its document has it.
local key = KEYS[1]
local increment = tonumber(ARGV[1])
local limit = tonumber(ARGV[2])
local ttl = tonumber(ARGV[3])

local current = redis.call('GET', key) or 0
current = tonumber(current)

if current + increment <= limit then
    local new_count = redis.call('INCRBY', key, increment)
    redis.call('EXPIRE', key, ttl)
    return {new_count, 1}
else
    return {current, 0}
end
