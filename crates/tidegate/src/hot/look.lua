-- What look.lua is to know of hot pages. Pages that are over may still be listed: the next cleanup drops them.
--
-- KEYS  the marker, the keys to look at
-- SUFFIX is what the indices of the space end in here, SPAN_MS the longest window that anybody has for it.
local STATE, ACTIVITIES = ROOT .. 'hot:state' .. SUFFIX, ROOT .. 'hot:activities' .. SUFFIX
local RANK, DUE = ROOT .. 'hot:rank' .. SUFFIX, ROOT .. 'hot:due' .. SUFFIX
local ACTIVITY_MS, OF_PAGE = 600000, { window = true, meta = true, editors = true }

-- What was done last may be ahead of the clock, and decides then.
local state = redis.pcall('HMGET', STATE, 'now', 'due_base', 'seq', 'swept')
if state.err then state = {} end
local hot_ms = math.max(look_ms, math.min(tonumber(state[1] or nil) or 0, look_ms + SPAN_MS))
local base_ms, sequence = tonumber(state[2] or nil) or SPAN_MS, tonumber(state[3] or nil)
local swept = tonumber(state[4] or nil) or 1

-- When the first edit of a page that is not hot came; nothing if it cannot be read.
local function first_edit(activity)
  local edits = redis.pcall('GET', activity)
  if type(edits) ~= 'string' then return end
  local is_read, first_ms = pcall(struct.unpack, 's', edits)
  return is_read and tonumber(first_ms) or nil
end

local function is_remembered(page)
  local first_ms = first_edit(ROOT .. 'activity:' .. page)
  return first_ms and first_ms <= hot_ms and first_ms + ACTIVITY_MS > hot_ms
end

-- Whether activity that is listed with a number has ended as it should: such are listed until the next cleanup.
-- Cleanups leave none below `swept`, and they end in the order in which they are listed: one that has ended is behind
-- none that is there.
local function has_ended(key, page, number)
  if number < swept or sequence and number > sequence or number % 1 ~= 0 then return false end
  local at = redis.call('ZREVRANK', key, page)
  local before = redis.call('ZREVRANGE', key, int(at + 1), int(at + 3))
  before[#before + 1] = redis.call('ZRANGE', key, 0, 0)[1]
  for _, earlier in ipairs(before) do
    if is_remembered(earlier) then return false end
  end
  return true
end

local function judge(family, key, page, report)
  if family == 'activity' then
    local first_ms = first_edit(key)
    -- An older program counted here.
    if not first_ms then return false end
    if first_ms + ACTIVITY_MS > hot_ms and not listed(ACTIVITIES, page) then report('data-without-entry') end
  elseif OF_PAGE[family] then
    local meta = ROOT .. 'hot:meta:' .. page
    local w = redis.pcall('HGET', meta, 'w')
    -- An older program had no `w`.
    if not w and exists(meta) then return false end
    if family ~= 'meta' and w then return end
    if not (listed(RANK, page) and listed(DUE, page)) then
      report('data-without-entry')
    elseif family == 'meta' and not exists(ROOT .. 'hot:window:' .. page) then
      report('incomplete')
    end
  end
end

local function judge_entry(family, key, _, page, score)
  score = tonumber(score)
  if family == 'activities' then
    if exists(ROOT .. 'activity:' .. page) or has_ended(key, page, score) then return end
    return 'entry-without-data', function() redis.call('ZREM', key, page) end
  end
  if exists(ROOT .. 'hot:meta:' .. page) then return end
  local ranked, due_ms = listed(RANK, page), listed(DUE, page)
  -- What is in the way of another type is told of itself, and what both list once.
  if ranked == true or due_ms == true or family == 'due' and ranked then return end
  -- One that both list is dropped by the cleanup that it is due for.
  if ranked and due_ms and due_ms - base_ms + SPAN_MS <= hot_ms then return end
  if exists(ROOT .. 'hot:window:' .. page, ROOT .. 'hot:editors:' .. page) then return 'incomplete' end
  return 'entry-without-data', function()
    redis.pcall('ZREM', RANK, page)
    redis.pcall('ZREM', DUE, page)
  end
end

return look(2, judge, judge_entry)
