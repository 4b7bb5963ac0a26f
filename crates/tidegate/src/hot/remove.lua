-- remove: forgets all that is known of a page, and of one whose keys are not what they should
-- be.
--
-- Answers  what it was (0 not known, 1 remembered, 2 hot), pages that are not hot any more, how
--          many events of each kind
return finish(each(function(k)
  local page, was, expired = page_at(k), 0, 0
  local keys = keys_of(page)
  local is_read, p = pcall(load, keys.meta)
  if is_read and p then p, expired = settle(page, keys, p) end
  if p then
    drop_and_tell(page, keys, is_read and p, 'removed', is_read and p.count or 0)
    was = 2
  end
  local is_text, edits = pcall(call, 'GET', KEYS[k])
  if not is_text or type(edits) == 'table' then
    was = math.max(was, 1)
  elseif edits and not is_over(tonumber((struct.unpack('s', edits))) or 0) then
    was = math.max(was, 1)
  end
  forget(page, KEYS[k])
  return with_counts({ was, expired })
end, KEYS_OF_ITEM, 0, COMMON))
