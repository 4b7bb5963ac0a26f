-- reconcile: goes through some of the keys, or of the entries of a set, and corrects what is not
-- as it should be; or only says so. Both count alike: what is looked at first is what
-- would be done, and what is done by taking a session over is counted as that alone.
--
-- Keys  none
-- Own   1 to correct nothing (a dry run); where to begin (`phase cursor`, empty: where it was last
--       left); about how many keys to look at; for how long nothing is done after it was
--       done, ms; for how long a session is left that counts as an orphan, ms
-- Answers  where to go on, empty at the end; keys in the database; keys and entries gone
--          through; keys under our names looked at, sessions, taken over active, taken over
--          disconnected, put into a set, taken out of one, given an end, entries that are no
--          ids, keys that are not recognised, sets and states of another type; then, in turn, a word and a key or an entry
--          of whatever was not as it should be; `orphan` and an id, and when it was left,
--          of each orphan
local is_changed = false
local replies = plain_each(function(_, at)
  local is_dry_run, from, count = ARGV[at + 1] == '1', ARGV[at + 2], tonumber(ARGV[at + 3])
  local pause_ms, age_ms = tonumber(ARGV[at + 4]), tonumber(ARGV[at + 5])
  local through, looked, sessions, active, disconnected = 0, 0, 0, 0, 0
  local put_in, taken_out, ended, bad, unrecognised, replaced = 0, 0, 0, 0, 0, 0
  local findings, misused = {}, {}

  local function report(what, subject, when)
    findings[#findings + 1] = what
    findings[#findings + 1] = subject
    if when then findings[#findings + 1] = when end
  end

  -- A key of ours that nobody ends gets an end.
  local function must_end(key)
    if call('PTTL', key) ~= -1 then return end
    ended = ended + 1
    report('endless', key)
    if not is_dry_run then call('PEXPIRE', key, life_ms) end
  end

  -- Somebody else's: it is reported, and left alone.
  local function leave_alone(key)
    unrecognised = unrecognised + 1
    report('unrecognised', key)
  end

  local function look_at_session(key)
    local s = known(string.sub(key, #SESSION + 1), key)
    if not s then return leave_alone(key) end
    sessions = sessions + 1
    local left = to_take_over(s)
    if left then
      if left == 0 then active = active + 1 else disconnected = disconnected + 1 end
      report(s.is_unreadable and 'unreadable' or left == 0 and 'active' or 'disconnected', key)
      s.claimed = 0
      if not is_dry_run then settle(s) end
    else
      left = s.disconnected
      if left == 0 and ends(s.deadline) <= now_ms then left = ends(s.deadline) end
      local set, score = home(s)
      local there = not misused[set] and call('ZSCORE', set, s.id)
      if not there or score and tonumber(there) ~= score then
        put_in = put_in + 1
        report('unindexed', key)
        if not is_dry_run then put(set, score or now_ms, s.id) end
      end
      must_end(key)
      -- It says again what is true here.
      if s.is_foreign and not is_dry_run then settle(s) end
    end
    if left > 0 and left <= now_ms - age_ms and s.claimed == 0 then report('orphan', s.id, left) end
  end

  -- Both end with a session that is taken over.

  local function look_at_broadcaster(key)
    local id = redis.pcall('GET', key)
    local s = type(id) == 'string' and known(id)
    if not s or s.broadcaster ~= string.sub(key, #BROADCASTER + 1) then return leave_alone(key) end
    if not to_take_over(s) then must_end(key) end
  end

  local function look_at_counter(key)
    local id = string.sub(key, #REF_COUNT + 1)
    local s, why = known(id)
    -- A counter belongs to whom its session belongs to.
    if not is_id(id) or why == FOREIGN or not counted(id) then return leave_alone(key) end
    if not s or not to_take_over(s) then must_end(key) end
  end

  local function look_at_entry(set, id)
    local s = known(id)
    if s and (to_take_over(s) or home(s) == set) then return end
    if not is_id(id) then bad = bad + 1 end
    taken_out = taken_out + 1
    report(s and 'misplaced' or 'missing', set .. ' ' .. id)
    if not is_dry_run then call('ZREM', set, id) end
  end

  -- What all sessions share and is of another type: what was in it is in the sessions too, and
  -- whoever was told to reconcile begins anew without it. Nobody else goes on.
  for _, key in ipairs({ STATE, ACTIVE, DISCONNECTED, CLAIMED, DEAD }) do
    if is_misused(key) then
      if not is_dry_run and pause_ms > 0 then error(corrupt(key, 'is of another type'), 0) end
      misused[key] = is_dry_run
      if not is_dry_run then call('UNLINK', key) end
      if not is_dry_run or from == '0 0' then
        replaced = replaced + 1
        report('another-type', key)
      end
      if not is_dry_run then from = '0 0' end
    end
  end
  if not is_dry_run then
    is_changed = true
    stamp()
  end
  if from == '' then
    from = call('HGET', STATE, 'mending') or ''
    if from == '' and pause_ms > 0 then
      -- Whatever is new is taken to be in order.
      local completed_ms = moment(call('HGET', STATE, 'mended'))
      -- So is what a clock that was far ahead has dated.
      if completed_ms and completed_ms > now_ms then completed_ms = nil end
      if not completed_ms then call('HSET', STATE, 'mended', now_ms) end
      if not completed_ms or completed_ms + pause_ms > now_ms then return { '', 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 } end
    end
    if from == '' then from = '0 0' end
  end
  local phase, cursor = string.match(from, '^([0-4]) (%d+)$')
  -- Anybody may have written there.
  if not phase or #cursor > 19 then phase, cursor = '0', '0' end
  phase = tonumber(phase)
  if phase == 0 then
    if cursor == '0' then
      for _, set in ipairs(SETS) do
        if not misused[set] then must_end(set) end
      end
    end
    local page = call('SCAN', cursor, 'COUNT', count)
    cursor = page[1]
    for _, key in ipairs(page[2]) do
      local look_at
      if string.sub(key, 1, #SESSION) == SESSION then
        look_at = look_at_session
      elseif string.sub(key, 1, #REF_COUNT) == REF_COUNT then
        look_at = look_at_counter
      elseif string.sub(key, 1, #BROADCASTER) == BROADCASTER then
        look_at = look_at_broadcaster
      end
      through = through + 1
      if look_at then
        looked = looked + 1
        look_at(key)
      end
    end
  else
    local set = SETS[phase]
    local page = misused[set] and { '0', {} } or call('ZSCAN', set, cursor, 'COUNT', count)
    cursor = page[1]
    for i = 1, #page[2], 2 do
      through = through + 1
      look_at_entry(set, page[2][i])
    end
  end
  local next_one = phase .. ' ' .. cursor
  if cursor == '0' then next_one = phase < #SETS and (phase + 1) .. ' 0' or '' end
  if not is_dry_run then
    call('HSET', STATE, 'mending', next_one)
    if next_one == '' then call('HSET', STATE, 'mended', now_ms) end
  end
  local answer = { next_one, call('DBSIZE'), through, looked, sessions, active, disconnected, put_in, taken_out, ended,
    bad, unrecognised, replaced }
  for _, word in ipairs(findings) do answer[#answer + 1] = word end
  return answer
end, 1, 5, SHARED_KEYS)
return is_changed and finish(replies) or replies
