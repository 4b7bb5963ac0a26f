-- The token bucket (GCRA): up to `burst` at once, refilled at a rate.
--
-- A key is one string: nine doubles, then what was given back, two doubles each.
--   stamp_us      when it was last charged
--   level         what was used then, in ticks: a permit is `permit` ticks, and
--                 `drain` of them leave per microsecond
--   permit, drain of the last charge, which the level is in
--   birth_ms      when this life of the key began, and which one it is: a receipt
--   life          is good for one
--   ever          ticks ever charged in this life; receipts are intervals of it
--   given         ticks given back that the list below no longer tells of
--   kept          1 if the last charge was a take_with
-- Charges leave in the order they came. Of one that is given back, only what has
-- not left yet is; those behind it move up.
--
-- Numbers: burst, absurd_ms. Terms: permit, drain
local function token(at, now_us, slack_ms, permit_now, drain_now)
  local burst, absurd_us = tonumber(ARGV[at + 1]), tonumber(ARGV[at + 2]) * 1000
  local now_ms = math.floor(now_us / 1000)
  local STATE, REFUND, LIVES, MOST = '<ddddddddd', '<dd', 64, 9007199254740991
  local HEADER_BYTES, REFUND_BYTES = 72, 16
  local rule = { keys = 1, own = 3, window_ms = math.ceil(burst * permit_now / drain_now / 1000), absurd_ms = absurd_us / 1000 }

  -- A key as of the deciding moment: the clock's, or that of the last charge if the
  -- clock is behind. Without terms, by those of the last charge.
  local function look(stored, permit, drain)
    if not stored then
      return { instant = now_us, level = 0, permit = permit, birth = now_ms, life = 0, ever = 0, given = 0,
        kept = 0, refunds = '', fresh = true }
    end
    local stamp, level, scale, rate, birth, life, ever, given, kept = struct.unpack(STATE, stored)
    if not permit then permit, drain = scale, rate end
    local s = { permit = permit, drain = drain, birth = birth, life = life, ever = ever, given = given, kept = kept,
      stored = true, tail = string.sub(stored, HEADER_BYTES + 1) }
    s.refunds = s.tail
    local is_absurd
    s.instant, is_absurd = deciding(now_us, stamp, absurd_us)
    if scale ~= permit then
      -- Charged at another rate: as many permits as before, and receipts are void.
      local whole = math.floor(level / scale)
      level = whole * permit + math.ceil((level - whole * scale) * permit / scale)
      s.ever, s.given, s.refunds, s.restarted = level, 0, '', true
    end
    -- Never more than there is, so that the product stays exact.
    local elapsed = math.min(s.instant - stamp, math.ceil(level / drain))
    s.level = is_absurd and 0 or math.max(level - elapsed * drain, 0)
    s.fresh = s.level == 0
    return s
  end

  -- Milliseconds from now until `ticks` have left, rounded up.
  local function until_left(s, ticks, drain)
    return math.ceil((s.instant - now_us + math.ceil(ticks / drain)) / 1000)
  end

  local function remaining(s, permit)
    return math.max(math.floor((burst * permit - s.level) / permit), 0)
  end

  local function reset_after(s, drain)
    return s.level == 0 and 0 or until_left(s, s.level, drain)
  end

  local function save(key, s, drain)
    local state = struct.pack(STATE, s.instant, s.level, s.permit, drain, s.birth, s.life, s.ever, s.given, s.kept)
    redis.call('SET', key, state .. s.refunds, 'PX', int(until_left(s, s.level, drain) + slack_ms))
  end

  local function judge(s, cost, permit, drain)
    local over = s.level + cost * permit - burst * permit
    if over > 0 then
      if cost > burst then return nil, { REFUSED, burst, remaining(s, permit), reset_after(s, drain), NEVER, NEVER } end
      local needed = math.ceil(over / drain)
      local retry_after = until_left(s, over, drain)
      -- What is free at that instant, which is a whole number of milliseconds away.
      local elapsed = math.max(retry_after * 1000 - (s.instant - now_us), needed)
      local level = math.max(s.level - math.min(elapsed, math.ceil(s.level / drain)) * drain, 0)
      return nil, { REFUSED, burst, remaining(s, permit), reset_after(s, drain), retry_after,
        math.floor((burst * permit - level) / permit) }
    end
    return s, { ADMITTED, burst, remaining(s, permit), reset_after(s, drain) }
  end

  -- How long an empty bucket takes to fill.
  function rule.seconds_of(permit, drain)
    return math.ceil(math.ceil(burst * permit / drain) / 1000000)
  end

  function rule.judge(k, cost, permit, drain)
    return judge(look(redis.call('GET', KEYS[k]), permit, drain), cost, permit, drain)
  end

  function rule.charge(k, s, cost, permit, drain, remember)
    local ticks = cost * permit
    if s.fresh or s.ever + ticks > MOST or s.restarted then
      -- All of it has left, or counting on would not be exact: another life.
      s.birth, s.life = now_ms, s.stored and (s.life + 1) % LIVES or 0
      s.ever, s.given, s.refunds = s.level, 0, ''
    end
    local offset = s.ever
    s.ever, s.level, s.kept = s.ever + ticks, s.level + ticks, remember and 1 or 0
    save(KEYS[k], s, drain)
    return { ADMITTED, burst, remaining(s, permit), reset_after(s, drain), s.birth * LIVES + s.life, offset }
  end

  -- Both; in short for a bucket in these ticks to which nothing was given back.
  function rule.take(k, cost, permit, drain, remember)
    local key = KEYS[k]
    local stored = redis.call('GET', key)
    if stored and #stored == HEADER_BYTES then
      local stamp, level, scale, _, birth, life, ever, given = struct.unpack(STATE, stored)
      local ticks, full, elapsed = cost * permit, burst * permit, now_us - stamp
      if scale == permit and elapsed >= 0 then
        if elapsed < math.ceil(level / drain) then
          level = level - elapsed * drain
        else
          -- All of it has left: another life.
          level, birth, life, ever, given = 0, now_ms, (life + 1) % LIVES, 0, 0
        end
        level = level + ticks
        if level <= full and ever + ticks <= MOST then
          local rest_ms = math.ceil(math.ceil(level / drain) / 1000)
          local state = struct.pack(STATE, now_us, level, permit, drain, birth, life, ever + ticks, given, remember and 1 or 0)
          redis.call('SET', key, state, 'PX', int(rest_ms + slack_ms))
          return { ADMITTED, burst, math.floor((full - level) / permit), rest_ms, birth * LIVES + life, ever }
        end
      end
    end
    local s = look(stored, permit, drain)
    local fits, reply = judge(s, cost, permit, drain)
    if fits then return rule.charge(k, s, cost, permit, drain, remember) end
    if s.kept == 1 and not remember then
      -- A plain take: peeks go by the limit's own terms again.
      local kept = struct.pack('<d', 0)
      redis.call('SET', key, string.sub(stored, 1, HEADER_BYTES - 8) .. kept .. s.tail, 'KEEPTTL')
    end
    return reply
  end

  -- The nearest that this burst can have: in ticks that can be counted, and so that an
  -- empty bucket fills within 31 days. Both are so of a rate that was set for it.
  function rule.terms_of(rate)
    local permit, drain = rate.permit, rate.drain
    if not permit then return end
    local most_ticks, longest_us = 1125899906842624, 2678400000000
    local scale = math.ceil(burst * permit / most_ticks)
    if scale > 1 then permit, drain = math.ceil(permit / scale), math.max(math.floor(drain / scale), 1) end
    if burst * permit / drain > longest_us then permit, drain = math.max(math.floor(longest_us / burst), 1), 1 end
    return permit, drain
  end

  function rule.remembered(k)
    local s = look(redis.call('GET', KEYS[k]))
    if s.kept == 1 and not s.fresh then return s.permit, s.drain end
  end

  function rule.refund(k, bucket, offset, cost, max_refunds)
    local s = look(redis.call('GET', KEYS[k]))
    if s.fresh or bucket ~= s.birth * LIVES + s.life or offset + cost * s.permit > s.ever then return 0 end
    local ticks, ever = cost * s.permit, s.ever
    -- How much has left so far, and where the charge stands once what was given
    -- back before it has moved up.
    local position, sum, kept = offset - s.given, s.given, {}
    for at = 1, #s.refunds, REFUND_BYTES do
      local o, x = struct.unpack(REFUND, s.refunds, at)
      if o == offset then return 0 end
      if o < offset then position = position - x end
      sum = sum + x
      kept[#kept + 1] = { o, x }
    end
    local left = ever - sum - s.level
    local back = math.min(position + ticks - left, ticks)
    if back <= 0 or #kept >= max_refunds then return 0 end
    local free = remaining(s, s.permit)
    s.level = s.level - back
    -- Those that have left altogether need no longer be told apart.
    left = ever - sum - back - s.level
    kept[#kept + 1] = { offset, back }
    table.sort(kept, function(one, other) return one[1] < other[1] end)
    local texts, passed = {}, s.given
    for _, refund in ipairs(kept) do
      if refund[1] - passed <= left and #texts == 0 then
        passed = passed + refund[2]
        s.given = s.given + refund[2]
      else
        texts[#texts + 1] = struct.pack(REFUND, refund[1], refund[2])
      end
    end
    s.refunds = table.concat(texts)
    save(KEYS[k], s, s.drain)
    return remaining(s, s.permit) - free
  end

  function rule.reset(k)
    local s = look(redis.call('GET', KEYS[k]), permit_now, drain_now)
    if not s.stored then return 0 end
    -- An empty bucket: the next charge begins another life.
    s.level, s.refunds, s.kept = 0, '', 0
    save(KEYS[k], s, drain_now)
    return 1
  end

  return rule
end
