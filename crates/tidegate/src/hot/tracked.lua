-- tracked: how many pages are hot. Of those whose window has changed it asks the rank when
-- their last edit was. Changes nothing.
--
-- Own   how many of those to ask for at most, from which place on
-- Answers  the place to go on from (NO_MORE: that was all), pages, those of them that are over,
--          activities
return finish(each(function(_, at)
  local limit, from = tonumber(ARGV[at + 1]), tonumber(ARGV[at + 2])
  local until_ms = int(now_ms + base_ms - window_ms)
  local pages = read_index('ZRANGEBYSCORE', DUE, '-inf', until_ms, 'LIMIT', from, limit)
  local next_from = #pages == limit and from + limit or NO_MORE
  if next_from == NO_MORE then
    -- Those that are absurdly far ahead come last.
    for _, page in ipairs(read_index('ZRANGEBYSCORE', DUE, '(' .. int(ahead_ms + base_ms), '+inf')) do
      pages[#pages + 1] = page
    end
  end
  -- When the last edit was; a rank of many edits has not all of it.
  local function last_of(page, rank)
    if not rank then return 0 end
    if tonumber(rank) < MAX_WHOLE then return rank % RANKED end
    local is_read, p = pcall(load, META_FAMILY .. page)
    return is_read and p and p.last or rank % RANKED
  end
  local over = 0
  for first = 1, #pages, 1000 do
    local ranked = read_index('ZMSCORE', RANK, unpack(pages, first, math.min(first + 999, #pages)))
    for i, rank in ipairs(ranked) do
      local last_ms = last_of(pages[first + i - 1], rank)
      if last_ms + window_ms <= now_ms or last_ms > ahead_ms then over = over + 1 end
    end
  end
  return { next_from, read_index('ZCARD', RANK), over, read_index('ZCARD', ACTIVITIES) }
end, KEYS_OF_ITEM, 2, SHARED_KEYS))
