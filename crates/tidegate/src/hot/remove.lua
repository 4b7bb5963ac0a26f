-- remove: forgets all that is known of a page, whatever its keys are, and repairs what the partition
-- shares.
--
-- Answers  what it was, pages that are not hot any more, how
--          many events of each kind
pin_due()

-- Whether something is remembered that is not over, or cannot be read.
local function is_remembered(key)
  local edits = redis.pcall('GET', key)
  if not edits then return false end
  local first_ms = began_of(edits)
  return not first_ms or not is_over(first_ms)
end

repair_shared()
return finish(each(function(k)
  local page, was, expired = string.sub(KEYS[k], PAGE_AT), NOT_KNOWN, 0
  local keys = keys_of(page)
  -- Asked before: what is not hot may be in the same key.
  local is_also_remembered = is_remembered(KEYS[k])
  local is_settled, p, gone = pcall(function()
    local p = load(keys.meta)
    if p then return settle(page, keys, p) end
  end)
  if is_settled and p then
    drop_and_emit(page, keys, p, 'removed', edits_of(p))
    was = WAS_HOT
  elseif is_settled then
    -- Without a page there is nothing to tell of what may be left of it.
    drop(page, keys)
    expired = gone or 0
  else
    if not is_corrupt(p) then error(p, 0) end
    drop_and_emit(page, keys, nil, 'removed', 0)
    was = WAS_HOT
  end
  if is_also_remembered then was = math.max(was, WAS_REMEMBERED) end
  forget(page, KEYS[k])
  return with_counts({ was, expired })
end, KEYS_OF_ITEM, 0, SHARED_KEYS))
