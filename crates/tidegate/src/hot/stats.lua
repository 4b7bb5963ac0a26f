-- stats: what is known of a page. Changes nothing.
--
-- Answers  1 if it is hot, then if it is: 1 if trending, 1 if spiking, edits of the last
--          hour, of five minutes, how much of the hour is covered (ms), editors, last byte
--          change, total, first and last (ms)
return finish(each(function(k)
  local keys = keys_of(string.sub(KEYS[k], PAGE_AT))
  local p = load(keys.meta)
  p = p and filtered(keys, p)
  if not p then return { 0 } end
  local count = kept_ms > window_ms and lately(keys, window_ms) or p.count
  local is_trending, is_spiking = judged(keys, p, count)
  local editors, unique = {}, 0
  for _, made in ipairs(call('LRANGE', keys.editors, -count, -1)) do
    local _, editor = parts_of(made)
    if editor ~= '' and not editors[editor] then
      editors[editor] = true
      unique = unique + 1
    end
  end
  local hour = lately(keys, math.min(HOUR_MS, window_ms))
  return { 1, is_trending and 1 or 0, is_spiking and 1 or 0, hour, lately(keys, math.min(SPIKE_MS, window_ms)),
    math.min(covered(p), HOUR_MS), unique, p.byte_change, p.total, p.first, p.last }
end, KEYS_OF_ITEM, 0, SHARED_KEYS))
