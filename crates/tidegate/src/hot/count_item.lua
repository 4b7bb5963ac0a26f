-- count: so many more of a page, now: what becomes of an item, whether it was sent at once or gathered.

-- Counts so many more of a page, as many as may count at a time. If none may there is a slot all the same: what is in others
-- may leave the window before this moment does.
local function add(p, more)
  local ring, all = p.ring, math.min(p.total + more, MOST[6])
  more = math.min(more, MAX_COUNTED - ring.sum)
  if count_in(ring, now_ms, more) then p.is_renewed = true end
  p.total, p.last, ring.last = all, math.max(p.last, now_ms), math.max(ring.last, now_ms)
  p.oldest = p.last
end

-- Makes a page hot by what is remembered of it.
local function promote(page, keys, p)
  local edits = edits_in(keys, p, window_ms)
  local is_room, expired, replaced = make_room_for(edits, p.last)
  if not is_room then return REJECTED, expired, '' end
  flush(ACTIVITIES, activities)
  on_index('ZREM', ACTIVITIES, page)
  p.is_hot, p.is_renewed = true, true
  work = work + 14
  dues[page] = due_of(p) + base_ms
  emit('promoted', page, edits)
  judge(page, keys, p)
  save(page, keys, p)
  return PROMOTED, expired, replaced
end

-- Counts so many of a page that is not hot, as it was before; at the threshold it becomes so.
local function remember(page, key, p, more)
  local is_new = not p
  work = work + 4
  if is_new then
    begin(page)
    p = { is_hot = false, flags = 0, count = 0, oldest = now_ms, cut = math.huge, total = 0, first = now_ms, last = now_ms,
      byte_change = 0, ring = new_ring(exponent, 1) }
  else
    -- What has left everybody's window.
    local sum, before = since(p.ring, p.ring.slots, p.ring.grain, now_ms + 1 - kept_ms)
    p.ring.slots, p.ring.sum = string.sub(p.ring.slots, before + 1), sum
  end
  add(p, more)
  local code, expired, replaced = REMEMBERED, 0, ''
  if p.total >= hot_threshold then
    remembered = nil
    code, expired, replaced = promote(page, { meta = key }, p)
  end
  if code ~= PROMOTED then write(key, p, is_new and ACTIVITY_TTL) end
  return code + ACTIVITY, expired, replaced
end

-- Whether a page with so many in its window, and lately, is as its flags say.
local function is_judged(flags, first_ms, edits, lately_edits)
  local is_spiking, reach = false, math.min(now_ms - first_ms, window_ms)
  if reach > SPIKE_MS and edits >= spike_minimum then
    local recent, ratio = math.min(lately_edits, edits), flags >= 2 and spike_ratio / 2 or spike_ratio
    is_spiking = recent >= spike_minimum and recent / SPIKE_MS >= ratio * ((edits - recent) / (reach - SPIKE_MS))
  end
  return (edits >= promotion_threshold and 1 or 0) + (is_spiking and 2 or 0) == flags
end

-- Most counts are of a page that is hot, in the slots of its last count, and change nothing but numbers: they are written
-- over those that are there, without a look at the rest: none leaves the last five minutes before the last millisecond of a half
-- minute. Whether this was one of them; if not, nothing was done.
local function count_in_place(page, key, text, more)
  if #text < PAGE_BYTES or kept_ms ~= window_ms then return false end
  local flags, ring_exponent, width, lately, sum, total, first, last, lately_sum = struct.unpack(PAGE, text)
  local slot, bytes, grain = SLOTS[width], width + 1, 2 ^ ring_exponent
  local number, half_minute = floor(now_ms / grain), floor(now_ms / LATELY_GRAIN)
  if not slot or flags < HOT_FLAG or ring_exponent ~= exponent or floor(last / grain) ~= number
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
  ranks[page] = rank_of(sum + more, now_ms)
  -- While there is one slot the last count is what ends first.
  if at == split + 1 then dues[page] = now_ms + base_ms end
  return true
end

local function count(k, at)
  local key, more, expired = KEYS[k], tonumber(ARGV[at + 1]), 0
  local page, text = string.sub(key, PAGE_AT), call('GET', key)
  -- It takes longer, but 512 of these are two milliseconds, and in one script they cost the least.
  work = work + 2
  if text and count_in_place(page, key, text, more) then return COUNTED end
  local p = text and page_of(text)
  if p and p.is_hot then
    local keys = { meta = key }
    work = work + 12
    p, expired = settle(page, keys, p)
    if p then
      add(p, more)
      local due_ms = due_of(p)
      if due_ms ~= p.due then dues[page] = due_ms + base_ms end
      judge(page, keys, p)
      save(page, keys, p)
      return reply(COUNTED, '')
    end
  elseif p and is_over(p.first) then
    forget(page, key)
    p, remembered = nil, nil
  end
  local code, gone, replaced = remember(page, key, p, more)
  return reply(code + EXPIRED * (expired + gone), replaced)
end
