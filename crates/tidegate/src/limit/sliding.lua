-- The sliding limit: at most `capacity` in any window, wherever it starts.
--
-- A key is one hash:
--   h         the header: coalesce_ms, which of its lives the key is in (it starts
--             another when all is over; a receipt is good for one), how far below
--             the newest bucket the first number is that an older bucket may have,
--             how far above it the last one is that one ahead has; then as doubles
--             the newest bucket, what counts in it, what was ever charged to it,
--             the total of all buckets, the capacity of the last take_with (or 0)
--   <number>  what counts in any other bucket
--   r         what was given back: bucket, offset and cost, three doubles each;
--             a receipt that overlaps one of these is void
-- A bucket counts until its end + window. One ahead of the newest holds what may
-- still be spent until then: reservations and leases.
--
-- Others may have the same limit with a longer window. Nothing is dropped that counts in
-- it, and no more is admitted than it allows: so what the longest window promises holds,
-- whoever is asked.
--
-- Numbers: window_ms, coalesce_ms, absurd_ms; the longest window that anybody counts by, and
-- its capacity. Terms: capacity
local function sliding(at, now_us, slack_ms, own_capacity)
  local now_ms = math.floor(now_us / 1000)
  local window_ms, coalesce_ms, absurd_ms = tonumber(ARGV[at + 1]), tonumber(ARGV[at + 2]), tonumber(ARGV[at + 3])
  local kept_ms, kept_capacity = tonumber(ARGV[at + 4]), tonumber(ARGV[at + 5])
  local is_longest = kept_ms <= window_ms
  local HEADER, REFUND, LIVES = '<I4BHHddddd', '<ddd', 64
  local HGET, HSET = 'HGET', 'HSET'
  local bucket_now = math.floor(now_ms / coalesce_ms)
  -- Buckets from this number on still count.
  local first_live = math.floor((now_ms - window_ms) / coalesce_ms)
  -- Of a key without a subject so much is behind the root: `absolute:h:`.
  local rule = { keys = 1, own = 2, everyone = 11, window_ms = window_ms, absurd_ms = absurd_ms }

  local function end_of_life(bucket)
    return (bucket + 1) * coalesce_ms + window_ms
  end
  rule.end_of_life = end_of_life

  -- When a bucket counts for nobody any more.
  local function end_of_keep(bucket)
    return (bucket + 1) * coalesce_ms + kept_ms
  end

  -- Whether others would have too much. A rate of a key's own goes before what they allow.
  local function is_too_much(kept, capacity)
    return not is_longest and capacity == own_capacity and kept > kept_capacity
  end

  -- The counts of the other buckets from one number to another, false where there
  -- is none. Redis writes a number with 17 digits, so all of ours arrive whole.
  local function counts(key, from, to)
    local numbers = {}
    for number = from, to do numbers[number - from + 1] = number end
    return redis.call('HMGET', key, unpack(numbers))
  end

  local function sum(key, w, from, to)
    local total = (from <= w.newest and w.newest <= to) and w.charged or 0
    if from <= to then
      for _, count in ipairs(counts(key, from, to)) do
        if count then total = total + tonumber(count) end
      end
    end
    return total
  end

  -- What still counts in a window of a key, and the first number that does.
  local function within(key, w, window)
    if (w.last + 1) * coalesce_ms + window <= w.instant then return 0, w.last + 1 end
    local first = math.max(math.min(math.floor((w.instant - window) / coalesce_ms), w.last), w.tail)
    local dead, alive = first - w.tail, w.last - first
    -- The shorter way: take away what is over, or add up what is not.
    if dead == 0 then return w.total, first end
    if dead <= alive then return w.total - sum(key, w, w.tail, first - 1), first end
    return sum(key, w, first, w.last), first
  end

  -- A key by its header, with `instant`, what still counts then (`live`) and the first
  -- number that does, and the same for whoever counts longest (`kept`). The time that decides is the clock's, or that of the newest
  -- charge if the clock is behind.
  local function look(key, header)
    local w
    if header then
      local grid, life, below, above, newest, charged, ever, total, capacity = struct.unpack(HEADER, header)
      w = { newest = newest, charged = charged, ever = ever, total = total, tail = newest - below,
        last = newest + above, life = life, capacity = capacity, stored = true }
      if grid ~= coalesce_ms then
        -- Written on another grid: all of it counts as if charged at its latest
        -- moment, which can only be late. Receipts from before are void, and the capacity
        -- of the last take_with was that of another window.
        w.newest, w.capacity = math.floor(((w.last + 1) * grid - 1) / coalesce_ms), 0
        w.charged, w.ever, w.tail, w.last, w.rewrite = total, total, w.newest, w.newest, true
      end
    else
      w = { newest = 0, charged = 0, ever = 0, total = 0, tail = 0, last = 0, life = 0, capacity = 0, stored = false }
    end
    local is_absurd
    w.instant, is_absurd = deciding(now_ms, w.newest * coalesce_ms, absurd_ms)
    w.started_over = is_absurd or end_of_keep(w.last) <= w.instant
    if w.started_over then
      w.live, w.first = 0, w.tail
    else
      w.live, w.first = within(key, w, window_ms)
    end
    w.kept, w.kept_first = w.live, w.first
    if not is_longest and not w.started_over then w.kept, w.kept_first = within(key, w, kept_ms) end
    return w
  end

  -- A refund record that voids all receipts of the newest bucket so far.
  local function voided(w)
    return struct.pack(REFUND, w.newest, 0, w.ever)
  end

  -- Drops what `look` found to be over; a key that starts over begins at the
  -- bucket of this moment. Every write does this first.
  local function forget(key, w)
    if w.started_over or w.rewrite then
      if w.stored then redis.call('UNLINK', key) end
      w.born = true
      if w.started_over then
        local bucket = math.floor(w.instant / coalesce_ms)
        w.newest, w.charged, w.ever, w.tail, w.kept_first, w.last = bucket, 0, 0, bucket, bucket, bucket
        w.life, w.total, w.capacity = (w.life + 1) % LIVES, 0, 0
      else
        redis.call(HSET, key, 'r', voided(w))
      end
      return
    end
    local from, to = w.tail, w.kept_first - 1
    w.tail, w.total = w.kept_first, w.kept
    if from > to then return end
    if w.newest <= to then w.charged, w.ever = 0, 0 end
    if w.kept_first < w.newest or w.last > w.newest or to - from < 16 then
      local numbers = {}
      for number = from, to do numbers[number - from + 1] = number end
      redis.call('HDEL', key, unpack(numbers))
      return
    end
    -- Nothing but the header and the refunds is left.
    local refunds = redis.call(HGET, key, 'r')
    redis.call('UNLINK', key)
    if refunds then redis.call(HSET, key, 'r', refunds) end
    w.born = true
  end

  -- Writes the header, and with `born` the end of the key.
  local function save(key, w, ...)
    local tail = math.min(w.tail, w.newest)
    local header = struct.pack(HEADER, coalesce_ms, w.life, w.newest - tail, w.last - w.newest, w.newest, w.charged,
      w.ever, w.total, w.capacity)
    redis.call(HSET, key, 'h', header, ...)
    if w.born then
      -- No longer than a right clock would give it.
      local longest_ms = absurd_ms + coalesce_ms + kept_ms * 2
      local rest_ms = math.min(math.max(end_of_keep(w.last) - now_ms, 0), longest_ms)
      redis.call('PEXPIRE', key, int(rest_ms + slack_ms))
    end
  end

  -- Makes the bucket of the deciding moment the newest; the field to write for
  -- the one that was.
  local function start(key, w)
    local bucket = math.floor(w.instant / coalesce_ms)
    -- The key's end moves with its newest bucket, and with a clock that stepped back.
    w.born = w.born or bucket ~= w.newest or not w.stored or w.instant > now_ms
    if bucket == w.newest then return end
    local finished, count
    if w.charged > 0 then
      finished, count = int(w.newest), int(w.charged)
    elseif w.tail >= w.newest and w.last <= w.newest then
      -- There is no other.
      w.tail = bucket
    end
    w.newest, w.charged, w.ever = bucket, 0, 0
    if w.last >= bucket then
      local ahead = redis.call(HGET, key, int(bucket))
      if ahead then
        redis.call('HDEL', key, int(bucket))
        w.charged, w.ever = tonumber(ahead), tonumber(ahead)
      end
    else
      w.last = bucket
    end
    return finished, count
  end

  local function reset_after(w)
    return w.live == 0 and 0 or end_of_life(w.last) - now_ms
  end

  -- How long until `cost` fits into `capacity` of a window, of which `live` counts:
  -- milliseconds, and what is free then. Looks at 16 buckets at a time: mostly the first
  -- is enough.
  local function wait_within(key, w, cost, capacity, live, first, window)
    local needed, freed = live + cost - capacity, 0
    if needed <= 0 then return 0, capacity - live end
    for from = first, w.last, 16 do
      local to = math.min(from + 15, w.last)
      local found = (from == to and to == w.newest) and {} or counts(key, from, to)
      for number = from, to do
        local count = number == w.newest and w.charged or found[number - from + 1]
        if count then
          freed = freed + tonumber(count)
          if freed >= needed then
            return (number + 1) * coalesce_ms + window - now_ms, math.max(capacity - (live - freed), 0)
          end
        end
      end
    end
    return (w.last + 1) * coalesce_ms + window - now_ms, capacity
  end

  -- The same for whoever is asked and for whoever counts longest. Both NEVER if it never does.
  local function wait(key, w, cost, capacity)
    if cost > capacity or is_too_much(cost, capacity) then return NEVER, NEVER end
    local retry_after, remaining = wait_within(key, w, cost, capacity, w.live, w.first, window_ms)
    if is_too_much(w.kept + cost, capacity) then
      local later, left = wait_within(key, w, cost, kept_capacity, w.kept, w.kept_first, kept_ms)
      if later > retry_after then return later, math.min(left, capacity) end
    end
    return retry_after, remaining
  end

  local function remaining(w, capacity)
    local left = capacity - w.live
    if is_too_much(w.kept + left, capacity) then left = kept_capacity - w.kept end
    return math.max(left, 0)
  end

  local function fits(w, cost, capacity)
    return w.live + cost <= capacity and not is_too_much(w.kept + cost, capacity)
  end

  -- Whether a cost fits: what to charge by, or a refusal. Writes nothing.
  function rule.judge(k, cost, capacity)
    local key = KEYS[k]
    local w = look(key, redis.call(HGET, key, 'h'))
    if not fits(w, cost, capacity) then
      local retry_after, remaining_after = wait(key, w, cost, capacity)
      return nil, { REFUSED, capacity, remaining(w, capacity), reset_after(w), retry_after, remaining_after }
    end
    return w, { ADMITTED, capacity, remaining(w, capacity), reset_after(w) }
  end

  function rule.check(k, w)
    local bucket = math.floor(w.instant / coalesce_ms)
    if w.started_over or w.rewrite or bucket == w.newest or bucket > w.last then return end
    local ahead = redis.call(HGET, KEYS[k], int(bucket))
    if ahead and not tonumber(ahead) then error('a bucket is not an integer', 0) end
  end

  -- Charges what has been judged.
  function rule.charge(k, w, cost, capacity, _, remember)
    local key = KEYS[k]
    forget(key, w)
    local finished, count = start(key, w)
    local offset = w.ever
    w.charged, w.ever, w.total = w.charged + cost, w.ever + cost, w.total + cost
    w.live, w.kept = w.live + cost, w.kept + cost
    w.capacity = remember and capacity or 0
    if finished then save(key, w, finished, count) else save(key, w) end
    if #key == rule.noted_bytes then note_use(rule.hours, now_ms, slack_ms, w.live) end
    return { ADMITTED, capacity, remaining(w, capacity), end_of_life(w.last) - now_ms, w.newest * LIVES + w.life, offset }
  end

  -- Both; in short for a further charge to the bucket of this moment.
  function rule.take(k, cost, capacity, _, remember)
    local key = KEYS[k]
    local header = redis.call(HGET, key, 'h')
    if header then
      local grid, life, below, above, newest, charged, ever, total = struct.unpack(HEADER, header)
      if is_longest and newest == bucket_now and grid == coalesce_ms and newest - below >= first_live
        and total + cost <= capacity then
        total = total + cost
        redis.call(HSET, key, 'h', struct.pack(HEADER, grid, life, below, above, newest, charged + cost, ever + cost,
          total, remember and capacity or 0))
        if #key == rule.noted_bytes then note_use(rule.hours, now_ms, slack_ms, total) end
        return { ADMITTED, capacity, capacity - total, end_of_life(newest + above) - now_ms, newest * LIVES + life, ever }
      end
    end
    local w = look(key, header)
    if not fits(w, cost, capacity) then
      if w.capacity ~= 0 and not remember then
        -- A plain take: peeks go by the limit's own capacity again.
        redis.call(HSET, key, 'h', string.sub(header, 1, -9) .. struct.pack('<d', 0))
      end
      local retry_after, remaining_after = wait(key, w, cost, capacity)
      return { REFUSED, capacity, remaining(w, capacity), reset_after(w), retry_after, remaining_after }
    end
    return rule.charge(k, w, cost, capacity, _, remember)
  end

  function rule.terms_of(rate)
    return permits(rate, window_ms / 1000, 1, 1), 0
  end

  -- What the last take_with was judged by, if it still counts.
  function rule.remembered(k)
    local w = look(KEYS[k], redis.call(HGET, KEYS[k], 'h'))
    if not w.started_over and w.capacity ~= 0 then return w.capacity, 0 end
  end

  -- Whether a bucket still counts and has a cost; and what it has, if it is not the newest.
  local function holds(key, w, bucket, cost)
    if not w.stored or w.started_over or w.rewrite or bucket > w.newest or end_of_keep(bucket) <= w.instant then
      return false
    end
    if bucket == w.newest then return cost <= w.charged end
    local count = tonumber(redis.call(HGET, key, int(bucket)))
    return count and count >= cost, count
  end

  -- Takes a cost out of a bucket that holds it.
  local function lower(key, w, bucket, cost, count, ...)
    forget(key, w)
    w.total = w.total - cost
    if count then return save(key, w, int(bucket), int(count - cost), ...) end
    w.charged = w.charged - cost
    save(key, w, ...)
  end

  function rule.refund(k, bucket, offset, cost, max_refunds)
    local key = KEYS[k]
    local w = look(key, redis.call(HGET, key, 'h'))
    local life = bucket % LIVES
    bucket = (bucket - life) / LIVES
    if life ~= w.life then return 0 end
    local is_held, count = holds(key, w, bucket, cost)
    if not is_held or not count and offset + cost > w.ever then return 0 end

    local kept, packed = {}, redis.call(HGET, key, 'r') or ''
    for at = 1, #packed, 24 do
      local b, o, c = struct.unpack(REFUND, packed, at)
      if end_of_keep(b) > w.instant then
        if b == bucket and offset < o + c and o < offset + cost then return 0 end
        kept[#kept + 1] = string.sub(packed, at, at + 23)
      end
    end
    if #kept >= max_refunds then return 0 end
    kept[#kept + 1] = struct.pack(REFUND, bucket, offset, cost)
    lower(key, w, bucket, cost, count, 'r', table.concat(kept))
    return cost
  end

  -- Where a charge is, by what its receipt says.
  function rule.place(bucket)
    return (bucket - bucket % LIVES) / LIVES
  end

  -- Takes a charge out of its bucket again, if it still counts.
  function rule.give_back(k, bucket, cost)
    local key = KEYS[k]
    local w = look(key, redis.call(HGET, key, 'h'))
    local is_held, count = holds(key, w, bucket, cost)
    if is_held then lower(key, w, bucket, cost, count) end
  end

  -- What stays until the key's end is that all of the newest bucket was given
  -- back, so that receipts from before are void.
  function rule.reset(k)
    local key = KEYS[k]
    local w = look(key, redis.call(HGET, key, 'h'))
    if not w.stored then return 0 end
    redis.call('DEL', key)
    w.charged, w.total, w.capacity, w.tail, w.last, w.born = 0, 0, 0, w.newest, w.newest, true
    -- Another life: what is held later may be put into a bucket of before.
    w.life = (w.life + 1) % LIVES
    save(key, w, 'r', voided(w))
    return 1
  end

  -- Charges what has been judged to another bucket than that of this moment: one
  -- that counts until `until_ms` and no longer than a bucket after it. The bucket.
  function rule.charge_until(k, w, cost, until_ms)
    local key = KEYS[k]
    local bucket = math.ceil((until_ms - window_ms) / coalesce_ms) - 1
    forget(key, w)
    local finished, count = start(key, w)
    -- It may be the very bucket.
    if finished then redis.call(HSET, key, finished, count) end
    w.total = w.total + cost
    if bucket == w.newest then
      w.charged, w.ever = w.charged + cost, w.ever + cost
    else
      redis.call('HINCRBY', key, int(bucket), int(cost))
      w.tail, w.last = math.min(w.tail, bucket), math.max(w.last, bucket)
    end
    w.born = true
    save(key, w)
    if #key == rule.noted_bytes then note_use(rule.hours, now_ms, slack_ms, w.live + cost) end
    return bucket
  end

  -- Takes up to `cost` out of a bucket again, if it still counts, and charges up
  -- to `spent` of that to this moment.
  function rule.settle(k, bucket, cost, spent)
    local key = KEYS[k]
    local header = redis.call(HGET, key, 'h')
    local w = look(key, header)
    if not w.stored or w.started_over or w.rewrite or bucket < w.kept_first or bucket > w.last then return 0 end
    forget(key, w)
    local finished, count = start(key, w)
    if finished then redis.call(HSET, key, finished, count) end
    local there = bucket == w.newest and w.charged or tonumber(redis.call(HGET, key, int(bucket))) or 0
    local taken = math.min(cost, there)
    spent = math.min(spent, taken)
    w.charged, w.ever = w.charged + spent, w.ever + spent
    w.total = w.total - taken + spent
    if bucket == w.newest then
      w.charged = w.charged - taken
    elseif taken < there then
      redis.call(HSET, key, int(bucket), int(there - taken))
    else
      redis.call('HDEL', key, int(bucket))
      if bucket == w.last then
        -- The last that is left.
        w.last = w.newest
        if bucket - 1 > w.newest then
          local left = counts(key, w.newest + 1, bucket - 1)
          for i = bucket - 1 - w.newest, 1, -1 do
            if left[i] then
              w.last = w.newest + i
              break
            end
          end
        end
      end
    end
    w.born = true
    save(key, w)
    return taken
  end

  -- Notes what counts, after something was spent.
  function rule.note_standing(k)
    local key = KEYS[k]
    if #key == rule.noted_bytes then
      note_use(rule.hours, now_ms, slack_ms, look(key, redis.call(HGET, key, 'h')).live)
    end
  end

  -- Charges what a lease still holds to its bucket again.
  function rule.hold_anew(k, bucket, cost)
    local w = look(KEYS[k], redis.call(HGET, KEYS[k], 'h'))
    rule.charge_until(k, w, cost, end_of_life(bucket))
  end

  return rule
end
