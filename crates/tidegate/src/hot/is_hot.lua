-- is_hot: whether a page is hot. Changes nothing.
--
-- Answers  1 or 0
return each(function(k)
  local p = load(META_FAMILY .. string.sub(KEYS[k], PAGE_AT))
  return p and p.last + window_ms > now_ms and p.last <= ahead_ms and 1 or 0
end, KEYS_OF_ITEM, 0, SHARED_KEYS)
