-- What calls that record know of pages that are not hot.
local NOW, ACTIVITY_TTL = int(now_ms), int(activity_ttl_ms + behind_ms)

-- How many pages are remembered, if that is known.
local remembered

-- How many that is, with those that this call is about to list.
local function count_remembered()
  if not remembered then
    flush(ACTIVITIES, activities)
    remembered = on_index('ZCARD', ACTIVITIES)
  end
  return remembered
end
