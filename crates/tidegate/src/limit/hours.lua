-- The hours of a limit by the hour: what it counted at most without a subject, whoever charged it and in whichever way. A
-- hash, by the number of an hour since 1970 in UTC, of one text: when its first charge came (ms), the most that counted, and
-- `unsaid` until a quota was charged in it, whose first charge of an hour is told. The day that ends with this hour is kept.
local HOUR_MS, HOURS_KEPT = 3600000, 24

local function is_kept(hour, hour_now)
  return hour and hour > hour_now - HOURS_KEPT and hour <= hour_now
end

-- Forgets hours that are over for long, and those of a clock that was wrong; the last before this, and what it says.
local function forget_hours(key, hour_now)
  local last, text = -1, ''
  local stored = redis.call('HGETALL', key)
  for i = 1, #stored, 2 do
    local hour = tonumber(stored[i])
    if not is_kept(hour, hour_now) then
      redis.call('HDEL', key, stored[i])
    elseif hour > last and hour < hour_now then
      last, text = hour, stored[i + 1]
    end
  end
  return last, text
end

-- Notes what counts after a charge. What somebody else has under the name of the hours stops nobody: a doctor says so.
local function note_use(key, now_ms, slack_ms, used)
  local hour_now = math.floor(now_ms / HOUR_MS)
  local stored = redis.pcall('HGET', key, int(hour_now))
  if type(stored) == 'table' then return end
  local began, most, rest = string.match(stored or '', '^(%d+) (%d+)(.*)$')
  if began and tonumber(most) >= used then return end
  redis.call('HSET', key, int(hour_now), (began or int(now_ms)) .. ' ' .. int(used) .. (rest or ' unsaid'))
  if began then return end
  forget_hours(key, hour_now)
  -- Until the last hour is no longer of the day.
  redis.call('PEXPIRE', key, int((HOURS_KEPT + 1) * HOUR_MS + slack_ms))
end
