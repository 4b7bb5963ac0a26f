-- The ring of a page that edits have left for want of room: how many edits there were, on a grid of time.
--
-- Members are the newest edits, and no more than so many; the ring counts all. It is kept in `ring` of the page's meta,
-- packed: the grain as a power of two (ms), so that grids of other windows are nested in it; how many slots of half a
-- minute there are; edits in all slots; edits since the page became hot and the last of them (ms), as of this ring; then
-- slots of half a minute, of the last five, and slots of the grain. A slot has the last byte of its number and its edits.
--
-- A slot counts until the last edit that could be in it leaves a window: so edits count late, by less than a
-- grain, and never early.
local RING, RING_BYTES, SLOT, SLOT_BYTES = '<BBI6I6I6', 20, '<BI5', 6
local LATELY_GRAIN, MAX_EXPONENT = 30000, 30
local floor = math.floor

-- The last moment of a slot whose last byte this is, on a grid whose newest slot has `last_ms` in it.
local function slot_end(low, grain, last_ms)
  local newest = floor(last_ms / grain)
  return (newest - (newest - low) % 256 + 1) * grain - 1
end

-- Edits in the slots that end at `from_ms` or later, and how many bytes of others are in front of them.
local function since(slots, grain, last_ms, from_ms)
  local sum, at = 0, #slots + 1 - SLOT_BYTES
  while at > 0 do
    local low, count = struct.unpack(SLOT, slots, at)
    if slot_end(low, grain, last_ms) < from_ms then break end
    sum, at = sum + count, at - SLOT_BYTES
  end
  return sum, at - 1 + SLOT_BYTES
end

-- Slots with so many edits more at a moment.
local function bump(slots, grain, last_ms, at_ms, more)
  local at = #slots + 1 - SLOT_BYTES
  while at > 0 do
    local low, count = struct.unpack(SLOT, slots, at)
    local end_ms = slot_end(low, grain, last_ms)
    if end_ms < at_ms then break end
    if end_ms - grain < at_ms then
      return string.sub(slots, 1, at - 1) .. struct.pack(SLOT, low, count + more) .. string.sub(slots, at + SLOT_BYTES)
    end
    at = at - SLOT_BYTES
  end
  local new = struct.pack(SLOT, floor(at_ms / grain) % 256, more)
  return string.sub(slots, 1, at - 1 + SLOT_BYTES) .. new .. string.sub(slots, at + SLOT_BYTES)
end

-- Counts edits of a moment in a ring.
local function count_in(ring, at_ms, more)
  ring.slots = bump(ring.slots, ring.grain, ring.last, at_ms, more)
  ring.sum = ring.sum + more
  local last_ms = math.max(ring.last, at_ms)
  if floor(at_ms / LATELY_GRAIN) > floor(ring.last / LATELY_GRAIN) then
    -- Those that have left the last five minutes since.
    local _, before = since(ring.lately, LATELY_GRAIN, ring.last, last_ms + 1 - SPIKE_MS)
    ring.lately = string.sub(ring.lately, before + 1)
  end
  if (floor(at_ms / LATELY_GRAIN) + 1) * LATELY_GRAIN - 1 + SPIKE_MS > last_ms then
    ring.lately = bump(ring.lately, LATELY_GRAIN, ring.last, at_ms, more)
  end
  ring.last = last_ms
end

-- A ring without an edit.
local function new_ring(exponent)
  return { exponent = exponent, grain = 2 ^ exponent, sum = 0, total = 0, last = 0, lately = '', slots = '' }
end

-- The same ring on a coarser grid, which it is nested in.
local function coarsened(ring, exponent)
  local coarse = new_ring(exponent)
  for at = 1, #ring.slots, SLOT_BYTES do
    local low, count = struct.unpack(SLOT, ring.slots, at)
    local end_ms = slot_end(low, ring.grain, ring.last)
    coarse.slots = bump(coarse.slots, coarse.grain, end_ms, end_ms, count)
  end
  coarse.sum, coarse.total, coarse.last, coarse.lately = ring.sum, ring.total, ring.last, ring.lately
  return coarse
end

local function read_ring(text)
  local exponent, slots, sum, total, last = struct.unpack(RING, text)
  local split = RING_BYTES + slots * SLOT_BYTES
  if exponent > MAX_EXPONENT or #text <= split or (#text - split) % SLOT_BYTES ~= 0 then
    error('a ring cannot be read', 0)
  end
  return { exponent = exponent, grain = 2 ^ exponent, sum = sum, total = total, last = last,
    lately = string.sub(text, RING_BYTES + 1, split), slots = string.sub(text, split + 1) }
end

local function packed_ring(ring)
  return struct.pack(RING, ring.exponent, #ring.lately / SLOT_BYTES, ring.sum, ring.total, ring.last) .. ring.lately
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
