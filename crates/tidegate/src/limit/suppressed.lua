-- Suppression: above its limit a key is thinned out by chance instead of cut off.
-- Every call is recorded, the declined ones too.
--
-- A key is one hash:
--   h         the header: coalesce_ms, how far below the newest bucket the first
--             number is that an older bucket may have, 1 if there is an `s` that
--             counts, the newest bucket, when the suppression factor was last
--             computed (ms); then as doubles the factor (below 0: none), what was
--             offered and what was declined in the newest bucket, the sums of both
--             over all buckets
--   s         the soft and the hard limit of the last take_with, two doubles
--   <number>  offered and declined in an older bucket, two doubles
-- A bucket counts until its end + window.
--
-- Numbers: window_ms, coalesce_ms, absurd_ms, smooth (1 or 0), cache_ms, the hard
-- limit's factor in millionths.
-- Terms: soft, hard. Draws: a number of [0, 1) per call
local function suppressed(at, now_us, slack_ms)
  local now_ms = math.floor(now_us / 1000)
  local window_ms, coalesce_ms, absurd_ms = tonumber(ARGV[at + 1]), tonumber(ARGV[at + 2]), tonumber(ARGV[at + 3])
  local smooth, cache_ms, hard_factor = ARGV[at + 4] == '1', tonumber(ARGV[at + 5]), tonumber(ARGV[at + 6])
  local HEADER, PAIR, HGET, HSET = '<I4HBI6I6ddddd', '<dd', 'HGET', 'HSET'
  local call, pack, read, floor, max = redis.call, struct.pack, struct.unpack, math.floor, math.max
  local bucket_now = floor(now_ms / coalesce_ms)
  -- Buckets from this number on still count.
  local first_live = floor((now_ms - window_ms) / coalesce_ms)
  local rule = { keys = 1, own = 4, window_ms = window_ms, absurd_ms = absurd_ms, records_refusals = true }

  local function end_of_life(bucket)
    return (bucket + 1) * coalesce_ms + window_ms
  end

  -- Offered and declined in the older buckets from one number to another.
  local function sums(key, from, to)
    local offered, declined = 0, 0
    if from > to then return 0, 0 end
    local numbers = {}
    for number = from, to do numbers[number - from + 1] = number end
    for _, bucket in ipairs(call('HMGET', key, unpack(numbers))) do
      if bucket then
        local o, d = read(PAIR, bucket)
        offered, declined = offered + o, declined + d
      end
    end
    return offered, declined
  end

  local function look(key, stored)
    local w = { newest = bucket_now, offered = 0, declined = 0, total = 0, total_declined = 0,
      factor = -1, factor_at = 0, kept = 0, instant = now_ms, stored = stored and true }
    if not stored then
      w.tail, w.first = w.newest, w.newest
      return w
    end
    local grid, below, kept, newest, factor_at, factor, offered, declined, total, total_declined =
      read(HEADER, stored)
    local tail = newest - below
    if grid ~= coalesce_ms then
      -- Written on another grid: all of it counts as of its newest moment.
      newest = floor(((newest + 1) * grid - 1) / coalesce_ms)
      offered, declined, tail, kept, w.rewrite = total, total_declined, newest, 0, true
    end
    local is_absurd
    w.instant, is_absurd = deciding(now_ms, newest * coalesce_ms, absurd_ms)
    if is_absurd or end_of_life(newest) <= w.instant then
      w.newest = floor(w.instant / coalesce_ms)
      w.tail, w.first, w.rewrite = w.newest, w.newest, true
      return w
    end
    w.newest, w.offered, w.declined, w.total, w.total_declined, w.tail = newest, offered, declined, total, total_declined, tail
    w.factor, w.factor_at, w.kept = factor, factor_at, kept
    w.first = max(math.min(floor((w.instant - window_ms) / coalesce_ms), newest), tail)
    if w.first > tail then
      local o, d = sums(key, tail, w.first - 1)
      w.total, w.total_declined = w.total - o, w.total_declined - d
      -- What was computed with what is gone is void.
      if o > 0 then w.factor = -1 end
    end
    return w
  end

  -- What was offered in buckets that began in the last second.
  local function last_second(key, instant, first, newest, in_newest)
    local from = max(floor((instant - 1000) / coalesce_ms) + 1, first)
    local offered = sums(key, from, newest - 1)
    return from <= newest and offered + in_newest or offered
  end

  -- One minus the share of calls that makes the admitted ones meet the limit: what
  -- was offered, and how far off what was admitted is.
  local function smooth_factor(instant, offered, accepted, cost, soft)
    local oldest_ms = floor((instant - window_ms) / coalesce_ms) * coalesce_ms
    local target = soft * ((instant - oldest_ms) / window_ms)
    if offered <= target then return 0 end
    local fair, lean = target / offered, target / max(accepted, 1)
    -- What is asked for at once may be more than the limit.
    local most = max(fair, (target - accepted) / cost)
    return max(1 - math.min(fair * lean * lean * lean, most), 0)
  end

  -- Whether a cost passes, whether no chance was involved, and the factor with the
  -- time it is of. In numbers, not a table: most calls need none.
  local function decide(key, instant, first, newest, offered, total, accepted, factor, factor_at, cost, soft, hard, draw)
    if smooth then
      factor = smooth_factor(instant, total + cost, accepted, cost, soft)
      return factor == 0 or draw < 1 - factor, factor == 0, factor, factor_at
    end
    local forecast = accepted + cost
    if forecast == hard then
      return true, true, 1, instant
    elseif forecast <= soft then
      return true, true, factor, factor_at
    elseif forecast > hard then
      factor, factor_at = 1, instant
    elseif factor < 0 or instant - factor_at >= cache_ms then
      factor_at = instant
      if total >= hard then
        factor = 1
      elseif accepted < soft then
        factor = 0
      elseif accepted == soft and soft == hard then
        factor = 1
      else
        local window_s = window_ms / 1000
        factor = 1 - (soft / window_s) / max(total / window_s, last_second(key, instant, first, newest, offered))
      end
    end
    return draw < 1 - factor, false, factor, factor_at
  end

  local function answer(is_certain, factor, passes, soft, remaining, reset_after)
    if is_certain then return { ADMITTED, soft, remaining, reset_after } end
    return { SUPPRESSED, soft, remaining, reset_after, pack('<d', factor), passes and 1 or 0 }
  end

  local function judge(key, w, cost, soft, hard, draw)
    local accepted = w.total - w.total_declined
    w.passes, w.is_certain, w.factor, w.factor_at = decide(key, w.instant, w.first, w.newest, w.offered, w.total, accepted,
      w.factor, w.factor_at, cost, soft, hard, draw)
    local reset_after = w.total == 0 and 0 or end_of_life(w.newest) - now_ms
    return w, answer(w.is_certain, w.factor, w.passes, soft, max(soft - accepted, 0), reset_after)
  end

  function rule.judge(k, cost, soft, hard, draw)
    return judge(KEYS[k], look(KEYS[k], call(HGET, KEYS[k], 'h')), cost, soft, hard, draw)
  end

  -- What is counted of a cost: so that sums stay exact, of what is declined only up
  -- to 2^52.
  local function counted(passes, cost, total)
    return passes and cost or math.min(cost, max(4503599627370496 - total, 0))
  end

  function rule.charge(k, w, cost, soft, hard, remember)
    local key = KEYS[k]
    local born = not w.stored or w.rewrite or w.instant > now_ms
    if w.rewrite then
      call('UNLINK', key)
    elseif w.first > w.tail then
      local numbers = {}
      for number = w.tail, w.first - 1 do numbers[number - w.tail + 1] = number end
      call('HDEL', key, unpack(numbers))
    end
    w.tail = w.first
    local bucket, finished = floor(w.instant / coalesce_ms), nil
    if bucket ~= w.newest then
      born = true
      if w.offered > 0 then
        finished = pack(PAIR, w.offered, w.declined)
      elseif w.tail >= w.newest then
        w.tail = bucket
      end
    end
    cost = counted(w.passes, cost, w.total)
    local declined = w.passes and 0 or cost
    w.total, w.total_declined = w.total + cost, w.total_declined + declined
    local before = w.newest
    if bucket ~= before then w.newest, w.offered, w.declined = bucket, 0, 0 end
    local header = pack(HEADER, coalesce_ms, bucket - w.tail, remember and 1 or 0, bucket, w.factor_at, w.factor,
      w.offered + cost, w.declined + declined, w.total, w.total_declined)
    if remember then call(HSET, key, 's', pack(PAIR, soft, hard)) end
    if finished then
      call(HSET, key, 'h', header, int(before), finished)
    else
      call(HSET, key, 'h', header)
    end
    local end_ms = end_of_life(bucket)
    if born then
      local rest_ms = math.min(max(end_ms - now_ms, 0), absurd_ms + coalesce_ms + window_ms)
      call('PEXPIRE', key, int(rest_ms + slack_ms))
    end
    return max(soft - w.total + w.total_declined, 0), w.total == 0 and 0 or end_ms - now_ms
  end

  -- Both; in short for a further call in the bucket of this moment.
  function rule.take(k, cost, soft, hard, remember, draw)
    local key = KEYS[k]
    local stored = call(HGET, key, 'h')
    if stored and not remember then
      local grid, below, _, newest, factor_at, factor, offered, declined, total, total_declined = read(HEADER, stored)
      if newest == bucket_now and grid == coalesce_ms and newest - below >= first_live then
        local passes, is_certain
        passes, is_certain, factor, factor_at = decide(key, now_ms, newest - below, newest, offered, total,
          total - total_declined, factor, factor_at, cost, soft, hard, draw)
        cost = counted(passes, cost, total)
        total = total + cost
        if not passes then declined, total_declined = declined + cost, total_declined + cost end
        call(HSET, key, 'h', pack(HEADER, grid, below, 0, newest, factor_at, factor, offered + cost, declined, total,
          total_declined))
        return answer(is_certain, factor, passes, soft, max(soft - total + total_declined, 0), end_of_life(newest) - now_ms)
      end
    end
    local w, reply = judge(key, look(key, stored), cost, soft, hard, draw)
    reply[3], reply[4] = rule.charge(k, w, cost, soft, hard, remember)
    return reply
  end

  -- Half of what can be counted is for what is declined.
  function rule.terms_of(rate)
    local most = 4503599627370495
    local soft = math.min(permits(rate, window_ms / 1000, 1, 1), most)
    if smooth then return soft, soft end
    return soft, math.min(permits(rate, window_ms / 1000, hard_factor, 1000000), most)
  end

  function rule.remembered(k)
    local w = look(KEYS[k], call(HGET, KEYS[k], 'h'))
    if w.kept == 1 then return read(PAIR, call(HGET, KEYS[k], 's')) end
  end

  function rule.refund()
    return 0
  end

  function rule.reset(k)
    return call('UNLINK', KEYS[k])
  end

  return rule
end
