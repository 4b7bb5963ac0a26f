-- How pages begin to be remembered, and become hot: what edits and counts have in common.

-- Notes that a page has begun to be remembered, and makes room for it.
local function begin(page)
  if count_remembered() >= max_activity then
    flush_activities()
    local oldest = call('ZRANGE', ACTIVITIES, 0, 0)[1]
    -- What is left of its own last time gives way by itself.
    if oldest ~= page then forget(oldest, ACTIVITY_FAMILY .. oldest) end
    remembered = remembered - 1
  end
  list_activity(page)
end

-- Makes room for a page that is to be hot, with so many edits and the last of them: whether there is, how many pages are not
-- hot any more, and the one that was replaced.
local function make_room_for(edits, last_ms)
  local expired, replaced = 0, ''
  work = work + 8
  flush_pages()
  -- An index that was begun anew does not list all that are hot; the other does.
  local ranked, dated = on_index('ZCARD', RANK), on_index('ZCARD', DUE)
  if math.max(ranked, dated) >= max_tracked then
    expired = settle_due(64)
    flush_pages()
    ranked, dated = call('ZCARD', RANK), call('ZCARD', DUE)
  end
  if math.max(ranked, dated) >= max_tracked then
    local coldest = call('ZRANGE', RANK, 0, 0, 'WITHSCORES')
    local rank = tonumber(coldest[2])
    if not replaces or not rank or rank >= rank_of(edits, last_ms) then return false, expired, '' end
    replaced = coldest[1]
    local keys = keys_of(replaced)
    local is_read, cold = pcall(load, keys.meta)
    drop_and_emit(replaced, keys, is_read and cold, 'replaced',
      math.min(math.max(math.floor(rank / RANKED), 0), MAX_WHOLE))
  end
  return true, expired, replaced
end

-- What became of an edit or a count, as it is answered.
local function reply(answer, replaced)
  return counts and with_counts({ answer, replaced }) or answer
end
