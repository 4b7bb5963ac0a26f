-- stats: what is known of a page.
--
-- Answers  1 if it is hot, pages that are not any more, then if it is: 1 if trending,
--          1 if spiking, edits of the last hour, of five minutes, how much of the hour
--          is covered (ms), editors, last byte change, total, first and last (ms)
return finish(each(function(k)
  local page = page_at(k)
  local keys = keys_of(page)
  local p, expired = load(keys.meta), 0
  if p then p, expired = settle(page, keys, p) end
  if not p then return { 0, expired } end
  local flags = p.flags
  judge(page, keys, p)
  if p.flags ~= flags then save(page, keys, p) end
  local editors, unique = {}, 0
  for _, made in ipairs(call('LRANGE', keys.editors, 0, -1)) do
    local _, editor = parts_of(made)
    if editor ~= '' and not editors[editor] then
      editors[editor] = true
      unique = unique + 1
    end
  end
  return { 1, expired, p.flags % 2, p.flags >= 2 and 1 or 0, lately(keys, HOUR_MS), lately(keys, SPIKE_MS),
    math.min(covered(p), HOUR_MS), unique, p.byte_change, p.total, p.first, p.last }
end, KEYS_OF_ITEM, 0, COMMON))
