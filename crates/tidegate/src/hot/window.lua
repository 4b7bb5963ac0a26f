-- window: the edits of a hot page from one moment to another, both included.
--
-- Own   from and to (ms)
-- Answers  id, when (ms), editor and byte change of each, one after the other
return finish(each(function(k, at)
  local keys = keys_of(string.sub(KEYS[k], PAGE_AT))
  -- A space that only counts keeps none.
  if not keys.window then return {} end
  local from_ms = math.max(tonumber(ARGV[at + 1]), now_ms + 1 - window_ms)
  local to_ms = math.min(tonumber(ARGV[at + 2]), ahead_ms)
  local found = call('ZRANGEBYSCORE', keys.window, from_ms, to_ms, 'WITHSCORES')
  if not found[1] then return {} end
  -- Counted from the latest, where they are even if some were lost.
  local last = -1 - call('ZREVRANK', keys.window, found[#found - 1])
  local made = call('LRANGE', keys.editors, last + 1 - #found / 2, last)
  local edits, lost = {}, #found / 2 - #made
  for i = 1, #found / 2 do
    local byte_change, editor = parts_of(made[i - lost] or '0 ')
    for _, text in ipairs({ found[2 * i - 1], int(tonumber(found[2 * i])), editor, byte_change }) do
      edits[#edits + 1] = text
    end
  end
  return edits
end, KEYS_OF_ITEM, 2, SHARED_KEYS))
