-- cleanup: looks after pages whose window has changed for everybody, forgets activity that is over,
-- and repairs what it finds that is not ours.
--
-- Own   how many pages to look after at most, and how much activity; which note of keys that were
--       repaired was received before, or empty
-- Answers  which note this is of keys that were repaired, and those, a line each (it stays until it was
--          received); pages that are not hot any more, 1 if there is more to do, 1 if more activity may
--          be over, hot pages, activities, how many events of each kind
pin_due()

-- What is over, and what cannot be read: it would stay the first for ever.
local function is_to_forget(key)
  local edits = redis.pcall('GET', key)
  if not edits then return true end
  local first_ms = began_of(edits)
  if first_ms then return is_over(first_ms) end
  if type(edits) == 'table' and not is_corrupt(edits) then error(edits, 0) end
  note_repaired(key)
  return true
end

local is_more = repair_shared()
return finish(each(function(_, at)
  local limit, received = tonumber(ARGV[at + 1]), ARGV[at + 2]
  local expired, is_more_activity = settle_due(limit), 1
  local oldest = call('ZRANGE', ACTIVITIES, 0, limit - 1)
  if #oldest < limit then is_more_activity = 0 end
  for _, page in ipairs(oldest) do
    local key = ACTIVITY_FAMILY .. page
    if not is_to_forget(key) then
      is_more_activity = 0
      break
    end
    forget(page, key)
  end
  -- Numbers only grow: what is listed below this later on was not put there by us.
  local first = tonumber(call('ZRANGE', ACTIVITIES, 0, 0, 'WITHSCORES')[2])
  redis.pcall('HSET', STATE, 'swept', int(math.max(math.min(first or math.huge, sequence + 1), 1)))
  local note = call('HMGET', STATE, 'mended', 'mended_at')
  local repaired, note_id = note[1] or '', ''
  if repaired ~= '' then
    note_id = (string.match(note[2] or '', '^%d+$') or '') .. ':' .. #repaired
    if note_id == received then
      call('HDEL', STATE, 'mended', 'mended_at')
      repaired, note_id = '', ''
    end
  end
  is_more = is_more or note_id ~= '' or #due(1) > 0
  return with_counts({ note_id, repaired, expired, is_more and 1 or 0, is_more_activity, call('ZCARD', RANK),
    call('ZCARD', ACTIVITIES) })
end, KEYS_OF_ITEM, 2, SHARED_KEYS))
