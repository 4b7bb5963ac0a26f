-- Shared by every script; put in front of each.
--
-- A script is one operation on one subject, run for a batch of subjects of the
-- same partition: KEYS[1] is the partition's marker; then come keys that all items
-- share, if there are any, then the keys of each item, as many for each. ARGV[1] is the time in ms, empty for the server's own;
-- then what all items share; then each item's own arguments.

-- The time in microseconds: the server's, or the one a test set.
local function now_micros()
  local set = ARGV[1]
  if set ~= '' then return tonumber(set) * 1000 end
  local time = redis.call('TIME')
  return tonumber(time[1]) * 1000000 + tonumber(time[2])
end

-- The time in milliseconds.
local function now()
  return math.floor(now_micros() / 1000)
end

-- The moment that decides: the clock's, or that of the latest stamp if the clock is behind it; and
-- whether the stamp is absurd, more than `absurd` ahead: then it was left by a clock that was wrong.
-- In ms, or in whatever all three are. `clock.rs` has the same.
local function deciding(clock, stamp, absurd)
  local is_absurd = stamp > clock + absurd
  return is_absurd and clock or math.max(clock, stamp), is_absurd
end

-- An integer as text: `..` would write 16 digits as 1.79e+15.
local function int(n)
  return string.format('%.0f', n)
end

-- Whether one text is before another, byte by byte, as a sorted set has them. `<` goes by
-- the server's locale.
local function is_before(one, other)
  local at, shorter = 1, math.min(#one, #other)
  while at <= shorter do
    local a, b
    -- Six bytes are a number that is exact.
    if at + 5 <= shorter then
      a, b, at = struct.unpack('>I6', one, at), struct.unpack('>I6', other, at), at + 6
    else
      a, b, at = string.byte(one, at), string.byte(other, at), at + 1
    end
    if a ~= b then return a < b end
  end
  return #one < #other
end

-- Whether an error is of a key that is not what it should be, and not of a server that
-- cannot write. In Redis 6 it is a text, since 7 a table. Rust goes by the same words.
local function is_corrupt(failure)
  local text = type(failure) == 'table' and failure.err or tostring(failure)
  local marks = { 'WRONGTYPE', 'attempt to ', 'bad argument', 'data string too short', 'unfinished string', 'not an integer',
    'not a valid float', 'cannot be read' }
  for _, mark in ipairs(marks) do
    if string.find(text, mark, 1, true) then return true end
  end
  return false
end

-- Runs `operation(k, at)` for each item, whose `keys` keys are KEYS[k] and on,
-- and whose own `arguments` texts are ARGV[at + 1] and on; returns one reply per
-- item. An item that fails answers its error as text and leaves the others alone.
-- How many there are is told by their keys, or by `items` where they have none of their own.
local function each(operation, keys, arguments, shared_keys, items)
  shared_keys = shared_keys or 0
  items = items or (#KEYS - 1 - shared_keys) / keys
  local k, at = 2 + shared_keys, #ARGV - items * arguments
  local replies = {}
  for i = 1, items do
    local ok, reply = pcall(operation, k, at)
    if not ok then reply = type(reply) == 'table' and reply.err or tostring(reply) end
    replies[i] = reply
    k, at = k + keys, at + arguments
  end
  return replies
end

-- The time index: a sorted set of ids by the time they are due, in ms. It lives
-- `ttl_ms` from its last change, longer than any entity it lists.

local function index_put(index, due_ms, id, ttl_ms)
  redis.call('ZADD', index, int(due_ms), id)
  if redis.call('PTTL', index) < ttl_ms then redis.call('PEXPIRE', index, int(ttl_ms)) end
end

-- Drops some that are due: more than one addition adds.
local function index_drop_due(index, now_ms)
  local due = redis.call('ZRANGEBYSCORE', index, '-inf', int(now_ms), 'LIMIT', 0, 16)
  if #due > 0 then redis.call('ZREM', index, unpack(due)) end
end

-- Up to `limit` ids that are due, the first first.
local function index_due(index, now_ms, limit)
  return redis.call('ZRANGEBYSCORE', index, '-inf', int(now_ms), 'LIMIT', 0, limit)
end

-- How many members are before a place: earlier, or at the same time with a text that is before its own; with the
-- place itself, if that `is_included`.
local function index_rank(index, at_ms, member, is_included)
  local low = redis.call('ZCOUNT', index, '-inf', '(' .. int(at_ms))
  local high = low + redis.call('ZCOUNT', index, int(at_ms), int(at_ms))
  while low < high do
    local middle = math.floor((low + high) / 2)
    local other = redis.call('ZRANGE', index, middle, middle)[1]
    if is_before(other, member) or (is_included and other == member) then low = middle + 1 else high = middle end
  end
  return low
end
