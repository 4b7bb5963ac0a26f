-- What look.lua is to know of limits: overrides and reservations are listed by their end.
--
-- KEYS  the marker, the keys to look at
local OVERRIDES, PENDING_BY_DEADLINE = ROOT .. 'overrides', ROOT .. 'pending'
local RECORD, IS_PENDING = '<ddddddd', 0

local function judge(family, key, subject, report)
  if family == 'calendar' or family == 'calendar_of_key' then
    if not tonumber(redis.call('GET', key)) then report('unreadable') end
  end
  if family ~= 'override' then return end
  -- The form before had no end in front, and was in no list.
  local until_ms = tonumber(string.match(redis.call('GET', key), '^(%d+) '))
  if until_ms and until_ms > look_ms and not listed(OVERRIDES, subject) then report('data-without-entry') end
end

local function judge_entry(family, key, subject, entry, score)
  local function remove() redis.call('ZREM', key, entry) end
  if family == 'overrides' then
    if tonumber(score) > look_ms and not exists(ROOT .. 'override:' .. entry) then return 'entry-without-data', remove end
  elseif family == 'pending' then
    local length, from = string.match(entry, '^(%d+):()')
    length = tonumber(length)
    local of = length and string.sub(entry, from, from + length - 1)
    if not of or #of < length then return 'entry-without-data', remove end
    if tonumber(score) > look_ms and not has_field(ROOT .. 'reservations:' .. of, string.sub(entry, from + length)) then
      return 'entry-without-data', remove
    end
  elseif family == 'reservations_due' then
    if not has_field(ROOT .. 'reservations:' .. subject, entry) then return 'entry-without-data', remove end
  elseif family == 'reservations' then
    -- Here the score is what is under the id.
    local is_read, _, state, deadline_ms = pcall(struct.unpack, RECORD, score)
    if not is_read then return 'unreadable' end
    if not listed(ROOT .. 'reservations_due:' .. subject, entry) then return 'data-without-entry' end
    if state == IS_PENDING and deadline_ms > look_ms
      and not listed(PENDING_BY_DEADLINE, #subject .. ':' .. subject .. entry) then
      return 'data-without-entry'
    end
  end
end

return look(2, judge, judge_entry)
