-- record: one edit of a page.
--
-- Own   id, editor, byte change, when (ms, empty for now)
-- Answers  a number: what became of it (0 remembered, 1 promoted, 2 added, 3 rejected,
--          4 a duplicate, 5 too late), 8 more if it counted as activity, 16 more for each
--          page that is not hot any more; in a list with the page that was replaced, if
--          one was
local PAGE_AT = string.len(WINDOW_FAMILY) + 1

-- As a sorted set has them: `<` goes by the language that the server is set to.
local function precedes(one, other)
  for i = 1, math.min(#one, #other) do
    local a, b = string.byte(one, i), string.byte(other, i)
    if a ~= b then return a < b end
  end
  return #one < #other
end

-- Makes room for one in a window that is full, or over, if more were allowed before.
local function make_room(keys, p)
  local over = p.count + 1 - max_members
  if over == 1 then
    p.cut = math.max(p.cut, p.oldest)
    call('ZREMRANGEBYRANK', keys.window, 0, 0)
  else
    p.cut = math.max(p.cut, ms(call('ZPOPMIN', keys.window, over)[2 * over]))
  end
  call('LTRIM', keys.editors, over, -1)
  p.count = max_members - 1
end

-- Adds to the window of a hot page.
local function add(page, keys, p, id, editor, byte_change, at_ms)
  local is_full = p.count >= max_members
  if is_full and at_ms <= p.oldest then
    if call('ZSCORE', keys.window, id) then return 4 end
    local first = call('ZRANGE', keys.window, 0, 0)[1]
    if at_ms < p.oldest or precedes(id, first) then return 5 end
  end
  if call('ZADD', keys.window, 'NX', at_ms / 1000, id) == 0 then return 4 end
  local made, oldest = made_of(byte_change, editor), math.min(p.oldest, at_ms)
  if at_ms > p.last or at_ms == p.last and not precedes(id, p.last_id) then
    p.last, p.byte_change, p.last_id = at_ms, byte_change, id
    call('RPUSH', keys.editors, made)
  else
    -- To its place, before those that were made later.
    local later = call('RPOP', keys.editors, call('ZREVRANK', keys.window, id)) or {}
    local back = { made }
    -- A list that was empty for a moment has no end any more.
    if #later >= p.count then p.renewed = -RENEWED_MS end
    for i = #later, 1, -1 do back[#back + 1] = later[i] end
    call('RPUSH', keys.editors, unpack(back))
  end
  if is_full then
    make_room(keys, p)
    oldest = ms(call('ZRANGE', keys.window, 0, 0, 'WITHSCORES')[2])
  end
  if oldest ~= p.oldest then
    p.oldest = oldest
    dues[page] = oldest + window_ms
  end
  p.count, p.total, p.first = p.count + 1, p.total + 1, math.min(p.first, at_ms)
  judge(page, keys, p)
  save(page, keys, p)
  return 2
end

-- Makes a page hot by what is remembered of it.
local function promote(page, keys, edits)
  local live = {}
  for _, edit in ipairs(edits) do
    if edit.at + window_ms > now_ms and edit.at <= ahead_ms then live[#live + 1] = edit end
  end
  if #live == 0 then return 0, 0, '' end
  table.sort(live, function(one, other)
    return one.at < other.at or one.at == other.at and precedes(one.id, other.id)
  end)
  local last, expired, replaced = live[#live], 0, ''
  flush_pages()
  local tracked = call('ZCARD', RANK)
  if tracked >= max_tracked then
    expired = settle_due(64)
    flush_pages()
    tracked = call('ZCARD', RANK)
  end
  if tracked >= max_tracked then
    local coldest = call('ZRANGE', RANK, 0, 0, 'WITHSCORES')
    local rank = tonumber(coldest[2])
    if not replaces or rank >= rank_of(#live, last.at) then return 3, expired, '' end
    replaced = coldest[1]
    drop(replaced, keys_of(replaced))
    tell('replaced', replaced, math.floor(rank / RANKED))
  end
  is_made = is_made or tracked <= 1
  forget(page, keys.activity)
  local p = { count = #live, oldest = live[1].at, cut = 0, flags = 0, renewed = -RENEWED_MS, total = #live,
    first = live[1].at, last = last.at, byte_change = last.byte_change, last_id = last.id }
  local scores, made = {}, {}
  for i, edit in ipairs(live) do
    scores[2 * i - 1], scores[2 * i] = edit.at / 1000, edit.id
    made[i] = made_of(int(edit.byte_change), edit.editor)
  end
  call('ZADD', keys.window, unpack(scores))
  call('RPUSH', keys.editors, unpack(made))
  dues[page] = p.oldest + window_ms
  tell('promoted', page, p.count)
  judge(page, keys, p)
  save(page, keys, p)
  return 1, expired, replaced
end

-- How many pages are remembered, if that is known.
local remembered

-- Begins to remember a page, for which it makes room.
local function begin(page, key, packed)
  if not remembered then
    flush(ACTIVITIES, activities)
    remembered = call('ZCARD', ACTIVITIES)
  end
  if remembered >= max_activity then
    flush(ACTIVITIES, activities)
    local oldest = call('ZRANGE', ACTIVITIES, 0, 0)[1]
    forget(oldest, ACTIVITY_FAMILY .. oldest)
    remembered = remembered - 1
  end
  is_made = is_made or remembered == 0
  remembered, sequence = remembered + 1, sequence + 1
  activities[page] = sequence
  call('SET', key, struct.pack('<d', now_ms) .. packed, 'PX', activity_ttl_ms + behind_ms)
end

-- Remembers an edit of a page that is not hot; at the threshold it becomes so.
local function remember(page, keys, stored, packed, id, editor, byte_change, at_ms)
  local edits, from, at = {}, {}, 9
  if stored and is_over(struct.unpack('<d', stored)) then
    forget(page, keys.activity)
    stored, remembered = false, nil
  end
  while stored and at <= #stored do
    local edit = {}
    from[#from + 1] = at
    edit.at, edit.byte_change, edit.id, edit.editor, at = struct.unpack('<ddss', stored, at)
    if edit.id == id then return 4, 0, 0, '' end
    edits[#edits + 1] = edit
  end
  if not stored then
    begin(page, keys.activity, packed)
  else
    -- No more than what makes it hot.
    local surplus = math.max(#edits + 1 - hot_threshold, 0)
    for _ = 1, surplus do table.remove(edits, 1) end
    local kept = string.sub(stored, 1, 8) .. string.sub(stored, from[surplus + 1] or at)
    call('SET', keys.activity, kept .. packed, 'KEEPTTL')
  end
  edits[#edits + 1] = { at = at_ms, byte_change = byte_change, id = id, editor = editor }
  if #edits < hot_threshold then return 0, 0, 1, '' end
  remembered = nil
  local code, expired, replaced = promote(page, keys, edits)
  return code, expired, 1, replaced
end

return finish(each(function(k, at)
  local page = string.sub(KEYS[k + 1], PAGE_AT)
  local id, editor, byte_change = ARGV[at + 1], ARGV[at + 2], ARGV[at + 3]
  local at_ms = math.min(tonumber(ARGV[at + 4]) or now_ms, now_ms)
  if at_ms + window_ms <= now_ms then return 5 end
  local p, expired = load(KEYS[k + 2]), 0
  if p then
    local keys = keys_at(k)
    p, expired = settle(page, keys, p)
    if p then return add(page, keys, p, id, editor, byte_change, at_ms) end
  end
  local stored, packed = call('GET', KEYS[k]), struct.pack('<ddss', at_ms, byte_change, id, editor)
  if not stored and hot_threshold > 1 then
    -- Most pages get one edit and never another.
    begin(page, KEYS[k], packed)
    return 8 + 16 * expired
  end
  local code, more, counted, replaced = remember(page, keys_at(k), stored, packed, id, editor, byte_change, at_ms)
  local answer = code + 8 * counted + 16 * (expired + more)
  return replaced == '' and answer or { answer, replaced }
end, KEYS_OF_ITEM, 4, COMMON))
