-- count: so many more of a page that is hot, in the slots of its last count. Any other is for count_any.lua.

-- Whether a page with so many in its window, and lately, is as its flags say.
local function is_judged(flags, first_ms, edits, lately_edits)
  local is_spiking, reach = false, math.min(now_ms - first_ms, window_ms)
  if reach > SPIKE_MS and edits >= spike_minimum then
    local recent, ratio = math.min(lately_edits, edits), flags >= 2 and spike_ratio / 2 or spike_ratio
    is_spiking = recent >= spike_minimum and recent / SPIKE_MS >= ratio * ((edits - recent) / (reach - SPIKE_MS))
  end
  return (edits >= promotion_threshold and 1 or 0) + (is_spiking and 2 or 0) == flags
end

-- Most counts are of a page that is hot, in the slots of its last count and not before it, and change nothing but numbers: they are
-- written over those that are there, without a look at the rest: none leaves the last five minutes before the last millisecond of a half
-- minute. Whether this was one of them; if not, nothing was done.
local function count_in_place(page, key, text, more)
  if #text < PAGE_BYTES or kept_ms ~= window_ms then return false end
  local flags, ring_exponent, width, lately, sum, total, first, last, lately_sum = struct.unpack(PAGE, text)
  local slot, bytes, grain = SLOTS[width], width + 1, 2 ^ ring_exponent
  local number, half_minute = floor(now_ms / grain), floor(now_ms / LATELY_GRAIN)
  if not slot or flags < HOT_FLAG or ring_exponent ~= exponent or last > now_ms or floor(last / grain) ~= number
    or floor(last / LATELY_GRAIN) ~= half_minute or (now_ms + 1) % LATELY_GRAIN == 0 or sum + more > MAX_COUNTED or total + more > MOST[6] then
    return false
  end
  local split = PAGE_BYTES + lately * bytes
  if lately < 1 or last + kept_ms <= now_ms or #text < split + bytes or (#text - split) % bytes ~= 0
    or slot_end(string.byte(text, split + 1), grain, last) + kept_ms <= now_ms then
    return false
  end
  local lately_at, at = split + 1 - bytes, #text + 1 - bytes
  local lately_low, lately_count = struct.unpack(slot, text, lately_at)
  local low, count = struct.unpack(slot, text, at)
  if low ~= number % 256 or lately_low ~= half_minute % 256 or lately_count + more > MOST[width] or count + more > MOST[width]
    or not is_judged(flags - HOT_FLAG, first, sum + more, lately_sum + more) then
    return false
  end
  call('SET', key, struct.pack(PAGE, flags, ring_exponent, width, lately, sum + more, total + more, first, now_ms,
    lately_sum + more) .. string.sub(text, PAGE_BYTES + 1, lately_at - 1) .. struct.pack(slot, lately_low, lately_count + more)
    .. string.sub(text, split + 1, at - 1) .. struct.pack(slot, low, count + more), 'KEEPTTL')
  local rank = rank_of(sum + more, now_ms)
  -- Whole numbers take a server the least as texts.
  ranks[page] = rank < MAX_WHOLE and format('%d', rank) or rank
  -- While there is one slot the last count is what ends first.
  if at == split + 1 then dues[page] = format('%d', now_ms + base_ms) end
  return true
end
