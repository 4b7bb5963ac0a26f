-- cleanup: looks after pages whose window has changed for everybody, and forgets activity that is over.
--
-- Own   how many pages to look after at most, and how much activity
-- Answers  pages that are not hot any more, 1 if there are more to look after, 1 if more
--          activity may be over, hot pages, activities, how many events of each kind
pin_due()
return finish(each(function(_, at)
  local limit = tonumber(ARGV[at + 1])
  local expired, is_more_activity = settle_due(limit), 1
  local oldest = call('ZRANGE', ACTIVITIES, 0, limit - 1)
  if #oldest < limit then is_more_activity = 0 end
  for _, page in ipairs(oldest) do
    local key = ACTIVITY_FAMILY .. page
    local edits = call('GET', key)
    if edits and not is_over(tonumber((struct.unpack('s', edits)))) then
      is_more_activity = 0
      break
    end
    forget(page, key)
  end
  local left = #due(1)
  return with_counts({ expired, left, is_more_activity, call('ZCARD', RANK), call('ZCARD', ACTIVITIES) })
end, KEYS_OF_ITEM, 1, COMMON))
