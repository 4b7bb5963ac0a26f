-- What cleanups and removals do about keys that a partition shares and that are not ours.

-- Makes both indices of hot pages list the same pages, those that can be read, where they
-- belong. What is of another type goes before; what is left to write is written later.
local function match_indices()
  local pages = {}
  for _, index in ipairs({ RANK, DUE }) do
    local listed = redis.pcall('ZRANGE', index, 0, -1)
    if listed.err then
      if not is_corrupt(listed) then error(listed, 0) end
      call('UNLINK', index)
      note_mended(index)
    else
      for _, page in ipairs(listed) do pages[page] = true end
    end
  end
  local ranked, due = { n = 0 }, { n = 0 }
  local function put(index, members, score, page)
    if page then
      members[members.n + 1], members[members.n + 2] = score, page
      members.n = members.n + 2
    end
    if members.n >= 2000 or not page and members.n > 0 then
      call('ZADD', index, unpack(members, 1, members.n))
      members.n = 0
    end
  end
  for page in pairs(pages) do
    local keys = keys_of(page)
    local is_read, p = pcall(load, keys.meta)
    if not is_read and not is_corrupt(p) then error(p, 0) end
    if is_read and p then
      put(RANK, ranked, rank_of(p.count, p.last), page)
      put(DUE, due, p.oldest + base_ms, page)
    else
      call('UNLINK', keys.window, keys.meta, keys.editors)
      call('ZREM', RANK, page)
      call('ZREM', DUE, page)
    end
  end
  put(RANK, ranked)
  put(DUE, due)
end

-- Mends what the partition shares, whatever is wrong with it. Indices that list not as many pages as
-- each other are wrong, and so are those that an edit has begun anew.
local function mend_shared()
  on_index('ZCARD', ACTIVITIES)
  if on_index('ZCARD', RANK) ~= on_index('ZCARD', DUE) then
    if not is_mended then note_mended(RANK) end
    match_indices()
  end
  on_events('XLEN')
end
