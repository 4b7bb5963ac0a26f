-- What look.lua is to know of hot pages. Pages that are over may still be listed: the next cleanup drops them.
--
-- KEYS  the marker, the keys to look at
-- SUFFIX is what the indices of the space end in here, SPAN_MS the longest window that anybody has for it.
local ACTIVITY_MS, OF_PAGE = 600000, { window = true, meta = true, editors = true }

-- The indices and numbers of pages whose edits are kept, or with `counting:` of those that are only counted.
local function space_of(form)
  local shared = ROOT .. 'hot:' .. form
  -- What was done last may be ahead of the clock, and decides then.
  local state = redis.pcall('HMGET', shared .. 'state' .. SUFFIX, 'now', 'due_base', 'seq', 'swept')
  if state.err then state = {} end
  return { activities = shared .. 'activities' .. SUFFIX, rank = shared .. 'rank' .. SUFFIX, due = shared .. 'due' .. SUFFIX,
    now_ms = math.max(look_ms, math.min(tonumber(state[1] or nil) or 0, look_ms + SPAN_MS)),
    base_ms = tonumber(state[2] or nil) or SPAN_MS, sequence = tonumber(state[3] or nil), swept = tonumber(state[4] or nil) or 1 }
end

local EDITED, COUNTED = space_of(''), space_of('counting:')

-- When the first edit of a page that is not hot came; nothing if it cannot be read.
local function first_edit(activity)
  local edits = redis.pcall('GET', activity)
  if type(edits) ~= 'string' then return end
  local is_read, first_ms = pcall(struct.unpack, 's', edits)
  return is_read and tonumber(first_ms) or nil
end

EDITED.key, EDITED.first = ROOT .. 'activity:', first_edit

-- Whether a page that is only counted is hot, and when its first count was; nothing if there is none. One that cannot be
-- read is an error.
local function counted(key)
  local text = redis.pcall('GET', key)
  if type(text) ~= 'string' then return end
  local flags, _, _, _, _, _, first_ms = struct.unpack('<BBBBI6I6I6I6I6', text)
  return flags >= 4, first_ms
end

COUNTED.key, COUNTED.first = ROOT .. 'hot:count:', function(key)
  local is_read, is_hot, first_ms = pcall(counted, key)
  return is_read and not is_hot and first_ms or nil
end

local function is_remembered(space, page)
  local first_ms = space.first(space.key .. page)
  return first_ms and first_ms <= space.now_ms and first_ms + ACTIVITY_MS > space.now_ms
end

-- Whether activity that is listed with a number has ended as it should: such are listed until the next cleanup.
-- Cleanups leave none below `swept`, and they end in the order in which they are listed: one that has ended is behind
-- none that is there.
local function has_ended(space, key, page, number)
  if number < space.swept or space.sequence and number > space.sequence or number % 1 ~= 0 then return false end
  local at = redis.call('ZREVRANK', key, page)
  local before = redis.call('ZREVRANGE', key, int(at + 1), int(at + 3))
  before[#before + 1] = redis.call('ZRANGE', key, 0, 0)[1]
  for _, earlier in ipairs(before) do
    if is_remembered(space, earlier) then return false end
  end
  return true
end

local function judge(family, key, page, report)
  if family == 'activity' then
    local first_ms = first_edit(key)
    -- An older program counted here.
    if not first_ms then return false end
    if first_ms + ACTIVITY_MS > EDITED.now_ms and not listed(EDITED.activities, page) then report('data-without-entry') end
  elseif family == 'count' then
    local is_hot, first_ms = counted(key)
    local is_listed
    if is_hot then
      is_listed = listed(COUNTED.rank, page) and listed(COUNTED.due, page)
    else
      is_listed = first_ms + ACTIVITY_MS <= COUNTED.now_ms or listed(COUNTED.activities, page)
    end
    if not is_listed then report('data-without-entry') end
  elseif OF_PAGE[family] then
    local meta = ROOT .. 'hot:meta:' .. page
    local w = redis.pcall('HGET', meta, 'w')
    -- An older program had no `w`.
    if not w and exists(meta) then return false end
    if family ~= 'meta' and w then return end
    if not (listed(EDITED.rank, page) and listed(EDITED.due, page)) then
      report('data-without-entry')
    elseif family == 'meta' and not exists(ROOT .. 'hot:window:' .. page) then
      report('incomplete')
    end
  end
end

local function judge_entry(family, key, _, page, score)
  score = tonumber(score)
  local index = string.match(family, '^counting_(.*)$')
  local space = index and COUNTED or EDITED
  index = index or family
  if index == 'activities' then
    if exists(space.key .. page) or has_ended(space, key, page, score) then return end
    return 'entry-without-data', function() redis.call('ZREM', key, page) end
  end
  if exists(space == COUNTED and COUNTED.key .. page or ROOT .. 'hot:meta:' .. page) then return end
  local ranked, due_ms = listed(space.rank, page), listed(space.due, page)
  -- What is in the way of another type is told of itself, and what both list once.
  if ranked == true or due_ms == true or index == 'due' and ranked then return end
  -- One that both list is dropped by the cleanup that it is due for.
  if ranked and due_ms and due_ms - space.base_ms + SPAN_MS <= space.now_ms then return end
  if space == EDITED and exists(ROOT .. 'hot:window:' .. page, ROOT .. 'hot:editors:' .. page) then return 'incomplete' end
  return 'entry-without-data', function()
    redis.pcall('ZREM', space.rank, page)
    redis.pcall('ZREM', space.due, page)
  end
end

return look(2, judge, judge_entry)
