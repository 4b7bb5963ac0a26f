-- list: the hottest pages. What is known of a rank is never too low, since counts fall by
-- the passing of time alone: it goes down from the highest, counts anew those whose edits
-- have left our window in part, and ends where none that follow can be among the hottest.
-- Changes nothing.
--
-- Own   how many are wanted; how many may be counted anew; from which place on; the rank
--       of the last that is wanted, as far as it is known from before
-- Answers  the place to go on from (-1: that was all), then page and rank of each, one after
--          the other, as they come; the hottest are among them
return finish(each(function(_, at)
  local limit, most, from, floor = tonumber(ARGV[at + 1]), tonumber(ARGV[at + 2]), tonumber(ARGV[at + 3]), tonumber(ARGV[at + 4])
  -- The highest ranks, falling.
  local answer, best = { -1 }, {}
  local function put(rank)
    local place = #best + 1
    while place > 1 and best[place - 1] < rank do
      best[place] = best[place - 1]
      place = place - 1
    end
    best[place] = rank
    best[limit + 1] = nil
  end
  while true do
    local ranked = call('ZREVRANGE', RANK, from, from + 99, 'WITHSCORES')
    if not ranked[1] then return answer end
    for i = 1, #ranked, 2 do
      local page, rank = ranked[i], tonumber(ranked[i + 1])
      if rank < floor or best[limit] and rank < best[limit] then return answer end
      local keys = keys_of(page)
      local p = load(keys.meta)
      local is_exact = p and p.oldest + window_ms > now_ms
      if p and not is_exact then
        if most == 0 then
          answer[1] = from
          return answer
        end
        most = most - 1
      end
      p = p and filtered(keys, p)
      if p then
        if not is_exact then rank = rank_of(p.count, p.last) end
        put(rank)
        answer[#answer + 1], answer[#answer + 2] = page, int(rank)
      end
      from = from + 1
    end
  end
end, KEYS_OF_ITEM, 4, COMMON))
