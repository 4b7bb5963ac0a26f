-- list: the hottest pages. What is known of a rank is never too low, since counts fall by
-- the passing of time alone: it goes down from the highest and makes each exact that it
-- meets.
--
-- Own   how many to tell; how many pages to look after at most
-- Answers  1 if that were not enough, pages that are not hot any more, then page and rank
--          of the hottest, one after the other
return finish(each(function(_, at)
  local limit, most, expired = tonumber(ARGV[at + 1]), tonumber(ARGV[at + 2]), 0
  local answer, from = { 0, 0 }, 0
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
end, KEYS_OF_ITEM, 2, COMMON))
