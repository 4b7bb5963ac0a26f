-- A rate as text, and how much of it there is in a window.
--
-- An override is text too: until when (ms), the rate as it was written, and the same rate
-- in ticks, as a token bucket counts: how many are a permit, and how many leave per
-- microsecond. So it stays right whatever becomes of its limit.

local MOST = 9007199254740991
local UNIT_S = { s = 1, m = 60, h = 3600, d = 86400 }

-- Before it was three doubles, the first until when, then the rate. The other two were
-- right for the limit that set it; of those only ticks that are the rate's are used.
local function read_older_override(stored)
  if #stored < 25 then return end
  local until_ms, permit, drain = struct.unpack('<ddd', stored)
  local whole, part, unit = string.match(stored, '^(%d+)%.?(%d*)/([smhd])$', 25)
  if not whole then return end
  local per_us = tonumber(whole .. part) / (UNIT_S[unit] * 10 ^ #part * 1000000)
  if drain <= 0 or math.abs(permit * per_us / drain - 1) > 1e-9 then permit, drain = nil, nil end
  return { until_ms = until_ms, whole = whole, part = part, unit = unit, permit = permit, drain = drain,
    text = string.sub(stored, 25) }
end

-- What an override says; nil if it is none.
local function read_override(stored)
  local until_ms, text, whole, part, unit, permit, drain =
    string.match(stored, '^(%d+) ((%d+)%.?(%d*)/([smhd])) (%d+) (%d+)$')
  if not until_ms then return read_older_override(stored) end
  return { until_ms = tonumber(until_ms), whole = whole, part = part, unit = unit, permit = tonumber(permit),
    drain = tonumber(drain), text = text }
end

-- rate × window_s × times / per, where that is too large for doubles: in limbs of six
-- digits, the lowest first.
local function long_permits(rate, window_s, times, per)
  local BASE = 1000000
  local limbs, text = {}, rate.whole .. rate.part
  for last = #text, 1, -6 do limbs[#limbs + 1] = tonumber(string.sub(text, math.max(last - 5, 1), last)) end
  for _, factor in ipairs({ window_s, times }) do
    local carry, i = 0, 1
    while limbs[i] or carry > 0 do
      carry = carry + (limbs[i] or 0) * factor
      limbs[i] = carry % BASE
      carry, i = math.floor(carry / BASE), i + 1
    end
  end
  for _, divisor in ipairs({ UNIT_S[rate.unit], 10 ^ #rate.part, per }) do
    local rest = 0
    for i = #limbs, 1, -1 do
      rest = rest * BASE + limbs[i]
      limbs[i] = math.floor(rest / divisor)
      rest = rest % divisor
    end
  end
  local sum = 0
  for i = #limbs, 1, -1 do
    sum = sum * BASE + limbs[i]
    if sum > MOST then return MOST end
  end
  return sum
end

-- How many permits a rate gives in a window, times a fraction, rounded down: exactly. At
-- least one, for a window that was longer when the rate was set.
local function permits(rate, window_s, times, per)
  local product = tonumber(rate.whole .. rate.part) * window_s * times
  local scale = UNIT_S[rate.unit] * 10 ^ #rate.part * per
  local exact = 4503599627370496
  local count = product < exact and scale < exact and math.floor(product / scale)
    or long_permits(rate, window_s, times, per)
  return math.max(count, 1)
end
