-- record: most edits, which are those of pages that are not hot, also by which they become so, and those that change nothing of
-- a hot page but numbers. They are recorded here. For any other nothing is done here: it is for record_any.lua.

-- So many pages are asked together whether they are hot, after one that was not.
local ASKED_TOGETHER = 16
-- Up to which item no page was hot when that was asked; up to which some were, how many of those are left; whether the last one
-- was; what pages are called, and which have become hot here. How many are hot, if that is known.
local cold_to, asked_to, hot_left, was_hot, names, made_hot = 0, 0, 0, true, {}, {}
local tracked
-- Of one edit, what several have; and what a first one begins with.
local one_id, one_made = { NOW, '' }, {}
local NEW = NOW .. '\0' .. NOW
local pack, unpacked = struct.pack, struct.unpack
local PACKED_PAGE, RING_SLOT, RING_SLOT_BYTES, MOST_IN_SLOT = PACKED .. 'c0', SLOTS[RING_WIDTH], RING_WIDTH + 1, MOST[RING_WIDTH]

-- The ring of a page with so many edits more in the slots of the last one: its text, edits in the window, those of the last
-- five minutes, and the end of its first slot. Nothing if there is more to do.
local function count_in_place(text, total, last_ms, more)
  local ring_exponent, lately, sum, ring_total, ring_last = unpacked(RING, text)
  local split, grain = RING_BYTES + lately * RING_SLOT_BYTES, 2 ^ ring_exponent
  local number, half_minute = floor(now_ms / grain), floor(now_ms / LATELY_GRAIN)
  if ring_exponent ~= exponent or ring_total ~= total or ring_last ~= last_ms or floor(ring_last / grain) ~= number
    or floor(ring_last / LATELY_GRAIN) ~= half_minute or lately < 1 or #text <= split
    or (#text - split) % RING_SLOT_BYTES ~= 0 then
    return
  end
  local lately_at, at = split + 1 - RING_SLOT_BYTES, #text + 1 - RING_SLOT_BYTES
  local lately_low, lately_count = unpacked(RING_SLOT, text, lately_at)
  local low, count = unpacked(RING_SLOT, text, at)
  if low ~= number % 256 or lately_low ~= half_minute % 256 or math.max(count, lately_count) + more > MOST_IN_SLOT then return end
  local recent = more
  for place = lately_at, RING_BYTES + 1, -RING_SLOT_BYTES do
    local its_low, its_count = unpacked(RING_SLOT, text, place)
    if slot_end(its_low, LATELY_GRAIN, now_ms) <= now_ms - SPIKE_MS then break end
    recent = recent + its_count
  end
  return pack(RING, exponent, lately, sum + more, total + more, now_ms) .. string.sub(text, RING_BYTES + 1, lately_at - 1)
    .. pack(RING_SLOT, lately_low, lately_count + more) .. string.sub(text, split + 1, at - 1)
    .. pack(RING_SLOT, low, count + more), sum + more, math.min(recent, sum + more),
    slot_end(string.byte(text, split + 1), grain, now_ms)
end

-- Whether a page is trending and spiking as it was, with so many edits.
local function is_judged(window, flags, first_ms, edits, more, recent)
  local is_spiking, reach = false, math.min(now_ms - first_ms, window_ms)
  if reach > SPIKE_MS and edits >= spike_minimum then
    recent = recent or call('ZCOUNT', window, int(now_ms + 1 - SPIKE_MS), '+inf') + more
    local ratio = flags >= 2 and spike_ratio / 2 or spike_ratio
    is_spiking = recent >= spike_minimum and recent / SPIKE_MS >= ratio * ((edits - recent) / (reach - SPIKE_MS))
  end
  return (edits >= promotion_threshold and 1 or 0) + (is_spiking and 2 or 0) == flags
end

-- Puts edits of now into a window in which nothing is later: whether all of them are new. If not, nothing has happened.
local function put(window, ids)
  local added = call('ZADD', window, 'NX', unpack(ids))
  if added == #ids / 2 then return true end
  for i = 2, added > 0 and #ids or 0, 2 do
    -- Those that were there are earlier.
    if tonumber(call('ZSCORE', window, ids[i])) == now_ms then call('ZREM', window, ids[i]) end
  end
end

-- Adds edits of now to a hot page: times and ids, as ZADD has them, in order of ids; byte change and editor of each, and the last
-- byte change. Nothing unless all that there is to do is to count them, and to let the oldest go.
local function add_in_place(page, meta, w, ids, made, byte_change)
  local count, oldest, cut, flags, renewed, total, first, last = unpacked(PACKED, w)
  local more, last_id = #made, ids[#ids]
  if not (count >= 1 and count % 1 + total % 1 == 0 and count <= max_members and oldest >= 0 and oldest <= last and last <= now_ms and first >= 0 and first <= last
      and total >= 1 and total + more <= MAX_WHOLE and cut >= 0 and cut <= MAX_WHOLE and kept_ms == window_ms
      and renewed <= clock_ms and clock_ms - renewed < RENEWED_MS) then
    return
  end
  if last == now_ms and not is_before(string.sub(w, PACKED_BYTES + 1), ids[2]) then return end
  local window, edits, over, new_oldest = WINDOW_FAMILY .. page, count + more, count + more - max_members, oldest
  local ring, recent, first_slot
  if cut > 0 then
    ring = window_ms > SPIKE_MS and call('HGET', meta, 'ring')
    if not ring then return end
    ring, edits, recent, first_slot = count_in_place(ring, total, last, more)
    -- All that was cut may have left the window.
    if not ring or slot_end(floor(cut / 2 ^ exponent) % 256, 2 ^ exponent, cut) + window_ms <= now_ms then return end
  end
  local due = math.min(oldest, first_slot or oldest)
  if due + kept_ms <= now_ms then return end
  if over > 0 then
    -- The first one that leaves makes a ring.
    if not ring or over >= count then return end
    local gone = oldest
    if over == 1 then
      new_oldest = number_of(call('ZRANGE', window, '1', '1', 'WITHSCORES')[2], oldest, last)
    else
      local left = call('ZRANGE', window, over - 1, over, 'WITHSCORES')
      gone, new_oldest = number_of(left[2], oldest, last), number_of(left[4], oldest, last)
    end
    if not (gone and new_oldest) then return end
    cut = math.max(cut, gone)
  end
  if not is_judged(window, flags, first, edits, more, recent) then return end
  if not put(window, ids) then return more == 1 and DUPLICATE or nil end
  local editors = EDITORS_FAMILY .. page
  local length = redis.pcall('RPUSH', editors, unpack(made))
  if type(length) == 'table' then
    -- The editors are no list: nothing has happened.
    for i = 2, #ids, 2 do call('ZREM', window, ids[i]) end
    error(length, 0)
  end
  -- A list that is new has no end yet, nor has a window; one that has to let edits go was there before.
  if length == more then call('PEXPIRE', editors, kept_ms + buffer_ms + behind_ms) end
  if over <= 0 and call('ZCARD', window) == more then call('PEXPIRE', window, kept_ms + buffer_ms + behind_ms) end
  if over == 1 then
    call('ZREMRANGEBYRANK', window, '0', '0')
    call('LTRIM', editors, '1', '-1')
  elseif over > 1 then
    call('ZREMRANGEBYRANK', window, '0', over - 1)
    call('LTRIM', editors, over, '-1')
  end
  -- An index that was begun anew lists it from now on.
  total, work, tracked = total + more, work + more * (count > 1000 and 4 or 3), nil
  -- Whole numbers take a server the least as texts.
  local all = format('%d', total)
  w = pack(PACKED_PAGE, math.min(count + more, max_members), new_oldest, cut, flags, renewed, total, first, now_ms,
    byte_change, last_id)
  if ring then
    call('HSET', meta, 'w', w, 'edit_count', all, 'last_edit', NOW, 'last_byte_change', byte_change, 'ring', ring)
    local new_due = math.min(new_oldest, first_slot)
    if new_due ~= due then dues[page] = new_due + base_ms end
  else
    call('HSET', meta, 'w', w, 'edit_count', all, 'last_edit', NOW, 'last_byte_change', byte_change)
  end
  local rank = rank_of(edits, now_ms)
  ranks[page] = rank < MAX_WHOLE and format('%d', rank) or rank
  return ADDED
end

-- Adds several edits of now to a hot page, if they are all others.
local function add_several_in_place(page, meta, w, text)
  local ids, made, at, id = {}, {}, 2, nil
  while at <= #text do
    local before = id
    id, made[#made + 1], at = unpacked('ss', text, at)
    if id == before then return end
    ids[#ids + 1], ids[#ids + 2] = NOW, id
  end
  if #made > MOST_AT_ONCE then return end
  return add_in_place(page, meta, w, ids, made, string.match(made[#made], '^%S+'))
end

-- Whether a page is hot, by what is known of several: its meta and what that says if it is.
local function hot_page(k, page)
  if k > cold_to and k > asked_to and not was_hot then
    local metas, last = {}, math.min(k + ASKED_TOGETHER - 1, #KEYS)
    for i = k, last do
      local name = names[i] or string.sub(KEYS[i], PAGE_AT)
      names[i], metas[#metas + 1] = name, META_FAMILY .. name
    end
    hot_left = call('EXISTS', unpack(metas))
    if hot_left == 0 then cold_to = last else asked_to = last end
  end
  if k <= cold_to and not made_hot[page] then return end
  local meta = META_FAMILY .. page
  local w = call('HGET', meta, 'w')
  was_hot = w and true
  if w and k <= asked_to and not made_hot[page] then
    hot_left = hot_left - 1
    if hot_left == 0 then cold_to, was_hot = asked_to, k == asked_to end
  end
  return w and meta, w
end

-- From an item on pages may have become hot, or be so no more.
local function ask_again_after(k)
  cold_to, asked_to, tracked = math.min(cold_to, k), math.min(asked_to, k), nil
end

-- Makes a page hot by the last of its edits, of now, and those that are remembered, in the order in which they came: times,
-- ids and what they made, and the same of the last one. Nothing if there is more to do than to write them.
local function promote_in_place(page, key, scores, made, byte_change, last_id)
  local edits, first_ms = #made, tonumber(scores[1])
  if first_ms + window_ms <= now_ms or edits >= promotion_threshold or edits >= spike_minimum and now_ms - first_ms > SPIKE_MS then
    return
  end
  for i = 3, #scores, 2 do
    local past_ms, at_ms = tonumber(scores[i - 2]), tonumber(scores[i])
    if at_ms < past_ms or at_ms == past_ms and not is_before(scores[i - 1], scores[i + 1]) then return end
  end
  if not tracked then
    flush_pages()
    -- An index that was begun anew does not list all that are hot; the other does.
    tracked = math.max(on_index('ZCARD', RANK), on_index('ZCARD', DUE))
  end
  if tracked >= max_tracked then return end
  flush_activities()
  local window, meta, editors = WINDOW_FAMILY .. page, META_FAMILY .. page, EDITORS_FAMILY .. page
  -- Also what may be left of its last time, or is not ours.
  call('UNLINK', key, window, meta, editors)
  local listed = on_index('ZREM', ACTIVITIES, page)
  remembered, tracked, work = remembered and remembered - listed, tracked + 1, work + 28 + 3 * edits
  call('ZADD', window, unpack(scores))
  call('RPUSH', editors, unpack(made))
  local count, ttl = format('%d', edits), int(kept_ms + buffer_ms + behind_ms)
  local w = pack(PACKED_PAGE, edits, first_ms, 0, 0, clock_ms, edits, first_ms, now_ms, byte_change, last_id)
  call('HSET', meta, 'w', w, 'edit_count', count, 'last_edit', NOW, 'last_byte_change', byte_change)
  call('PEXPIRE', meta, ttl)
  call('PEXPIRE', window, ttl)
  call('PEXPIRE', editors, ttl)
  ranks[page], dues[page] = rank_of(edits, now_ms), first_ms + base_ms
  emit('promoted', page, count)
  return with_counts({ PROMOTED + ACTIVITY, '' })
end

-- Remembers one edit more of a page; by the last that it takes it becomes hot.
local function remember_in_place(page, key, edit)
  local stored, scores, made, at_ms = call('GET', key), {}, {}, nil
  if not stored then return end
  local first_ms, at = unpacked('s', stored)
  first_ms = number_of(first_ms, 0, MAX_WHOLE)
  if not first_ms or first_ms + ACTIVITY_MS <= now_ms or first_ms > ahead_ms then return end
  local _, byte_change, new_id, editor = unpacked('ssss', edit)
  while at <= #stored do
    local change, id, by
    at_ms, change, id, by, at = unpacked('ssss', stored, at)
    if id == new_id then return DUPLICATE end
    at_ms = number_of(at_ms, 0, MAX_WHOLE)
    if not at_ms or at_ms % 1 ~= 0 or not number_of(change, -MAX_WHOLE, MAX_WHOLE) then return end
    scores[#scores + 1], scores[#scores + 2] = format('%d', at_ms), id
    made[#made + 1] = change .. ' ' .. by
  end
  if #made + 1 < hot_threshold then
    work = work + 4
    call('SET', key, stored .. NOW .. edit, 'KEEPTTL')
    return REMEMBERED + ACTIVITY
  end
  -- There are more of one for which there was no room.
  if #made >= hot_threshold or not is_pinned then return end
  scores[#scores + 1], scores[#scores + 2] = NOW, new_id
  made[#made + 1] = byte_change .. ' ' .. editor
  local answer = promote_in_place(page, key, scores, made, byte_change, new_id)
  made_hot[page] = answer and true
  return answer
end

local function record_in_place(k, edit)
  local key, form = KEYS[k], string.byte(edit)
  if form ~= 0 and form ~= UNDATED then return end
  local page = names[k] or string.sub(key, PAGE_AT)
  local meta, w
  if k > cold_to or made_hot[page] then meta, w = hot_page(k, page) end
  if meta then
    if not is_pinned then return end
    if form == UNDATED then return add_several_in_place(page, meta, w, edit) end
    local _, byte_change, id, editor = unpacked('ssss', edit)
    one_id[2], one_made[1] = id, byte_change .. ' ' .. editor
    return add_in_place(page, meta, w, one_id, one_made, byte_change)
  end
  if form == UNDATED or hot_threshold == 1 then return end
  if (remembered or count_remembered()) >= max_activity then return end
  if not call('SET', key, NEW .. edit, 'PX', ACTIVITY_TTL, 'NX') then
    return remember_in_place(page, key, edit)
  end
  -- Most pages get one edit and never another.
  list_activity(page)
  return REMEMBERED + ACTIVITY
end

return record_in_place, ask_again_after
