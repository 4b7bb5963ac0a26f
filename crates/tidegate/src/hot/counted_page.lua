-- A page of a space that only counts: counted_form.lua says what is in it.

local function keys_of(page)
  return { meta = META_FAMILY .. page }
end

-- A page as its text has it, hot or not.
local function page_of(text)
  local flags, ring_exponent, width, lately, sum, total, first, last, lately_sum = struct.unpack(PAGE, text)
  local bytes = width + 1
  local split = PAGE_BYTES + lately * bytes
  if flags >= 2 * HOT_FLAG or width < 1 or width > MAX_WIDTH or ring_exponent > MAX_EXPONENT or first > last
    or total < 1 or #text < split + bytes or (#text - split) % bytes ~= 0 then
    error('a page cannot be read', 0)
  end
  local ring = { exponent = ring_exponent, grain = 2 ^ ring_exponent, sum = sum, total = total, last = last, width = width,
    lately_sum = lately_sum, slot = SLOTS[width], lately = string.sub(text, PAGE_BYTES + 1, split), slots = string.sub(text, split + 1) }
  local p = { is_hot = flags >= HOT_FLAG, flags = flags % HOT_FLAG, count = 0, oldest = last, cut = math.huge, total = total,
    first = first, last = last, byte_change = 0, ring = ring }
  if ring_exponent < exponent then
    -- Somebody has a longer window by now: the key has to live for that.
    p.ring, p.is_renewed = coarsened(ring, exponent), true
  end
  p.due = due_of(p)
  return p
end

-- A hot page, or nothing.
local function load(key, text)
  text = text or call('GET', key)
  local p = text and page_of(text)
  return p and p.is_hot and p or nil
end

-- Writes a page. Its key lives for a grain longer than it has to, so that only the first count of a slot lengthens that.
local function write(key, p, ttl)
  local ring = p.ring
  local text = struct.pack(PAGE, p.flags + (p.is_hot and HOT_FLAG or 0), ring.exponent, ring.width,
    #ring.lately / (ring.width + 1), ring.sum, p.total, p.first, p.last, ring.lately_sum) .. ring.lately .. ring.slots
  if ttl then
    call('SET', key, text, 'PX', int(ttl))
  else
    call('SET', key, text, 'KEEPTTL')
  end
end

local function save(page, keys, p)
  write(keys.meta, p, p.is_renewed and kept_ms + p.ring.grain + buffer_ms + behind_ms)
  ranks[page] = rank_of(p.ring.sum, p.last)
end

-- When what is remembered of a page that is not hot began, by its text; nothing if it cannot be read. Of one that is hot
-- nothing else is remembered: that is over.
local function began_of(text)
  local is_read, p = pcall(page_of, text)
  if not is_read then return end
  return p.is_hot and -math.huge or p.first
end

local function unlink(keys)
  call('UNLINK', keys.meta)
end

-- Forgets what was remembered of a page that is not hot; one that is hot stays, whatever lists it.
local function forget(page, key)
  flush_activities()
  local is_read, p = pcall(load, key)
  if not (is_read and p) then call('UNLINK', key) end
  on_index('ZREM', ACTIVITIES, page)
end
