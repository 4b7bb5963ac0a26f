-- What stands between the algorithms and the operations.
--
-- ARGV  now, slack_ms, marker_ttl_ms, overrides (1: after its own keys an item has
--       that of its override); then for the limit, or for each of several: for how
--       much longer than a window all is refused after a loss (`no`: it is not), its
--       id, its two terms, its numbers
--
-- An algorithm is a function that reads its numbers and returns a rule:
--   keys, own               keys of an item, and arguments of a take
--   judge(k, cost, a, b, extra)    a state to charge by or nil, and what to answer
--   check(k, state)         fails if what was judged cannot be charged; without it, it always can
--   charge(k, state, cost, a, b, remember, extra), take (both at once),
--   terms_of(rate)          the terms of a rate, see rate.lua; nil if it has none
--   seconds_of(a, b)        the window, where it depends on the terms
--   remembered(k, extra)    the terms of the last take_with
--   refund(k, bucket, offset, cost, max_refunds, extra), reset(k, extra)
-- One by the hour has `hours`, the key of its hours, and how many bytes a key has that is without a subject: what is charged
-- to that is noted there (`noted_bytes`, hours.lua). The key is made of the marker's prefix: it is in the same slot.
-- `extra` is what only some need: a random number, or which window comes first.
--
-- Answers  ADMITTED, capacity, remaining, reset_after_ms (and of a charge: bucket, offset)
--          REFUSED, capacity, remaining, reset_after_ms, retry_after_ms, remaining then
--          HELD, until_ms from now: refused after a loss
--          ELSEWHERE, the store's time: the caller's clock is off, nothing has happened
--          WANTS_OVERRIDE: send the key of the override along, nothing has happened
--          SUPPRESSED, capacity, remaining, reset_after_ms, suppression factor, 1 if it passes
--          To the first two the window in seconds is added if it is not the limit's own.
local now_us = now_micros()
local now_ms = math.floor(now_us / 1000)
local slack_ms, marker_ttl_ms, has_override_keys = tonumber(ARGV[2]), ARGV[3], ARGV[4] == '1'

-- The rule whose description starts after ARGV[at].
local function rule_at(algorithm, at)
  local a, b = tonumber(ARGV[at + 3]), tonumber(ARGV[at + 4])
  local rule = algorithm(at + 4, now_us, slack_ms, a, b)
  rule.a, rule.b, rule.id = a, b, ARGV[at + 2]
  if rule.window_ms == HOUR_MS and rule.everyone then
    local root = string.sub(KEYS[1], 1, -#'tidegate:marker' - 1) .. rule.id
    rule.hours, rule.noted_bytes = root .. 'hours', #root + rule.everyone
  end
  rule.stride = has_override_keys and rule.keys + 1 or rule.keys
  local stored = redis.call('HMGET', KEYS[1], 'lost_ms', 'o:' .. rule.id)
  rule.is_overridden = (tonumber(stored[2]) or 0) > now_ms
  rule.held_ms = 0
  local longer_ms = tonumber(ARGV[at + 1])
  if longer_ms then
    -- A marker that is gone is a loss, and so is whatever else was here. A stamp far
    -- ahead is from a clock that was wrong.
    local lost_ms = tonumber(stored[1])
    if not lost_ms or lost_ms > now_ms + rule.absurd_ms then
      lost_ms = now_ms
      redis.call('HSET', KEYS[1], 'lost_ms', int(lost_ms))
      redis.call('PEXPIRE', KEYS[1], marker_ttl_ms)
    end
    local until_ms = rule.lost_until and rule.lost_until(lost_ms) or lost_ms + rule.window_ms + longer_ms
    rule.held_ms = lost_ms > 0 and until_ms - now_ms or 0
  end
  return rule
end

-- An answer by these terms, with the window if they change it.
local function by_terms(rule, answer, a, b)
  if rule.seconds_of and (a ~= rule.a or b ~= rule.b) then answer[#answer + 1] = rule.seconds_of(a, b) end
  return answer
end

-- Why an item cannot be decided by its rule, if so.
local function otherwise(rule, k, extra)
  if rule.held_ms > 0 then return { HELD, rule.held_ms } end
  if rule.is_overridden and not has_override_keys then return { WANTS_OVERRIDE } end
  if rule.elsewhere then return rule.elsewhere(k, extra) end
end

-- The terms a key is judged by: its override's, or those of the limit.
local function terms(rule, k)
  if rule.is_overridden then
    local stored = redis.call('GET', KEYS[k + rule.keys])
    local rate = stored and read_override(stored)
    if rate and rate.until_ms > now_ms then
      local a, b = rule.terms_of(rate)
      if a then return a, b end
    end
  end
  return rule.a, rule.b
end
