-- count: what most calls are, as record_most.lua has it of edits.

-- So many more of a page, if there is nothing to do but to count them.
local function count_most(k, more)
  local key = KEYS[k]
  local page, text = string.sub(key, PAGE_AT), call('GET', key)
  more = tonumber(more)
  -- It takes longer, but 512 of these are two milliseconds, and in one script they cost the least.
  work = work + 2
  if text and is_pinned and count_in_place(page, key, text, more) then return COUNTED end
  return nil, page, text, more
end
