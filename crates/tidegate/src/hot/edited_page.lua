-- The form of a page in a space that keeps edits: hot.lua says which keys it has.

local function keys_of(page)
  return { window = WINDOW_FAMILY .. page, meta = META_FAMILY .. page, editors = EDITORS_FAMILY .. page }
end

local function unlink(keys)
  call('UNLINK', keys.window, keys.meta, keys.editors)
end

-- Byte change and editor of an edit, as `editors` has them.
local function made_of(byte_change, editor)
  return byte_change .. ' ' .. editor
end

-- The ring of a page that was cut. A program that knows no rings may have counted since: the edits are known by their
-- number, and were made by the last of them. Without a ring, the page counts its members.
local function load_ring(meta, p)
  local text = call('HGET', meta, 'ring')
  local ring = text and read_ring(text)
  if not ring or ring.total > p.total or ring.last > p.last or ring.last + kept_ms <= now_ms and ring.total < p.total then
    p.cut = 0
    return
  end
  if ring.exponent < exponent then ring = coarsened(ring, exponent) end
  if ring.total < p.total then count_in(ring, p.last, p.total - ring.total) end
  ring.total, p.ring = p.total, ring
  p.due = due_of(p)
end

-- A hot page, or nothing.
local function load(meta, w)
  w = w or call('HGET', meta, 'w')
  if not w then return end
  local count, oldest, cut, flags, renewed, total, first, last, byte_change = struct.unpack(PACKED, w)
  if not (count >= 1 and count <= MAX_MEMBERS and flags >= 0 and flags <= 3 and oldest >= 0 and oldest <= last
      and last <= MAX_WHOLE and first >= 0 and first <= last and cut >= 0 and cut <= MAX_WHOLE
      and renewed <= MAX_WHOLE and total >= 1 and total <= MAX_WHOLE
      and byte_change >= -MAX_WHOLE and byte_change <= MAX_WHOLE
      and count % 1 + oldest % 1 + cut % 1 + flags % 1 + renewed % 1 + total % 1 + first % 1 + last % 1 + byte_change % 1 == 0) then
    error('a page cannot be read', 0)
  end
  local p = { count = count, oldest = oldest, cut = cut, flags = flags, renewed = renewed, total = total, due = oldest,
    first = first, last = last, byte_change = byte_change, last_id = string.sub(w, PACKED_BYTES + 1) }
  if cut > 0 then load_ring(meta, p) end
  return p
end

-- Only an edit changes what everybody reads.
local function save(page, keys, p, is_edited)
  local is_renewed = clock_ms - p.renewed >= RENEWED_MS or p.renewed > clock_ms
  if is_renewed then p.renewed = clock_ms end
  local w = struct.pack(PACKED, p.count, p.oldest, p.cut, p.flags, p.renewed, p.total, p.first, p.last, p.byte_change)
  if p.ring then
    p.ring.total = p.total
    call('HSET', keys.meta, 'ring', packed_ring(p.ring))
  end
  if is_edited then
    call('HSET', keys.meta, 'w', w .. p.last_id, 'edit_count', p.total, 'last_edit', p.last,
      'last_byte_change', p.byte_change)
  else
    call('HSET', keys.meta, 'w', w .. p.last_id)
  end
  if is_renewed then
    local ttl = kept_ms + buffer_ms + behind_ms
    call('PEXPIRE', keys.meta, ttl)
    call('PEXPIRE', keys.window, ttl)
    call('PEXPIRE', keys.editors, ttl)
  end
  ranks[page] = rank_of(edits_of(p), p.last)
end

-- When what is remembered of a page that is not hot began, by its text; nothing if it cannot be read.
local function began_of(text)
  local is_read, first_ms = pcall(struct.unpack, 's', text)
  return is_read and number_of(first_ms, 0, MAX_WHOLE) or nil
end

-- Forgets what was remembered of a page that is not hot.
local function forget(page, key)
  flush_activities()
  call('UNLINK', key)
  on_index('ZREM', ACTIVITIES, page)
end
