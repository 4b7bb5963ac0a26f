-- list: the hottest pages. What is known of a rank is never too low, since counts fall by
-- the passing of time alone: it goes down from the highest, counts anew those whose edits
-- have left our window in part, and ends where none that follow can be among the hottest.
-- A page that cannot be read is left out. Changes nothing.
--
-- Own   how many are wanted; how many may be counted anew; edits, last edit (ms) and page that those
--       told are behind, or three empty texts; from which place on (below 0: at the beginning); edits and
--       last edit of the last that is wanted, as far as it is known from before
-- Answers  the place to go on from (NO_MORE: that was all), then page, edits and last edit (ms) of each, one after
--          the other, as they come; the hottest are among them

-- How many pages come before those behind a rank and a page.
local function place(rank, page)
  local stored = read_index('ZSCORE', RANK, page)
  if stored and tonumber(stored) == rank then return call('ZREVRANK', RANK, page) + 1 end
  local from = read_index('ZCOUNT', RANK, '(' .. int(rank), '+inf')
  while true do
    -- Those of the same rank, the last name first.
    local alike = read_index('ZREVRANGE', RANK, from, from + 99, 'WITHSCORES')
    for i = 1, #alike, 2 do
      if tonumber(alike[i + 1]) ~= rank or is_before(alike[i], page) then return from end
      from = from + 1
    end
    if not alike[1] then return from end
  end
end

-- What `read` says of a page, or nothing if it cannot be read.
local function try(read, ...)
  local is_read, found = pcall(read, ...)
  if is_read then return found end
  if not is_corrupt(found) then error(found, 0) end
end

return finish(each(function(_, at)
  local limit, most = tonumber(ARGV[at + 1]), tonumber(ARGV[at + 2])
  local after_rank = ARGV[at + 3] ~= '' and rank_of(tonumber(ARGV[at + 3]), tonumber(ARGV[at + 4]))
  local after_page, from = ARGV[at + 5], tonumber(ARGV[at + 6])
  local least = rank_of(tonumber(ARGV[at + 7]), tonumber(ARGV[at + 8]))
  local function is_behind(rank, page)
    return not after_rank or rank < after_rank or rank == after_rank and is_before(page, after_page)
  end
  -- The highest ranks, falling.
  local answer, best = { NO_MORE }, {}
  local function put(rank)
    local at_place = #best + 1
    while at_place > 1 and best[at_place - 1] < rank do
      best[at_place] = best[at_place - 1]
      at_place = at_place - 1
    end
    best[at_place] = rank
    best[limit + 1] = nil
  end
  -- Tells a page as it stands, if it is behind; false if no more may be counted anew.
  local function consider(page, rank)
    local keys = keys_of(page)
    local p = try(load, keys.meta)
    local is_exact = p and p.due + window_ms > now_ms
    if p and not is_exact then
      if most == 0 then return false end
      most = most - 1
    end
    if p and not is_exact then p = try(filtered, keys, p) end
    if p and p.last <= ahead_ms then
      local edits = is_exact and edits_of(p) or edits_in(keys, p, window_ms)
      rank = rank_of(edits, p.last)
      if is_behind(rank, page) then
        put(rank)
        answer[#answer + 1], answer[#answer + 2], answer[#answer + 3] = page, int(edits), int(p.last)
      end
    end
    return true
  end
  if from < 0 then
    from = 0
    if after_rank then
      -- What is ranked higher and has lost edits since may be behind by now.
      local until_ms = int(now_ms + base_ms - window_ms)
      for _, page in ipairs(read_index('ZRANGEBYSCORE', DUE, '-inf', until_ms, 'LIMIT', 0, most)) do
        local rank = tonumber(read_index('ZSCORE', RANK, page))
        if rank and not is_behind(rank, page) then consider(page, rank) end
      end
      from = place(after_rank, after_page)
    end
  end
  while true do
    local ranked = read_index('ZREVRANGE', RANK, from, from + 99, 'WITHSCORES')
    if not ranked[1] then return answer end
    for i = 1, #ranked, 2 do
      local page, rank = ranked[i], tonumber(ranked[i + 1])
      if rank < least or best[limit] and rank < best[limit] then return answer end
      if not consider(page, rank) then
        answer[1] = from
        return answer
      end
      from = from + 1
    end
  end
end, KEYS_OF_ITEM, 8, SHARED_KEYS))
