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

-- What a call has done, in about as many µs as it takes a server; who has done enough leaves the rest for LATER. A clock
-- would not do: in most versions of a server it stands still in a script. A debug build has enough soon, so that all tests
-- are about what is left, too.
local work, MOST_WORK = 0, 1200
local ENOUGH_WORK = CHECKED and 60 or MOST_WORK

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
local ranks, dues = {}, {}
-- Scores and pages, as ZADD takes them: each page is there once, and whoever forgets one flushes it before.
local activities = {}
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

local function flush_activities()
  if not activities[1] then return end
  on_index('ZADD', ACTIVITIES, unpack(activities))
  activities = {}
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
  flush_activities()
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

-- Edits that count of a page that is settled: all of them, also those that are no members.
local function edits_of(p)
  return p.ring and p.ring.sum or p.count
end

-- Where a page stands: edits first, then the latest one. That is exact until 2039.
local function rank_of(count, last_ms)
  return count * RANKED + math.min(last_ms, RANKED - 1)
end
