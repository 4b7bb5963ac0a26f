-- cleanup: looks after pages whose window has changed, forgets activity that is over,
-- and tells the hottest pages, all exact once no page is left to look after.
--
-- Own   how many pages to look after at most, and how much activity; how many to tell
-- Answers  pages that are not hot any more, 1 if there are more to look after, 1 if more
--          activity may be over, hot pages, activities, then page and rank of the
--          hottest, one after the other
return finish(each(function(_, at)
  local limit, told = tonumber(ARGV[at + 1]), tonumber(ARGV[at + 2])
  local expired, is_more_activity = settle_due(limit), 1
  local oldest = call('ZRANGE', ACTIVITIES, 0, limit - 1)
  if #oldest < limit then is_more_activity = 0 end
  for _, page in ipairs(oldest) do
    local key = ACTIVITY_FAMILY .. page
    local edits = call('GET', key)
    if edits and not is_over(struct.unpack('<d', edits)) then
      is_more_activity = 0
      break
    end
    forget(page, key)
  end
  local is_more = #due(1)
  local answer = { expired, is_more, is_more_activity, call('ZCARD', RANK), call('ZCARD', ACTIVITIES) }
  if told > 0 and is_more == 0 then
    for _, text in ipairs(call('ZREVRANGE', RANK, 0, told - 1, 'WITHSCORES')) do answer[#answer + 1] = text end
  end
  return answer
end, KEYS_OF_ITEM, 2, COMMON))
