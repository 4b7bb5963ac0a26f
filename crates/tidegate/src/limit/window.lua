-- What the sliding scripts share; stands between the prelude and each of them.
--
-- A key is one hash:
--   h         the header, eight doubles: coalesce_ms, newest bucket, what counts
--             in it, what was ever charged to it, the total of all buckets, the
--             first number an older bucket may have, which of its lives the key
--             is in (it starts another when all is over; a receipt is good for
--             one), the capacity of the last take_with (or 0)
--   <number>  what counts in an older bucket
--   r         what was given back: bucket, offset and cost, three doubles each;
--             a receipt that overlaps one of these is void
-- A bucket counts until its end + window.
local now_ms = now()
local window_ms, coalesce_ms, absurd_ms, slack_ms = tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
local configured = tonumber(ARGV[6])
local HEADER, REFUND, LIVES = '<dddddddd', '<ddd', 64

local function end_of_life(bucket)
  return (bucket + 1) * coalesce_ms + window_ms
end

-- Whether a bucket can only be from a clock that was wrong.
local function is_absurd(bucket)
  return bucket * coalesce_ms > now_ms + absurd_ms
end

-- A key by its header. `stored` is false if there is none.
local function parse(header)
  if not header then
    return { newest = 0, charged = 0, ever = 0, total = 0, tail = 0, life = 0, capacity = 0, stored = false }
  end
  local grid, newest, charged, ever, total, tail, life, capacity = struct.unpack(HEADER, header)
  local w = { newest = newest, charged = charged, ever = ever, total = total,
    tail = tail, life = life, capacity = capacity, stored = true }
  if grid ~= coalesce_ms then
    -- Written on another grid: all of it counts as if charged at its newest
    -- moment, which can only be late. Receipts from before are void.
    w.newest = math.floor(((newest + 1) * grid - 1) / coalesce_ms)
    w.charged, w.ever, w.tail, w.rewrite = total, total, w.newest, true
  end
  return w
end

-- The counts of the older buckets from one number to another, false where there
-- is none. Redis writes a number with 17 digits, so all of ours arrive whole.
local function counts(key, from, to)
  local numbers = {}
  for number = from, to do numbers[number - from + 1] = number end
  return redis.call('HMGET', key, unpack(numbers))
end

local function sum(key, from, to)
  local total = 0
  if from <= to then
    for _, count in ipairs(counts(key, from, to)) do
      if count then total = total + tonumber(count) end
    end
  end
  return total
end

-- Adds `instant`, what still counts then, and the first number that does. The
-- time that decides is the clock's, or that of the newest charge if the clock is
-- behind.
local function live(key, w)
  local absurd = is_absurd(w.newest)
  w.instant = absurd and now_ms or math.max(now_ms, w.newest * coalesce_ms)
  w.started_over = absurd or end_of_life(w.newest) <= w.instant
  w.live, w.first = w.total, w.tail
  if w.started_over then
    w.live = 0
  elseif w.tail < w.newest then
    w.first = math.max(math.min(math.floor((w.instant - window_ms) / coalesce_ms), w.newest), w.tail)
    local dead, alive = w.first - w.tail, w.newest - w.first
    if dead == 0 then return end
    -- The shorter way: take away what is over, or add up what is not.
    if dead <= alive then
      w.live = w.total - sum(key, w.tail, w.first - 1)
    else
      w.live = w.charged + sum(key, w.first, w.newest - 1)
    end
  end
end

-- Drops the buckets that `live` found to be over; whether the key was made anew.
local function forget(key, w)
  local from, to = w.tail, w.first - 1
  w.tail = w.first
  if from > to then return false end
  if w.first < w.newest or to - from < 16 then
    local numbers = {}
    for number = from, to do numbers[number - from + 1] = number end
    redis.call('HDEL', key, unpack(numbers))
    return false
  end
  -- Nothing but the header and the refunds is left.
  local refunds = redis.call('HGET', key, 'r')
  redis.call('UNLINK', key)
  if refunds then redis.call('HSET', key, 'r', refunds) end
  return true
end

-- Writes the header, and with `born` the end of the key.
local function save(key, w, born, ...)
  local header = struct.pack(HEADER, coalesce_ms, w.newest, w.charged, w.ever, w.total, w.tail, w.life,
    w.capacity)
  redis.call('HSET', key, 'h', header, ...)
  if born then
    -- No longer than a right clock would give it.
    local longest_ms = absurd_ms + coalesce_ms + window_ms
    local rest_ms = math.min(math.max(end_of_life(w.newest) - now_ms, 0), longest_ms)
    redis.call('PEXPIRE', key, int(rest_ms + slack_ms))
  end
end

-- A refund record that voids all receipts of the newest bucket so far.
local function voided(w)
  return struct.pack(REFUND, w.newest, 0, w.ever)
end

local function reset_after(w)
  return w.live == 0 and 0 or end_of_life(w.newest) - now_ms
end

-- How long until `cost` fits into `capacity`: milliseconds, and what is free
-- then. Both -1 if it never does. Looks at 16 buckets at a time: mostly the first
-- is enough.
local function wait(key, w, cost, capacity)
  if cost > capacity then return -1, -1 end
  local needed, freed = w.live + cost - capacity, 0
  for from = w.first, w.newest - 1, 16 do
    for i, count in ipairs(counts(key, from, math.min(from + 15, w.newest - 1))) do
      if count then
        freed = freed + tonumber(count)
        if freed >= needed then
          return end_of_life(from + i - 1) - now_ms, math.max(capacity - (w.live - freed), 0)
        end
      end
    end
  end
  return end_of_life(w.newest) - now_ms, capacity
end

-- A refusal: nothing is written.
local function refuse(key, w, cost, capacity)
  local retry_after, remaining_after = wait(key, w, cost, capacity)
  return { 0, capacity, w.live, reset_after(w), retry_after, remaining_after }
end

-- With ARGV[7] = 1: for how long everything is refused after a loss. A marker
-- that is gone is a loss, and so is whatever else was here; ARGV[8] is its TTL.
local function held()
  if ARGV[7] ~= '1' then return 0 end
  local lost_ms = tonumber(redis.call('HGET', KEYS[1], 'lost_ms'))
  -- A stamp far ahead is from a clock that was wrong.
  if not lost_ms or lost_ms > now_ms + absurd_ms then
    lost_ms = now_ms
    redis.call('HSET', KEYS[1], 'lost_ms', int(lost_ms))
    redis.call('PEXPIRE', KEYS[1], ARGV[8])
  end
  return lost_ms > 0 and lost_ms + window_ms - now_ms or 0
end
