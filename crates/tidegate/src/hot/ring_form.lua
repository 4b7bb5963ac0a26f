-- The ring of a page: how many edits there were, on a grid of time. A page of which edits are kept has one while edits
-- that left for want of room are in the window; a page that only counts always has.
--
-- Slots are texts, the oldest slot first: each has the last byte of its number and its edits, in as many bytes as the
-- ring says. There are slots of the grain, a power of two in ms, so that grids of other windows are nested in it; and slots
-- of half a minute, of the last five. In the meta of a page whose edits are kept a ring is packed: exponent of the grain; how
-- many slots of half a minute there are; edits in all slots; edits since the page became hot and the last of them (ms), as
-- of this ring; then both kinds of slots, those of half a minute first, with five bytes each for the edits.
--
-- A slot counts until the last edit that could be in it leaves a window: so edits count late, by less than a
-- grain, and never early.
local RING, RING_BYTES, RING_WIDTH = '<BBI6I6I6', 20, 5
local SLOTS = { '<BB', '<BI2', '<BI3', '<BI4', '<BI5', '<BI6' }
local MOST = { 255, 65535, 16777215, 4294967295, 1099511627775, 281474976710655 }
local LATELY_GRAIN, MAX_EXPONENT = 30000, 30
local floor = math.floor

-- The last moment of a slot whose last byte this is, on a grid whose newest slot has `last_ms` in it.
local function slot_end(low, grain, last_ms)
  local newest = floor(last_ms / grain)
  return (newest - (newest - low) % 256 + 1) * grain - 1
end
