-- stats: what is known of a page. Changes nothing.
--
-- Answers  1 if it is hot, then if it is: 1 if trending, 1 if spiking, edits of the last
--          hour, of five minutes, how much of the hour is covered (ms), the grain of the counts (ms, 0 if they are
--          exact), editors, among how many members, last byte change, total, first and last (ms)
return finish(each(function(k)
  local keys = keys_of(string.sub(KEYS[k], PAGE_AT))
  local p = load(keys.meta)
  p = p and filtered(keys, p)
  if not p then return { 0 } end
  local count, ring = edits_in(keys, p, window_ms), ring_of(p)
  local is_trending, is_spiking = judged(keys, p, count)
  local editors, unique = {}, 0
  for _, made in ipairs(p.count > 0 and call('LRANGE', keys.editors, -p.count, -1) or {}) do
    local _, editor = parts_of(made)
    if editor ~= '' and not editors[editor] then
      editors[editor] = true
      unique = unique + 1
    end
  end
  local hour = edits_in(keys, p, math.min(HOUR_MS, window_ms))
  return { 1, is_trending and 1 or 0, is_spiking and 1 or 0, hour, lately(keys, p, count),
    math.min(covered(p), HOUR_MS), ring and ring.grain or 0, unique, p.count, p.byte_change, p.total, p.first, p.last }
end, KEYS_OF_ITEM, 0, SHARED_KEYS))
