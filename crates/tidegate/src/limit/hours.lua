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

-- The hour that charges note, by key: read before the first of them, written behind the last.
local noted = {}

-- What was noted of this hour so far.
local function hour_of(key)
  if not noted[key] then
    local stored, numbers = redis.call('HGET', key, int(hour_now)), {}
    for number in string.gmatch(stored or '', '%d+') do numbers[#numbers + 1] = tonumber(number) end
    noted[key] = { key = key, numbers = numbers, is_known = stored and true }
  end
  return noted[key]
end

-- Notes what the limits count. Of the first charge of an hour: the hour before, and what was noted of that; else
-- nothing.
local function note_hour(hour, used)
  local numbers = hour.numbers
  numbers[1] = numbers[1] or now_ms
  for i, count in ipairs(used) do
    if count > (numbers[i + 1] or -1) then numbers[i + 1], hour.is_changed = count, true end
  end
  if hour.is_known then return {} end
  hour.is_known, hour.begins = true, true
  return { forget_hours(hour.key) }
end

local function save_hours()
  for key, hour in pairs(noted) do
    if hour.is_changed then
      local texts = {}
      for i, number in ipairs(hour.numbers) do texts[i] = int(number) end
      redis.call('HSET', key, int(hour_now), table.concat(texts, ' '))
      -- Until the last hour is no longer of the day.
      if hour.begins then redis.call('PEXPIRE', key, int((HOURS_KEPT + 1) * HOUR_MS + slack_ms)) end
    end
  end
end
