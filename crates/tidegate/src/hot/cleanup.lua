-- cleanup: looks after pages whose window has changed for everybody, forgets activity that is over,
-- and mends what it finds that is not ours.
--
-- Own   how many pages to look after at most, and how much activity
-- Answers  pages that are not hot any more, 1 if there are more to look after, 1 if more
--          activity may be over, hot pages, activities, how many events of each kind; then keys
--          that were mended since the last one, a line each
pin_due()

-- What is over, and what cannot be read: it would stay the first for ever.
local function is_to_forget(key)
  local edits = redis.pcall('GET', key)
  if not edits then return true end
  local is_read, first_ms = pcall(struct.unpack, 's', edits)
  first_ms = is_read and number_of(first_ms, 0, MAX_WHOLE)
  if first_ms then return is_over(first_ms) end
  if type(edits) == 'table' and not is_corrupt(edits) then error(edits, 0) end
  note_mended(key)
  return true
end

return finish(each(function(_, at)
  mend_shared()
  local limit = tonumber(ARGV[at + 1])
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
  local left = #due(1)
  local answer = with_counts({ expired, left, is_more_activity, call('ZCARD', RANK), call('ZCARD', ACTIVITIES) })
  local mended = call('HGET', STATE, 'mended')
  if mended then call('HDEL', STATE, 'mended') end
  answer[#answer + 1] = mended or ''
  return answer
end, KEYS_OF_ITEM, 1, COMMON))
