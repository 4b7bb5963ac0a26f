-- mend: goes through some of the keys, or of the entries of a set, and mends what is not
-- as it should be; or only says so.
--
-- Keys  none
-- Own   1 to mend, 0 to look; where to begin (`phase cursor`, empty: where it was last
--       left); about how many keys to look at; for how long nothing is done after it was
--       done, ms; for how long a session is left that counts as an orphan, ms
-- Answers  where to go on, empty at the end; keys in the database; looked at, sessions,
--          taken over active, taken over disconnected, put into a set, taken out of one,
--          given an end, entries that are no ids; then, in turn, a word and an id of
--          whatever was not as it should be; `orphan` and an id, and when it was left, of
--          each orphan
local SETS = { ACTIVE, DISCONNECTED, CLAIMED, DEAD }

-- The set that a session belongs to, and its place in it.
local function home(s)
  if s.disconnected == 0 then return ACTIVE, s.deadline end
  if s.claimed > 0 then return CLAIMED, s.claimed end
  if s.claimed < 0 then return DEAD end
  return DISCONNECTED, s.disconnected / 1000
end

local is_changed = false
local replies = each(function(_, at)
  local is_mending, from, count = ARGV[at + 1] == '1', ARGV[at + 2], tonumber(ARGV[at + 3])
  local pause_ms, age_ms = tonumber(ARGV[at + 4]), tonumber(ARGV[at + 5])
  local looked, sessions, active, disconnected, put_in, taken_out, ended, bad = 0, 0, 0, 0, 0, 0, 0, 0
  local told = {}
  is_changed = is_changed or is_mending

  local function tell(what, id, when)
    told[#told + 1] = what
    told[#told + 1] = id
    if when then told[#told + 1] = when end
  end

  -- A key that nobody ends gets an end.
  local function must_end(key, id)
    if call('PTTL', key) ~= -1 then return end
    ended = ended + 1
    tell('endless', id)
    if is_mending then call('PEXPIRE', key, life_ms) end
  end

  local function look_at_session(key)
    local id = string.sub(key, #SESSION + 1)
    local is_whole, s = false, nil
    if is_id(id) then is_whole, s = read_any(id, key) end
    if not is_whole then
      bad = bad + 1
      return tell('invalid', id)
    end
    if not s then return must_end(key, id) end
    sessions = sessions + 1
    local left = s.disconnected
    if s.is_foreign and s.claimed == 0 and not (s.disconnected == 0 and ends(s.deadline) > now_ms) then
      left = is_held_there(s) and 0 or left_ms(s)
      if left == 0 then active = active + 1 else disconnected = disconnected + 1 end
      tell(left == 0 and 'active' or 'disconnected', id)
      if is_mending then settle(s) end
    else
      if s.is_foreign and is_mending then settle(s) end
      if left == 0 and ends(s.deadline) <= now_ms then left = ends(s.deadline) end
      local set, score = home(s)
      local there = call('ZSCORE', set, id)
      if not there or score and tonumber(there) ~= score then
        put_in = put_in + 1
        tell('unindexed', id)
        if is_mending then put(set, score or now_ms, id) end
      end
    end
    if left > 0 and left <= now_ms - age_ms and s.claimed == 0 then tell('orphan', id, left) end
    if not s.is_foreign then must_end(key, id) end
  end

  local function look_at_entry(set, id)
    local is_whole, s = false, nil
    if is_id(id) then is_whole, s = read_any(id) end
    if not is_whole then s = nil end
    if s and (s.is_foreign or home(s) == set) then return end
    if not is_id(id) then bad = bad + 1 end
    taken_out = taken_out + 1
    tell(s and 'misplaced' or 'missing', id)
    if is_mending then call('ZREM', set, id) end
  end

  if from == '' then
    from = call('HGET', STATE, 'mending') or ''
    if from == '' and pause_ms > 0 then
      -- Whatever is new is taken to be in order.
      local mended = tonumber(call('HGET', STATE, 'mended'))
      -- So is what a clock that was far ahead has dated.
      if mended and mended > now_ms then mended = nil end
      if not mended then call('HSET', STATE, 'mended', now_ms) end
      if not mended or mended + pause_ms > now_ms then return { '', 0, 0, 0, 0, 0, 0, 0, 0, 0 } end
    end
    if from == '' then from = '0 0' end
  end
  local phase, cursor = string.match(from, '^(%d) (%d+)$')
  phase = tonumber(phase)
  if phase == 0 then
    local page = call('SCAN', cursor, 'COUNT', count)
    cursor = page[1]
    for _, key in ipairs(page[2]) do
      looked = looked + 1
      if string.sub(key, 1, #SESSION) == SESSION then
        look_at_session(key)
      elseif string.sub(key, 1, #REF_COUNT) == REF_COUNT then
        must_end(key, string.sub(key, #REF_COUNT + 1))
      elseif string.sub(key, 1, #BROADCASTER) == BROADCASTER then
        must_end(key, string.sub(key, #BROADCASTER + 1))
      end
    end
  else
    local page = call('ZSCAN', SETS[phase], cursor, 'COUNT', count)
    cursor = page[1]
    for i = 1, #page[2], 2 do
      looked = looked + 1
      look_at_entry(SETS[phase], page[2][i])
    end
    if cursor == '0' then must_end(SETS[phase], SETS[phase]) end
  end
  local next_one = phase .. ' ' .. cursor
  if cursor == '0' then next_one = phase < #SETS and (phase + 1) .. ' 0' or '' end
  if is_mending then
    call('HSET', STATE, 'mending', next_one)
    if next_one == '' then call('HSET', STATE, 'mended', now_ms) end
  end
  local answer = { next_one, call('DBSIZE'), looked, sessions, active, disconnected, put_in, taken_out, ended, bad }
  for _, word in ipairs(told) do answer[#answer + 1] = word end
  return answer
end, 1, 5, COMMON)
return is_changed and finish(replies) or replies
