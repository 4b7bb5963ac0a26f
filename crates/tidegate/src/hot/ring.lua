-- What becomes of a ring: ring_form.lua says what that is.

-- Edits in the slots of a ring that end at `from_ms` or later, and how many bytes of others are in front of them.
local function since(ring, slots, grain, from_ms)
  local slot, bytes, last_ms, sum = ring.slot, ring.width + 1, ring.last, 0
  local at = #slots + 1 - bytes
  while at > 0 do
    local low, count = struct.unpack(slot, slots, at)
    if slot_end(low, grain, last_ms) < from_ms then break end
    sum, at = sum + count, at - bytes
  end
  return sum, at - 1 + bytes
end

-- Slots with so many edits more at a moment, and whether one of them is new; nothing if they do not fit into a slot.
local function bump(ring, slots, grain, at_ms, more)
  local slot, bytes, last_ms = ring.slot, ring.width + 1, ring.last
  local at, most = #slots + 1 - bytes, MOST[ring.width]
  while at > 0 do
    local low, count = struct.unpack(slot, slots, at)
    local end_ms = slot_end(low, grain, last_ms)
    if end_ms < at_ms then break end
    if end_ms - grain < at_ms then
      if count + more > most then return end
      return string.sub(slots, 1, at - 1) .. struct.pack(slot, low, count + more) .. string.sub(slots, at + bytes), false
    end
    at = at - bytes
  end
  if more > most then return end
  local new = struct.pack(slot, floor(at_ms / grain) % 256, more)
  return string.sub(slots, 1, at - 1 + bytes) .. new .. string.sub(slots, at + bytes), true
end

-- Gives the slots of a ring one byte more for their edits.
local function widen(ring)
  local width = ring.width + 1
  local function wider(slots)
    local texts = {}
    for at = 1, #slots, width do
      local low, count = struct.unpack(ring.slot, slots, at)
      texts[#texts + 1] = struct.pack(SLOTS[width], low, count)
    end
    return table.concat(texts)
  end
  ring.slots, ring.lately = wider(ring.slots), wider(ring.lately)
  ring.slot, ring.width = SLOTS[width], width
end

-- Slots with so many edits more at a moment, and whether one of them is new; `which` are those.
local function bumped(ring, which, grain, at_ms, more)
  local slots, is_new = bump(ring, ring[which], grain, at_ms, more)
  while not slots do
    widen(ring)
    slots, is_new = bump(ring, ring[which], grain, at_ms, more)
  end
  return slots, is_new
end

-- Counts edits of a moment in a ring; whether that has a slot of the grain more.
local function count_in(ring, at_ms, more)
  local slots, is_new = bumped(ring, 'slots', ring.grain, at_ms, more)
  ring.slots, ring.sum = slots, ring.sum + more
  local last_ms = math.max(ring.last, at_ms)
  if floor(at_ms / LATELY_GRAIN) > floor(ring.last / LATELY_GRAIN) then
    -- Those that have left the last five minutes since.
    local sum, before = since(ring, ring.lately, LATELY_GRAIN, last_ms + 1 - SPIKE_MS)
    ring.lately, ring.lately_sum = string.sub(ring.lately, before + 1), sum
  end
  if (floor(at_ms / LATELY_GRAIN) + 1) * LATELY_GRAIN - 1 + SPIKE_MS > last_ms then
    ring.lately, ring.lately_sum = bumped(ring, 'lately', LATELY_GRAIN, at_ms, more), ring.lately_sum + more
  end
  ring.last = last_ms
  return is_new
end

-- A ring without an edit, with so many bytes for those of a slot.
local function new_ring(exponent, width)
  return { exponent = exponent, grain = 2 ^ exponent, sum = 0, total = 0, last = 0, lately = '', lately_sum = 0, slots = '', width = width,
    slot = SLOTS[width] }
end

-- The same ring on a coarser grid, which it is nested in.
local function coarsened(ring, exponent)
  local coarse = new_ring(exponent, ring.width)
  coarse.lately, coarse.lately_sum = ring.lately, ring.lately_sum
  for at = 1, #ring.slots, ring.width + 1 do
    local low, count = struct.unpack(ring.slot, ring.slots, at)
    local end_ms = slot_end(low, ring.grain, ring.last)
    coarse.last = end_ms
    coarse.slots = bumped(coarse, 'slots', coarse.grain, end_ms, count)
  end
  coarse.sum, coarse.total, coarse.last = ring.sum, ring.total, ring.last
  return coarse
end

local function read_ring(text)
  local exponent, slots, sum, total, last = struct.unpack(RING, text)
  local split = RING_BYTES + slots * (RING_WIDTH + 1)
  if exponent > MAX_EXPONENT or #text <= split or (#text - split) % (RING_WIDTH + 1) ~= 0 then
    error('a ring cannot be read', 0)
  end
  return { exponent = exponent, grain = 2 ^ exponent, sum = sum, total = total, last = last, lately_sum = 0, width = RING_WIDTH,
    slot = SLOTS[RING_WIDTH], lately = string.sub(text, RING_BYTES + 1, split), slots = string.sub(text, split + 1) }
end

local function packed_ring(ring)
  return struct.pack(RING, ring.exponent, #ring.lately / (RING_WIDTH + 1), ring.sum, ring.total, ring.last) .. ring.lately
    .. ring.slots
end

-- The end of the slot of the latest edit of a page that is no member.
local function cut_end(p)
  return (floor(p.cut / p.ring.grain) + 1) * p.ring.grain - 1
end

-- When the first of what is counted of a page leaves a window, less that window.
local function due_of(p)
  local ring = p.ring
  return ring and math.min(p.oldest, slot_end(string.byte(ring.slots), ring.grain, ring.last)) or p.oldest
end
