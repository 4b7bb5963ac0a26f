-- The hours of what is charged together: a hash, by the number of an hour since 1970 in UTC, of one text: when its
-- first charge came (ms), and the most that each limit counted in it. The day that ends with this hour is kept.
local HOUR_MS, HOURS_KEPT = 3600000, 24
local hour_now = math.floor(now_ms / HOUR_MS)

local function is_kept(hour)
  return hour and hour > hour_now - HOURS_KEPT and hour <= hour_now
end

-- Forgets hours that are over for long, and those of a clock that was wrong; the last before this, and what it says.
local function forget_hours(key)
  local last, text = -1, ''
  local stored = redis.call('HGETALL', key)
  for i = 1, #stored, 2 do
    local hour = tonumber(stored[i])
    if not is_kept(hour) then
      redis.call('HDEL', key, stored[i])
    elseif hour > last and hour < hour_now then
      last, text = hour, stored[i + 1]
    end
  end
  return last, text
end

-- Notes what the limits count, beside what was noted of this hour. Of its first charge: the hour before, and
-- what was noted of that; else nothing.
local function note_hour(key, noted, used)
  local numbers, is_more = {}, not noted
  for number in string.gmatch(noted or '', '%d+') do numbers[#numbers + 1] = tonumber(number) end
  local texts = { int(numbers[1] or now_ms) }
  for i, count in ipairs(used) do
    local most = numbers[i + 1] or 0
    is_more = is_more or count > most
    texts[i + 1] = int(math.max(count, most))
  end
  if not is_more then return {} end
  local last, text
  if not noted then last, text = forget_hours(key) end
  redis.call('HSET', key, int(hour_now), table.concat(texts, ' '))
  if noted then return {} end
  -- Until the last hour is no longer of the day.
  redis.call('PEXPIRE', key, int((HOURS_KEPT + 1) * HOUR_MS + slack_ms))
  return { last, text }
end
