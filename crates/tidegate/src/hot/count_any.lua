-- count: so many more of a page, now, whatever becomes of it.

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
  flush_activities()
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

pin_due()
return function(key, page, text, more)
  local p, expired = text and page_of(text), 0
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
