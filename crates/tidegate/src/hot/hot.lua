-- What the scripts of hot pages share.
--
-- KEYS  the marker; then of the partition: state, activities, due, rank, events;
--       then of each item: the activity of a page
--   state       a hash: `now` the latest moment that anything was done at (ms), `seq`
--               a counter, `renewed` when these five were last given their time to live,
--               `forgotten` the last event that is not kept any more, `life` which events
--               these are: it ends when the store forgets; `due_base` what the scores of `due`
--               are ahead of the oldest edits (ms); `mended` keys that were not ours and were repaired,
--               until who has logged them says so, and `mended_at` since when (µs);
--               `matching` how far the indices of hot pages have been compared, while they are;
--               `swept` below which number a cleanup has left no activity listed
--   activities  a sorted set: pages that are not hot, in the order of their first edit
--   due         a sorted set: hot pages by their oldest edit + `due_base`, ms: the window of
--               whoever came first, so that it is found by windows of any length
--   rank        a sorted set: hot pages by edits in the window × 2^41 + latest edit, ms: as one double, that is edits
--               exactly, and of the latest as much as there is room for (below 4,096 edits all of it)
--   events      a stream: what happened, once
-- and of each page:
--   activity    a string of texts that end with a NUL each: when the first edit came, then of
--               each edit, in the order they came, when it was made, by how many bytes, id
--               and editor
--   window      a sorted set: edit ids by time in ms. Whole numbers: in a small set those
--               are compared without being read as text, which is three times as fast
--   meta        a hash: edit_count, last_edit (ms), last_byte_change, and `w`, all that
--               it takes to go on: edits in the window, the oldest (ms), up to when edits
--               have left for want of room, flags (1 trending, 2 spiking), when the keys
--               were last renewed, edits since it became hot, the first and the last of
--               them (ms), the byte change of the last and its id; and `ring` while edits that left
--               for want of room are in the window: see ring.lua
--   editors     a list: byte change and editor of each edit, in the window's order
-- Keys of a page are in the same slot, and made of its name: that is all that is known here
-- of a page that is dropped to make room, or because its window is empty.
--
-- Any of them may be of another type, or unreadable: somebody else has written there. Of a page,
-- that is an error of the item before anything is written. What the partition shares gives way to
-- who comes upon it in writing, and is made whole by cleanups and removals: see repair.lua. Until then
-- reads of an index are errors, and reads go by the clock alone without a state, and leave what is in
-- its place. Every function here is made anew by every call of a script, so there are few.
--
-- In front of it stand READS and REPAIRS, whether the operation only reads, and whether it has
-- repair.lua; and the numbers of the space, which never change while a process has
-- it, as one `local` each: buffer_ms (that keys live longer than their data), exponent (of a ring's grain),
-- hot_threshold, promotion_threshold, window_ms, kept_ms (the longest window that anybody
-- has for this space: what is in it is not deleted; what is read is within our own), max_tracked, max_members, replaces,
-- spike_ratio, spike_minimum, max_activity, absurd_ms, activity_ttl_ms, and FAMILIES, what
-- keys of pages start with. To send them along with every call would cost as much as an
-- edit does.
--
-- ARGV  now
local SHARED_KEYS, KEYS_OF_ITEM = 5, 1
local STATE, ACTIVITIES, DUE, RANK, EVENTS = KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6]
local ACTIVITY_FAMILY, WINDOW_FAMILY, META_FAMILY, EDITORS_FAMILY = unpack(FAMILIES)
local ACTIVITY_MS, HOUR_MS, MAX_EVENTS, RENEWED_MS = 600000, 3600000, 1000, 60000
local PACKED, PACKED_BYTES, RANKED = '<ddddddddd', 72, 2199023255552
-- Numbers that go to it are written with 17 digits: whole ones and scores are exact.
local call = redis.call

local MAX_WINDOW_MS, MAX_MEMBERS, MAX_WHOLE, MAX_SEQUENCE = 604800000, 4000, 9007199254740992, 4503599627370496

-- A number from `least` to `most` that was written as text, or nothing.
local function number_of(text, least, most)
  local number = tonumber(text or nil)
  return number and number >= least and number <= most and number or nil
end

-- Notes for the next cleanup that a key was not what it should be, and has been made so again.
local is_made, is_repaired = false, false
local function note_repaired(key)
  is_made, is_repaired = true, true
  local before = call('HGET', STATE, 'mended')
  if not before then
    local time = call('TIME')
    call('HSET', STATE, 'mended_at', time[1] .. string.format('%06d', time[2]))
  end
  if not before or #before < 4000 then call('HSET', STATE, 'mended', (before or '') .. key .. '\n') end
  if call('PTTL', STATE) < 0 then call('PEXPIRE', STATE, kept_ms + 2 * buffer_ms) end
end

local state = redis.pcall('HMGET', STATE, 'now', 'seq', 'renewed', 'due_base')
local is_foreign = state.err and true
if is_foreign then
  if not is_corrupt(state) then error(state, 0) end
  state = {}
  if not READS then
    call('UNLINK', STATE)
    note_repaired(STATE)
  end
end
local clock_ms, stamp_ms = now(), number_of(state[1], 0, MAX_WHOLE) or 0
local sequence, is_pinned = number_of(state[2], 0, MAX_SEQUENCE), true
-- Counted on from the latest activity that is listed if the counter is lost: from 0, what is new would
-- be the oldest, and the first to be forgotten. A cleanup also finds one that is too low.
if REPAIRS or not (READS or sequence) then
  local out_of_range = redis.pcall('ZCOUNT', ACTIVITIES, '(' .. int(MAX_SEQUENCE), '+inf')
  local latest = type(out_of_range) == 'number' and call('ZREVRANGE', ACTIVITIES, out_of_range, out_of_range, 'WITHSCORES')
  -- Below this nothing may come any more.
  local swept = number_of(call('HGET', STATE, 'swept'), 1, MAX_SEQUENCE) or 1
  sequence = math.max(sequence or 0, latest and tonumber(latest[2]) or 0, swept - 1)
end
local now_ms = deciding(clock_ms, stamp_ms, absurd_ms)
-- What keys live longer for: they end by the clock, what is in them by the stamp.
local behind_ms = now_ms - clock_ms
local base_ms = number_of(state[4], 1, MAX_WINDOW_MS)
if not base_ms then base_ms, is_pinned = window_ms, false end
-- What a clock that was absurdly ahead has dated.
local ahead_ms = now_ms + absurd_ms

-- In a debug build every call checks that it has kept the bounds. What was there
-- before may be more, if the bounds were.
local check_bounds
if CHECKED then
  local function size(index)
    local cards = redis.pcall('ZCARD', index)
    return type(cards) == 'number' and cards or 0
  end
  local was_tracked, was_active = math.max(size(RANK), size(DUE)), size(ACTIVITIES)
  check_bounds = function()
    local tracked, active = math.max(size(RANK), size(DUE)), size(ACTIVITIES)
    assert(tracked <= math.max(max_tracked, was_tracked), 'more pages are hot than may be: ' .. tracked)
    assert(active <= math.max(max_activity, was_active), 'more activity is remembered than may be: ' .. active)
  end
end

-- What is left to write to the indices, by page: one call does for many. Whoever reads
-- an index flushes it before.
local ranks, dues, activities = {}, {}, {}
local has_emitted = false

-- A call on an index; one of another type makes room for one of ours, which lists what is put
-- there from now on.
local function on_index(command, index, ...)
  local answer = redis.pcall(command, index, ...)
  if type(answer) ~= 'table' or not answer.err then return answer end
  if not is_corrupt(answer) then error(answer, 0) end
  call('UNLINK', index)
  note_repaired(index)
  return call(command, index, ...)
end

-- How many of them it did not list.
local function flush(index, scores)
  local members = {}
  for page, score in pairs(scores) do
    members[#members + 1] = score
    members[#members + 1] = page
    scores[page] = nil
  end
  return members[1] and on_index('ZADD', index, unpack(members)) or 0
end

-- One that lists nothing else is new: all that it listed may have gone in this very call.
local function flush_pages()
  local ranked, dated = flush(RANK, ranks), flush(DUE, dues)
  if ranked > 0 and call('ZCARD', RANK) == ranked then is_made = true end
  if dated > 0 and call('ZCARD', DUE) == dated then is_made = true end
end

-- Keeps the last events, in steps of a tenth: who is behind can know by what is forgotten.
local function forget_events()
  local surplus = call('XLEN', EVENTS) - MAX_EVENTS
  if surplus < MAX_EVENTS / 10 then return end
  local oldest = call('XRANGE', EVENTS, '-', '+', 'COUNT', surplus + 1)
  call('HSET', STATE, 'forgotten', oldest[surplus][1])
  call('XTRIM', EVENTS, 'MINID', oldest[surplus + 1][1])
end

-- Lengthens the life of a key, never shortens it: others may need it for longer.
local function live_for(key, ttl)
  if call('PTTL', key) < ttl then call('PEXPIRE', key, ttl) end
end

local function index_ttl()
  return math.max(kept_ms, ACTIVITY_MS) + 2 * buffer_ms + behind_ms
end

-- Which life of the events this is, and the last of it that is forgotten: who comes from another
-- has missed some. Another one begins if this `is_over`, or there is none.
local life, forgotten
local function life_of_events(is_over)
  if life and not is_over then return life end
  local stored = is_over and {} or call('HMGET', STATE, 'life', 'forgotten')
  life, forgotten = stored[1], stored[2] or '0-0'
  if life and #life <= 18 and string.find(life, '^%d+$') and string.find(forgotten, '^%d+%-%d+$') then return life end
  local time = call('TIME')
  life, forgotten = time[1] .. string.format('%06d', time[2]), '0-0'
  -- What is left of another was for those who knew it.
  call('UNLINK', EVENTS)
  call('HDEL', STATE, 'forgotten')
  call('HSET', STATE, 'life', life)
  if call('PTTL', STATE) < 0 then call('PEXPIRE', STATE, index_ttl()) end
  return life
end

-- A call on the events; what is no stream, or takes no more, begins another life.
local function on_events(command, ...)
  local answer = redis.pcall(command, EVENTS, ...)
  if type(answer) ~= 'table' or not answer.err then return answer end
  if not is_corrupt(answer) and not string.find(answer.err, 'exhausted', 1, true) then error(answer, 0) end
  note_repaired(EVENTS)
  life_of_events(true)
  return call(command, EVENTS, ...)
end

-- Notes what this call has done. An index lives longer than what it lists: all are
-- renewed once in a while, and at once when one was made anew.
local function finish(replies)
  if READS and is_foreign then return replies end
  flush_pages()
  flush(ACTIVITIES, activities)
  local renewed = number_of(state[3], 0, clock_ms)
  local ttl = index_ttl()
  -- A server whose memory is full refuses this only if nothing was written before it: then
  -- there is nothing to be noted, and what was read is told.
  if READS then
    redis.pcall('HSET', STATE, 'now', now_ms)
  else
    redis.pcall('HSET', STATE, 'now', now_ms, 'seq', sequence)
  end
  if is_made or not renewed or clock_ms - renewed >= RENEWED_MS then
    redis.pcall('HSET', STATE, 'renewed', clock_ms)
    for i = 2, 6 do live_for(KEYS[i], ttl) end
  elseif has_emitted then
    live_for(EVENTS, ttl)
  end
  if has_emitted then forget_events() end
  if CHECKED then check_bounds() end
  return replies
end

local counts

-- How many events of each kind there were since this was last asked, after `answer`.
local function with_counts(answer)
  for kind = 1, 8 do answer[#answer + 1] = counts and counts[kind] or 0 end
  counts = nil
  return answer
end

local function emit(kind, page, edits)
  life_of_events()
  -- In the order in which it is counted. Most calls tell nothing, so it is only made here.
  local kinds = { promoted = 1, replaced = 2, trending = 3, trending_ended = 4, spiking = 5, spiking_ended = 6,
    cooled = 7, removed = 8 }
  counts = counts or {}
  counts[kinds[kind]] = (counts[kinds[kind]] or 0) + 1
  on_events('XADD', '*', 'kind', kind, 'page', page, 'edits', edits, 'at', now_ms)
  has_emitted = true
end

-- Where the name of a page begins in its first key.
local PAGE_AT = #ACTIVITY_FAMILY + 1

local function keys_of(page)
  return { window = WINDOW_FAMILY .. page, meta = META_FAMILY .. page, editors = EDITORS_FAMILY .. page }
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
      and byte_change >= -MAX_WHOLE and byte_change <= MAX_WHOLE) then
    error('a page cannot be read', 0)
  end
  local p = { count = count, oldest = oldest, cut = cut, flags = flags, renewed = renewed, total = total, due = oldest,
    first = first, last = last, byte_change = byte_change, last_id = string.sub(w, PACKED_BYTES + 1) }
  if cut > 0 then load_ring(meta, p) end
  return p
end

-- Edits that count of a page that is settled: all of them, also those that are no members.
local function edits_of(p)
  return p.ring and p.ring.sum or p.count
end

-- Where a page stands: edits first, then the latest one. That is exact until 2039.
local function rank_of(count, last_ms)
  return count * RANKED + math.min(last_ms, RANKED - 1)
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

local function drop(page, keys)
  ranks[page], dues[page] = nil, nil
  call('UNLINK', keys.window, keys.meta, keys.editors)
  on_index('ZREM', RANK, page)
  on_index('ZREM', DUE, page)
end

-- How far back the window of a page reaches: to its first edit.
local function covered(p)
  return math.max(math.min(now_ms - p.first, window_ms), 0)
end

-- Byte change and editor of an edit, as `editors` has them.
local function made_of(byte_change, editor)
  return byte_change .. ' ' .. editor
end

-- The ring of a page if it counts in our window: until what was cut has left it, and its slot.
local function ring_of(p)
  local ring = p.ring
  return ring and cut_end(p) + window_ms > now_ms and ring
end

-- Edits of a page in the last `for_ms`, of our window at most.
local function edits_in(keys, p, for_ms)
  local from_ms, ring = now_ms + 1 - for_ms, ring_of(p)
  if ring then return (since(ring.slots, ring.grain, ring.last, from_ms)) end
  return call('ZCOUNT', keys.window, from_ms, '+inf')
end

-- Edits of the last five minutes of a page with so many in our window.
local function lately(keys, p, count)
  local ring = window_ms > SPIKE_MS and ring_of(p)
  if not ring then return edits_in(keys, p, math.min(SPIKE_MS, window_ms)) end
  local from_ms = math.max(now_ms, ring.last) + 1 - SPIKE_MS
  return math.min(since(ring.lately, LATELY_GRAIN, ring.last, from_ms), count)
end

-- Whether a page with so many edits in our window is trending and spiking.
local function judged(keys, p, count)
  local is_spiking, reach = false, covered(p)
  if reach > SPIKE_MS and count >= spike_minimum then
    local recent = lately(keys, p, count)
    local ratio = p.flags >= 2 and spike_ratio / 2 or spike_ratio
    is_spiking = recent >= spike_minimum
      and recent / SPIKE_MS >= ratio * ((count - recent) / (reach - SPIKE_MS))
  end
  return count >= promotion_threshold, is_spiking
end

-- Notes, as an event, whether a page has become, or is no longer, trending or spiking.
local function judge(page, keys, p)
  local was_trending, was_spiking = p.flags % 2 == 1, p.flags >= 2
  local count = kept_ms > window_ms and edits_in(keys, p, window_ms) or edits_of(p)
  local is_trending, is_spiking = judged(keys, p, count)
  p.flags = (is_trending and 1 or 0) + (is_spiking and 2 or 0)
  if is_trending ~= was_trending then emit(is_trending and 'trending' or 'trending_ended', page, count) end
  if is_spiking ~= was_spiking then emit(is_spiking and 'spiking' or 'spiking_ended', page, count) end
end

-- Drops a page, with events for what ends with it and why.
local function drop_and_emit(page, keys, p, kind, edits)
  drop(page, keys)
  if p and p.flags % 2 == 1 then emit('trending_ended', page, edits) end
  if p and p.flags >= 2 then emit('spiking_ended', page, edits) end
  emit(kind, page, edits)
end

-- Drops what has left everybody's window of a page: the page as it is then, or nothing and
-- whether it was the last of it.
local function settle(page, keys, p)
  if p.due + kept_ms > now_ms and p.last <= ahead_ms then return p, 0 end
  if p.last + kept_ms <= now_ms or p.last > ahead_ms then
    drop_and_emit(page, keys, p, 'cooled', 0)
    return nil, 1
  end
  if p.oldest + kept_ms <= now_ms then
    local left = call('ZREMRANGEBYSCORE', keys.window, '-inf', now_ms - kept_ms)
    local trimmed = redis.pcall('LTRIM', keys.editors, left, '-1')
    if trimmed.err then
      if not is_corrupt(trimmed) then error(trimmed, 0) end
      -- No list: as if they were lost. The next one needs an end.
      call('UNLINK', keys.editors)
      note_repaired(keys.editors)
      p.renewed = -RENEWED_MS
    end
    local first = call('ZRANGE', keys.window, '0', '0', 'WITHSCORES')
    local oldest = number_of(first[2], 0, p.last)
    if not oldest then
      -- Its window is lost: nothing of it counts.
      drop_and_emit(page, keys, p, 'cooled', 0)
      return nil, 1
    end
    p.count, p.oldest = math.max(p.count - left, 1), oldest
  end
  local ring = p.ring
  if ring and cut_end(p) + kept_ms <= now_ms then
    -- All that was cut has left everybody's window: the members are all there is.
    call('HDEL', keys.meta, 'ring')
    p.ring, p.cut = nil, 0
  elseif ring then
    local sum, before = since(ring.slots, ring.grain, ring.last, now_ms + 1 - kept_ms)
    ring.slots, ring.sum = string.sub(ring.slots, before + 1), sum
  end
  p.due = due_of(p)
  dues[page] = p.due + base_ms
  judge(page, keys, p)
  save(page, keys, p)
  return p, 0
end

-- Up to `limit` pages whose window has changed for everybody, or that are absurdly far ahead.
local function due(limit)
  flush_pages()
  local until_ms = int(now_ms + base_ms - kept_ms)
  local pages = on_index('ZRANGEBYSCORE', DUE, '-inf', until_ms, 'LIMIT', 0, limit)
  if #pages < limit then
    local from = '(' .. int(ahead_ms + base_ms)
    for _, page in ipairs(call('ZRANGEBYSCORE', DUE, from, '+inf', 'LIMIT', 0, limit - #pages)) do
      pages[#pages + 1] = page
    end
  end
  return pages
end

-- Looks after a page of the index of what is due, whose keys may be lost: as `settle`.
local function settle_or_drop(page, keys)
  local p = load(keys.meta)
  if not p then
    drop(page, keys)
    return nil, 1
  end
  if p.due + kept_ms <= now_ms or p.last > ahead_ms then return settle(page, keys, p) end
  -- It was put down by another window.
  dues[page] = p.due + base_ms
  return p, 0
end

-- Looks after up to `limit` of them; how many are not hot any more. One that cannot be read goes, or
-- it would stay the first that is due.
local function settle_due(limit)
  local expired = 0
  for _, page in ipairs(due(limit)) do
    local keys = keys_of(page)
    local is_read, failure, gone = pcall(settle_or_drop, page, keys)
    if not is_read then
      if not is_corrupt(failure) then error(failure, 0) end
      note_repaired(keys.meta)
      drop_and_emit(page, keys, nil, 'cooled', 0)
      gone = 1
    end
    expired = expired + gone
  end
  return expired
end

-- Says what `due` goes by, who comes first: every write does before it writes there.
local function pin_due()
  if not is_pinned then call('HSET', STATE, 'due_base', base_ms) end
end

-- Whether what is remembered since then is over.
local function is_over(first_ms)
  return first_ms + ACTIVITY_MS <= now_ms or first_ms > ahead_ms
end

-- Forgets what was remembered of a page that is not hot.
local function forget(page, key)
  flush(ACTIVITIES, activities)
  call('UNLINK', key)
  on_index('ZREM', ACTIVITIES, page)
end
