-- count: how many pages are hot. Of those whose window has changed it asks the rank when
-- their last edit was, and looks after none.
--
-- Own   how many of those to ask for at most
-- Answers  1 if that were not enough, hot pages, activities
return finish(each(function(_, at)
  local limit, tracked = tonumber(ARGV[at + 1]), call('ZCARD', RANK)
  local pages = due(limit + 1)
  if #pages > limit then return { 1, 0, 0 } end
  for from = 1, #pages, 1000 do
    for _, rank in ipairs(call('ZMSCORE', RANK, unpack(pages, from, math.min(from + 999, #pages)))) do
      local last_ms = rank and rank % RANKED or 0
      if last_ms + window_ms <= now_ms or last_ms > ahead_ms then tracked = tracked - 1 end
    end
  end
  return { 0, tracked, call('ZCARD', ACTIVITIES) }
end, KEYS_OF_ITEM, 1, COMMON))
