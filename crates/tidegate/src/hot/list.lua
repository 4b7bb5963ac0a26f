-- list: the hottest pages. What is known of a rank is never too low, since counts fall by
-- the passing of time alone: it goes down from the highest and makes each exact that it
-- meets.
--
-- Own   how many to tell; how many pages to look after at most; the rank and the page
--       that those told are behind, or two empty texts
-- Answers  1 if that were not enough, pages that are not hot any more, then page and rank
--          of the hottest, one after the other

-- How many pages come before those behind a rank and a page.
local function place(rank, page)
  local stored = call('ZSCORE', RANK, page)
  if stored and tonumber(stored) == tonumber(rank) then return call('ZREVRANK', RANK, page) + 1 end
  local from = call('ZCOUNT', RANK, '(' .. rank, '+inf')
  while true do
    -- Those of the same rank, the last name first.
    local alike = call('ZREVRANGE', RANK, from, from + 99, 'WITHSCORES')
    for i = 1, #alike, 2 do
      if tonumber(alike[i + 1]) ~= tonumber(rank) or is_before(alike[i], page) then return from end
      from = from + 1
    end
    if not alike[1] then return from end
  end
end

return finish(each(function(_, at)
  local limit, most, expired = tonumber(ARGV[at + 1]), tonumber(ARGV[at + 2]), 0
  local answer, from = { 0, 0 }, 0
  if ARGV[at + 3] ~= '' then
    flush_pages()
    from = place(ARGV[at + 3], ARGV[at + 4])
  end
  limit = from + limit
  while from < limit do
    flush_pages()
    -- Most are exact: those are told, up to the first that is not.
    local ranked = call('ZREVRANGE', RANK, from, math.min(limit, from + 100) - 1, 'WITHSCORES')
    if not ranked[1] then break end
    for i = 1, #ranked, 2 do
      local page = ranked[i]
      local keys = keys_of(page)
      local p = load(keys.meta)
      if p and p.oldest + window_ms > now_ms and p.last <= ahead_ms then
        answer[#answer + 1], answer[#answer + 2] = page, ranked[i + 1]
        from = from + 1
      else
        if most == 0 then return { 1, expired } end
        most, expired = most - 1, expired + settle_or_drop(page, keys, p)
        break
      end
    end
  end
  answer[2] = expired
  return answer
end, KEYS_OF_ITEM, 4, COMMON))
