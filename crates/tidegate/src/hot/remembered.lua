-- What calls that record know of pages that are not hot.
local NOW, ACTIVITY_TTL = int(now_ms), int(activity_ttl_ms + behind_ms)
local format = string.format

-- How many pages are remembered, if that is known.
local remembered

-- How many that is, with those that this call is about to list.
local function count_remembered()
  if not remembered then
    flush_activities()
    remembered = on_index('ZCARD', ACTIVITIES)
  end
  return remembered
end

-- Lists a page as the last that has begun to be remembered.
local function list_activity(page)
  is_made = is_made or remembered == 0
  remembered, sequence = remembered + 1, sequence + 1
  local at = #activities
  activities[at + 1], activities[at + 2] = format('%d', sequence), page
end
