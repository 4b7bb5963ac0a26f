-- record: an edit or several, whatever they change.

-- Makes room for one in a window that is full, or over, if more were allowed before.
local function make_room(keys, p)
  local over = p.count + 1 - max_members
  if over == 1 then
    p.cut = math.max(p.cut, p.oldest)
    call('ZREMRANGEBYRANK', keys.window, '0', '0')
    call('LTRIM', keys.editors, '1', '-1')
  else
    local left = call('ZPOPMIN', keys.window, over)
    p.cut = math.max(p.cut, tonumber(left[#left]) or 0)
    call('LTRIM', keys.editors, over, '-1')
  end
  p.count = max_members - 1
end

-- The ring of a page of which nothing was cut before: its members. They are counted by the server, slot by slot of those
-- that have any, and in the last minutes by half a minute too: to read them takes twenty times as long if there are thousands.
local function ring_of_members(keys, p)
  local ring, lately_from = new_ring(exponent, RING_WIDTH), (floor((p.last - SPIKE_MS) / LATELY_GRAIN) - 1) * LATELY_GRAIN
  local first = call('ZRANGE', keys.window, '0', '0', 'WITHSCORES')
  while first[1] do
    work = work + 3
    local at_ms = number_of(first[2], 0, MAX_WHOLE) or error('a window cannot be read', 0)
    local end_ms = (floor(at_ms / ring.grain) + 1) * ring.grain - 1
    if at_ms >= lately_from then
      end_ms = math.min(end_ms, (floor(at_ms / LATELY_GRAIN) + 1) * LATELY_GRAIN - 1)
    else
      end_ms = math.min(end_ms, lately_from - 1)
    end
    count_in(ring, at_ms, call('ZCOUNT', keys.window, int(at_ms), int(end_ms)))
    first = call('ZRANGEBYSCORE', keys.window, '(' .. int(end_ms), '+inf', 'WITHSCORES', 'LIMIT', 0, 1)
  end
  ring.last = math.max(ring.last, p.last)
  return ring
end

-- Writes a page to which edits were added. It is judged when all of them are.
local function save_added(page, keys, p, is_later)
  local due_ms = due_of(p)
  if due_ms ~= p.due then
    p.due = due_ms
    dues[page] = due_ms + base_ms
  end
  if not is_later then judge(page, keys, p) end
  save(page, keys, p, true)
end

-- Adds an edit to the window of a hot page, which is not saved.
local function add(page, keys, p, edit, at_ms)
  local at_text, byte_change, id, editor = struct.unpack('ssss', edit)
  local is_full = p.count >= max_members
  if (is_full or p.ring) and at_ms <= p.oldest then
    if call('ZSCORE', keys.window, id) then return DUPLICATE end
    local first = call('ZRANGE', keys.window, 0, 0)[1]
    if at_ms < p.oldest or is_before(id, first) then
      -- Older than all that is kept: nobody knows whether it was there before.
      p.ring = p.ring or ring_of_members(keys, p)
      count_in(p.ring, at_ms, 1)
      p.cut = math.max(p.cut, at_ms)
      p.total, p.first = p.total + 1, math.min(p.first, at_ms)
      return COUNTED
    end
  end
  work = work + 12
  if call('ZADD', keys.window, 'NX', at_text, id) == 0 then return DUPLICATE end
  -- A window that is new has no end yet.
  if not is_full and call('ZCARD', keys.window) == 1 then p.renewed = -RENEWED_MS end
  local made, oldest = made_of(byte_change, editor), math.min(p.oldest, at_ms)
  local is_last = at_ms > p.last or at_ms == p.last and not is_before(id, p.last_id)
  local later = not is_last and call('ZREVRANK', keys.window, id)
  local answer = is_last and redis.pcall('RPUSH', keys.editors, made) or redis.pcall('RPOP', keys.editors, later)
  if type(answer) == 'table' and answer.err then
    -- The editors are no list: nothing has happened.
    call('ZREM', keys.window, id)
    error(answer, 0)
  end
  -- A list that is new has no end yet.
  if answer == 1 then p.renewed = -RENEWED_MS end
  if is_last then
    p.last, p.byte_change, p.last_id = at_ms, byte_change, id
  else
    -- To its place, before those that were made later.
    later = answer or {}
    work = work + #later / 6
    local back = { made }
    for i = #later, 1, -1 do back[#back + 1] = later[i] end
    -- A list that is new, or was empty for a moment, has no end.
    if call('RPUSH', keys.editors, unpack(back)) == #back then p.renewed = -RENEWED_MS end
  end
  if p.ring then
    count_in(p.ring, at_ms, 1)
  elseif is_full then
    p.ring = ring_of_members(keys, p)
  end
  if is_full then
    make_room(keys, p)
    oldest = number_of(call('ZRANGE', keys.window, '0', '0', 'WITHSCORES')[2], 0, p.last)
    if not oldest then
      -- What was counted had been lost: it begins anew with this one.
      call('UNLINK', keys.window, keys.editors)
      call('ZADD', keys.window, at_ms, id)
      call('RPUSH', keys.editors, made)
      p.count, p.renewed, oldest = 0, -RENEWED_MS, at_ms
    end
  end
  p.count, p.oldest = p.count + 1, oldest
  p.total, p.first = p.total + 1, math.min(p.first, at_ms)
  return ADDED
end

-- Adds edits `from` to `to`, each later than the one before and than all there are, at once; what becomes of them goes to
-- `codes`, and ids are `known` then.
local function append(keys, p, edits, from, to, codes, known)
  local window, made, new_ids = {}, {}, {}
  for i = from, to do
    local edit = edits[i]
    if known[edit.id] then
      codes[i] = DUPLICATE
    else
      known[edit.id] = true
      window[#window + 1], window[#window + 2] = int(edit.at), edit.id
      made[#made + 1], new_ids[#new_ids + 1] = made_of(edit.byte_change, edit.editor), edit.id
      codes[i] = ADDED
      if p.ring then count_in(p.ring, edit.at, 1) end
      p.last, p.byte_change, p.last_id = edit.at, edit.byte_change, edit.id
      p.first = math.min(p.first, edit.at)
    end
  end
  work = work + 3 * (to - from)
  if not made[1] then return end
  call('ZADD', keys.window, unpack(window))
  local answer = redis.pcall('RPUSH', keys.editors, unpack(made))
  if type(answer) == 'table' and answer.err then
    -- The editors are no list: nothing has happened.
    call('ZREM', keys.window, unpack(new_ids))
    error(answer, 0)
  end
  -- A list that is new has no end yet, nor has a window.
  if answer == #made or call('ZCARD', keys.window) == #made then p.renewed = -RENEWED_MS end
  p.count, p.total = p.count + #made, p.total + #made
  local over = p.count - max_members
  if over > 0 then
    p.ring = p.ring or ring_of_members(keys, p)
    local left = call('ZPOPMIN', keys.window, over)
    p.cut = math.max(p.cut, tonumber(left[#left]) or 0)
    call('LTRIM', keys.editors, over, '-1')
    p.count = max_members
    p.oldest = number_of(call('ZRANGE', keys.window, '0', '0', 'WITHSCORES')[2], 0, p.last) or p.last
  end
end

-- Whether an edit is not before the last of a page, or another.
local function is_latest(edit, last_ms, last_id)
  return edit.at > last_ms or edit.at == last_ms and not is_before(edit.id, last_id)
end

-- Adds edits to a hot page from `from` on, all that can be together; the first that is left.
local function add_some(page, keys, p, edits, from, codes, known)
  local first, to = edits[from], from
  if is_latest(first, p.last, p.last_id) then
    while edits[to + 1] and to - from < MOST_AT_ONCE - 1 and is_latest(edits[to + 1], edits[to].at, edits[to].id) do to = to + 1 end
  end
  if to > from then
    append(keys, p, edits, from, to, codes, known)
  else
    codes[from] = known[first.id] and DUPLICATE or add(page, keys, p, first.text, first.at)
    known[first.id] = true
  end
  return to + 1
end

-- Makes a page hot by what is remembered of it.
local function promote(page, key, edits)
  local live = {}
  for _, edit in ipairs(edits) do
    if edit.at + window_ms > now_ms and edit.at <= ahead_ms then live[#live + 1] = edit end
  end
  if #live == 0 then return REMEMBERED, 0, '' end
  table.sort(live, function(one, other)
    return one.at < other.at or one.at == other.at and is_before(one.id, other.id)
  end)
  local last = live[#live]
  local is_room, expired, replaced = make_room_for(#live, last.at)
  if not is_room then return REJECTED, expired, '' end
  forget(page, key)
  local keys = keys_of(page)
  -- What may be left of its last time, or is not ours.
  unlink(keys)
  local p = { count = #live, oldest = live[1].at, due = live[1].at, cut = 0, flags = 0, renewed = -RENEWED_MS, total = #live,
    first = live[1].at, last = last.at, byte_change = last.byte_change, last_id = last.id }
  work = work + 20 + 3 * #live
  local scores, made = {}, {}
  for i, edit in ipairs(live) do
    scores[2 * i - 1], scores[2 * i] = edit.at, edit.id
    made[i] = made_of(edit.byte_change, edit.editor)
  end
  call('ZADD', keys.window, unpack(scores))
  call('RPUSH', keys.editors, unpack(made))
  dues[page] = p.due + base_ms
  emit('promoted', page, p.count)
  judge(page, keys, p)
  save(page, keys, p, true)
  return PROMOTED, expired, replaced
end

-- Remembers an edit of a page that is not hot; at the threshold it becomes so.
local function remember(page, key, edit, at_ms)
  work = work + 5
  local stored, edits, from = call('GET', key), {}, {}
  local _, byte_change, id, editor = struct.unpack('ssss', edit)
  local first_ms, at
  if stored then first_ms, at = struct.unpack('s', stored) end
  if stored and is_over(number_of(first_ms, 0, MAX_WHOLE) or error('activity cannot be read', 0)) then
    forget(page, key)
    stored, remembered = false, nil
  end
  while stored and at <= #stored do
    local past = {}
    from[#from + 1] = at
    past.at, past.byte_change, past.id, past.editor, at = struct.unpack('ssss', stored, at)
    if past.id == id then return DUPLICATE, 0, 0, '' end
    past.at = number_of(past.at, 0, MAX_WHOLE)
    if not past.at or not number_of(past.byte_change, -MAX_WHOLE, MAX_WHOLE) then error('an edit cannot be read', 0) end
    edits[#edits + 1] = past
  end
  if not stored then
    begin(page)
    call('SET', key, NOW .. '\0' .. edit, 'PX', ACTIVITY_TTL)
  else
    -- No more than what makes it hot.
    local surplus = math.max(#edits + 1 - hot_threshold, 0)
    for _ = 1, surplus do table.remove(edits, 1) end
    call('SET', key, first_ms .. '\0' .. string.sub(stored, from[surplus + 1] or at) .. edit, 'KEEPTTL')
  end
  edits[#edits + 1] = { at = at_ms, byte_change = byte_change, id = id, editor = editor }
  if #edits < hot_threshold then return REMEMBERED, 0, ACTIVITY, '' end
  remembered = nil
  local code, expired, replaced = promote(page, key, edits)
  return code, expired, ACTIVITY, replaced
end

-- Several edits of a page, judged and written together. Ids that it has when they come, and their own, are known until
-- all of them are recorded, also of edits that have to make room for others of them.
local function record_several(key, text)
  local page, edits, at = string.sub(key, PAGE_AT), {}, 2
  while string.byte(text) == UNDATED and at <= #text do
    local id, made
    id, made, at = struct.unpack('ss', text, at)
    local byte_change, editor = string.match(made, '^(%S+) (.*)$')
    local rest = '\0' .. byte_change .. '\0' .. id .. '\0' .. editor .. '\0'
    edits[#edits + 1] = { at = now_ms, byte_change = byte_change, id = id, editor = editor, text = NOW .. rest }
  end
  while at <= #text do
    local at_text, byte_change, id, editor, next = struct.unpack('ssss', text, at)
    local rest = string.sub(text, at + #at_text, next - 1)
    local at_ms = math.min(tonumber(at_text) or now_ms, now_ms)
    edits[#edits + 1] = { at = at_ms, byte_change = byte_change, id = id, editor = editor, text = int(at_ms) .. rest }
    at = next
  end
  local codes, activity, expired, replaced, keys = {}, 0, 0, '', keys_of(page)
  local i, p, is_changed, is_later, known = 1, nil, false, false, {}
  -- Those that are too late come first.
  while edits[i] and edits[i].at + window_ms <= now_ms do
    codes[i], i = TOO_LATE, i + 1
  end
  while edits[i] do
    -- Those that came first are recorded, so there are fewer the next time. One that is known is no work.
    if i > 1 and work >= ENOUGH_WORK and not known[edits[i].id] then
      for left = i, #edits do codes[left] = known[edits[left].id] and DUPLICATE or LATER end
      is_later = true
      break
    end
    if not p then
      local w, gone = call('HGET', keys.meta, 'w'), 0
      if w then p, gone = settle(page, keys, load(keys.meta, w)) end
      expired = expired + gone
      if p then
        local ids = {}
        for left = i, #edits do ids[#ids + 1] = edits[left].id end
        for number, score in ipairs(call('ZMSCORE', keys.window, unpack(ids))) do
          if score then known[ids[number]] = true end
        end
      end
    end
    if p then
      local from = i
      i = add_some(page, keys, p, edits, from, codes, known)
      for done = from, i - 1 do is_changed = is_changed or codes[done] ~= DUPLICATE end
    elseif known[edits[i].id] then
      codes[i], i = DUPLICATE, i + 1
    else
      known[edits[i].id] = true
      local code, more, as_activity, left = remember(page, key, edits[i].text, edits[i].at)
      codes[i], i, expired = code, i + 1, expired + more
      if as_activity > 0 then activity = activity + 1 end
      if left ~= '' then replaced = left end
    end
  end
  if is_changed then save_added(page, keys, p, is_later) end
  return with_counts({ activity, expired, table.concat(codes), replaced })
end

pin_due()
return function(k, edit)
  local key, form, at_ms, expired = KEYS[k], string.byte(edit), now_ms, 0
  if form == DATED or form == UNDATED then return record_several(key, edit) end
  if form ~= 0 then
    local text, next = struct.unpack('s', edit)
    if tonumber(text) < now_ms then at_ms = tonumber(text) else edit = NOW .. string.sub(edit, next - 1) end
    if at_ms + window_ms <= now_ms then return TOO_LATE end
  else
    edit = NOW .. edit
  end
  local page = string.sub(key, PAGE_AT)
  local w = call('HGET', META_FAMILY .. page, 'w')
  if w then
    local keys, p = keys_of(page)
    p, expired = settle(page, keys, load(keys.meta, w))
    if p then
      local code = add(page, keys, p, edit, at_ms)
      if code ~= DUPLICATE then save_added(page, keys, p) end
      return reply(code, '')
    end
  elseif hot_threshold > 1 and call('SET', key, NOW .. '\0' .. edit, 'PX', ACTIVITY_TTL, 'NX') then
    -- Most pages get one edit and never another.
    begin(page)
    return REMEMBERED + ACTIVITY
  end
  local code, more, counted, replaced = remember(page, key, edit, at_ms)
  local answer = code + counted + EXPIRED * (expired + more)
  return reply(answer, replaced)
end
