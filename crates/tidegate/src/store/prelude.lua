-- Shared by every script; put in front of each.
--
-- A script is one operation on one subject, run for a batch of subjects of the
-- same partition: KEYS[1] is the partition's marker, KEYS[2…] one key per item.
-- ARGV[1] is the time in ms, empty for the server's own; then what all items
-- share; then each item's own arguments.

-- The time in milliseconds: the server's, or the one a test set.
local function now()
  local set = ARGV[1]
  if set ~= '' then return tonumber(set) end
  local time = redis.call('TIME')
  return tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
end

-- An integer as text: `..` would write 16 digits as 1.79e+15.
local function int(n)
  return string.format('%.0f', n)
end

-- Runs `operation(key, at)` for each item, whose own `arguments` texts are
-- ARGV[at + 1] and on, and returns one reply per item. An item that fails
-- answers its error as text and leaves the others alone.
local function each(operation, arguments)
  local items = #KEYS - 1
  local at = #ARGV - items * arguments
  local replies = {}
  for i = 1, items do
    local ok, reply = pcall(operation, KEYS[i + 1], at)
    if not ok then reply = type(reply) == 'table' and reply.err or tostring(reply) end
    replies[i] = reply
    at = at + arguments
  end
  return replies
end

-- The time index: a sorted set of ids by the time they are due, in ms. It lives
-- `ttl_ms` from its last change, longer than any entity it lists.

local function index_put(index, due_ms, id, ttl_ms)
  redis.call('ZADD', index, int(due_ms), id)
  if redis.call('PTTL', index) < ttl_ms then redis.call('PEXPIRE', index, int(ttl_ms)) end
end

-- Up to `limit` ids that are due, the first first.
local function index_due(index, now_ms, limit)
  return redis.call('ZRANGEBYSCORE', index, '-inf', int(now_ms), 'LIMIT', 0, limit)
end
