-- Suppression: above its limit a key is thinned out by chance instead of cut off.
-- Every call is recorded, the declined ones too.
--
-- A key is one hash:
--   h         the header, eight doubles: coalesce_ms, newest bucket, what was
--             offered and what was declined in it, the sums of both over all
--             buckets, the first number an older bucket may have, spare
--   s         four doubles: the suppression factor last computed and when (ms), the
--             soft and the hard limit of the last take_with (or 0)
--   <number>  offered and declined in an older bucket, two doubles
-- A bucket counts until its end + window.
--
-- Numbers: window_ms, coalesce_ms, absurd_ms, smooth (1 or 0), cache_ms.
-- Terms: soft, hard. Draws: a number of [0, 1) per call
local function suppressed(at, now_us, slack_ms)
  local now_ms = math.floor(now_us / 1000)
  local window_ms, coalesce_ms, absurd_ms = tonumber(ARGV[at + 1]), tonumber(ARGV[at + 2]), tonumber(ARGV[at + 3])
  local smooth, cache_ms = ARGV[at + 4] == '1', tonumber(ARGV[at + 5])
  local HEADER, STATE, BUCKET = '<dddddddd', '<dddd', '<dd'
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
    for _, bucket in ipairs(redis.call('HMGET', key, unpack(numbers))) do
      if bucket then
        local o, d = struct.unpack(BUCKET, bucket)
        offered, declined = offered + o, declined + d
      end
    end
    return offered, declined
  end

  local function look(key)
    local stored = redis.call('HMGET', key, 'h', 's')
    local w = { newest = math.floor(now_ms / coalesce_ms), offered = 0, declined = 0, total = 0, total_declined = 0,
      factor = -1, factor_at = 0, soft = 0, hard = 0, instant = now_ms, stored = stored[1] and true }
    if not stored[1] then
      w.tail, w.first = w.newest, w.newest
      return w
    end
    local grid, newest, offered, declined, total, total_declined, tail = struct.unpack(HEADER, stored[1])
    if grid ~= coalesce_ms then
      -- Written on another grid: all of it counts as of its newest moment.
      newest = math.floor(((newest + 1) * grid - 1) / coalesce_ms)
      offered, declined, tail, w.rewrite = total, total_declined, newest, true
    end
    local absurd = newest * coalesce_ms > now_ms + absurd_ms
    w.instant = absurd and now_ms or math.max(now_ms, newest * coalesce_ms)
    if absurd or end_of_life(newest) <= w.instant then
      w.newest = math.floor(w.instant / coalesce_ms)
      w.tail, w.first, w.rewrite = w.newest, w.newest, true
      return w
    end
    w.newest, w.offered, w.declined, w.total, w.total_declined, w.tail = newest, offered, declined, total, total_declined, tail
    w.factor, w.factor_at, w.soft, w.hard = struct.unpack(STATE, stored[2])
    w.first = math.max(math.min(math.floor((w.instant - window_ms) / coalesce_ms), newest), tail)
    if w.first > tail then
      local o, d = sums(key, tail, w.first - 1)
      w.total, w.total_declined = w.total - o, w.total_declined - d
      -- What was computed with what is gone is void.
      if o > 0 then w.factor = -1 end
    end
    return w
  end

  -- What was offered in buckets that began in the last second.
  local function last_second(key, w)
    local from = math.max(math.floor((w.instant - 1000) / coalesce_ms) + 1, w.first)
    local offered = sums(key, from, w.newest - 1)
    return from <= w.newest and offered + w.offered or offered
  end

  local function hard_factor(key, w, soft, hard)
    local accepted = w.total - w.total_declined
    if w.total >= hard then return 1 end
    if accepted < soft then return 0 end
    if accepted == soft and soft == hard then return 1 end
    local window_s = window_ms / 1000
    return 1 - (soft / window_s) / math.max(w.total / window_s, last_second(key, w))
  end

  -- One minus the share of calls that makes the admitted ones meet the limit: what
  -- was offered, and how far off what was admitted is.
  local function smooth_factor(w, cost, soft)
    local oldest_ms = math.floor((w.instant - window_ms) / coalesce_ms) * coalesce_ms
    local target = soft * ((w.instant - oldest_ms) / window_ms)
    local offered, accepted = w.total + cost, w.total - w.total_declined
    if offered <= target then return 0 end
    local fair, lean = target / offered, target / math.max(accepted, 1)
    -- What is asked for at once may be more than the limit.
    local most = math.max(fair, (target - accepted) / cost)
    return math.max(1 - math.min(fair * lean * lean * lean, most), 0)
  end

  local function quota(w, soft)
    local accepted = w.total - w.total_declined
    return math.max(soft - accepted, 0), w.total == 0 and 0 or end_of_life(w.newest) - now_ms
  end

  -- Whether a cost passes; `is_certain` if no chance was involved.
  local function decide(key, w, cost, soft, hard, draw)
    if smooth then
      w.factor = smooth_factor(w, cost, soft)
      return w.factor == 0 or draw < 1 - w.factor, w.factor == 0, w.factor
    end
    local forecast = w.total - w.total_declined + cost
    if forecast == hard then
      w.factor, w.factor_at = 1, w.instant
      return true, true, 0
    elseif forecast <= soft then
      return true, true, 0
    elseif forecast > hard then
      w.factor, w.factor_at = 1, w.instant
    elseif w.factor < 0 or w.instant - w.factor_at >= cache_ms then
      w.factor, w.factor_at = hard_factor(key, w, soft, hard), w.instant
    end
    return draw < 1 - w.factor, false, w.factor
  end

  function rule.judge(k, cost, soft, hard, draw)
    local w = look(KEYS[k])
    local is_certain, factor
    w.passes, is_certain, factor = decide(KEYS[k], w, cost, soft, hard, draw)
    local remaining, reset_after = quota(w, soft)
    if is_certain then return w, { 1, soft, remaining, reset_after } end
    return w, { 5, soft, remaining, reset_after, string.format('%.17g', factor), w.passes and 1 or 0 }
  end

  function rule.charge(k, w, cost, soft, hard, remember)
    local key = KEYS[k]
    local born = not w.stored or w.rewrite or w.instant > now_ms
    if w.rewrite then
      redis.call('UNLINK', key)
    elseif w.first > w.tail then
      local numbers = {}
      for number = w.tail, w.first - 1 do numbers[number - w.tail + 1] = number end
      redis.call('HDEL', key, unpack(numbers))
    end
    w.tail = w.first
    local bucket, finished = math.floor(w.instant / coalesce_ms), nil
    if bucket ~= w.newest then
      born = true
      if w.offered > 0 then finished = w.newest end
      if not finished and w.tail >= w.newest then w.tail = bucket end
    end
    -- So that sums stay exact, what is declined is counted only up to 2^52.
    if not w.passes then cost = math.min(cost, math.max(4503599627370496 - w.total, 0)) end
    local declined = w.passes and 0 or cost
    w.total, w.total_declined = w.total + cost, w.total_declined + declined
    local state = struct.pack(STATE, w.factor, w.factor_at, remember and soft or 0, remember and hard or 0)
    if finished then
      local header = struct.pack(HEADER, coalesce_ms, bucket, cost, declined, w.total, w.total_declined, w.tail, 0)
      redis.call('HSET', key, 'h', header, 's', state, int(finished), struct.pack(BUCKET, w.offered, w.declined))
    else
      if bucket ~= w.newest then w.offered, w.declined = 0, 0 end
      local header = struct.pack(HEADER, coalesce_ms, bucket, w.offered + cost, w.declined + declined, w.total,
        w.total_declined, w.tail, 0)
      redis.call('HSET', key, 'h', header, 's', state)
    end
    w.newest = bucket
    if born then
      local rest_ms = math.min(math.max(end_of_life(bucket) - now_ms, 0), absurd_ms + coalesce_ms + window_ms)
      redis.call('PEXPIRE', key, int(rest_ms + slack_ms))
    end
    return quota(w, soft)
  end

  function rule.take(k, cost, soft, hard, remember, draw)
    local w, reply = rule.judge(k, cost, soft, hard, draw)
    reply[3], reply[4] = rule.charge(k, w, cost, soft, hard, remember)
    return reply
  end

  function rule.remembered(k)
    local w = look(KEYS[k])
    if w.soft ~= 0 then return w.soft, w.hard end
  end

  function rule.refund()
    return 0
  end

  function rule.reset(k)
    return redis.call('UNLINK', KEYS[k])
  end

  return rule
end
