-- What claim, cleanup and lapse share.

-- What was found: silent sessions, deleted, put aside, entries without a session,
-- entries that are no ids.
local lapsed, deleted, buried, missing, invalid
-- Some of the latter, for people.
local NAMED, named = 10, {}

-- Each of several calls that travel together counts its own.
local function start_counting()
  lapsed, deleted, buried, missing, invalid = 0, 0, 0, 0, 0
  named = {}
  -- If one is of another type nothing is begun that could not be ended.
  for _, set in ipairs(SETS) do call('ZCARD', set) end
end

-- Whether a call that is only good until then has come too late. One that has waited in a
-- socket while its caller gave up must not reap on wakening: it answers the store's time.
local function is_over(valid_until)
  if clock_ms > tonumber(valid_until) then return true end
  stamp()
  return false
end

-- How calls that reap answer: what was found, for how long the first had been due, 1 if more
-- is due, until when a hold runs (0: none does), the store's time, why it took no stamp (empty:
-- it did), and some of the entries that are no sessions.
local function answer(lag_ms, more)
  return { lapsed, deleted, buried, missing, invalid, lag_ms, more and 1 or 0, is_held and hold_ms or 0, clock_ms,
    refusal, named }
end

-- The first of 2009: there was no Redis before that whose clock could have dated an entry. A
-- clock that is not set begins in 1970.
local FIRST_MS = 1230768000000
local first_ms = now_ms >= FIRST_MS and FIRST_MS or 0

-- The time of the first session that is due. Entries that are no ids are passed by, a few at a
-- time: no session behind them is older than the last of those.
local function oldest_of(set, from, to)
  local page = call('ZRANGEBYSCORE', set, from, to, 'WITHSCORES', 'LIMIT', 0, 16)
  for i = 1, #page, 2 do
    if is_id(page[i]) then return tonumber(page[i + 1]) end
  end
  return tonumber(page[#page])
end

-- For how long the first orphan has been due.
local function lag()
  local due_ms, oldest = now_ms - grace_ms, now_ms
  local left = oldest_of(DISCONNECTED, first_ms / 1000, due_ms / 1000)
  if left then oldest = math.floor(left * 1000 + 0.5) end
  local silent = oldest_of(ACTIVE, int(first_ms), int(ended_by(due_ms)))
  if silent then oldest = math.min(oldest, ends(silent)) end
  return math.max(0, due_ms - oldest)
end

-- Until where the entries of a set are due, and behind where they are absurdly far ahead.
local function due_scores(set)
  if set == ACTIVE then return ended_by(now_ms), ahead_ms end
  if set == CLAIMED then return now_ms, ahead_ms end
  return (now_ms - grace_ms) / 1000, ahead_ms / 1000
end

-- Up to `limit` entries of a set that are due, then such as are absurdly far ahead.
local function due(set, limit)
  local until_score, ahead_score = due_scores(set)
  local ids = call('ZRANGEBYSCORE', set, '-inf', until_score, 'LIMIT', 0, limit)
  if #ids < limit then
    local far = call('ZRANGEBYSCORE', set, '(' .. string.format('%.17g', ahead_score), '+inf', 'LIMIT', 0, limit - #ids)
    for _, id in ipairs(far) do ids[#ids + 1] = id end
  end
  return ids
end

-- Puts a session where it belongs, if the set it was found in is not that.
local function file(s, set)
  if s.disconnected == 0 then
    put(ACTIVE, s.deadline, s.id)
    if set ~= ACTIVE then call('ZREM', set, s.id) end
  else
    local home, score = DISCONNECTED, s.disconnected / 1000
    if s.claimed > 0 then home, score = CLAIMED, s.claimed end
    if s.claimed < 0 then home, score = DEAD, nil end
    if score then put(home, score, s.id) end
    if set ~= home then call('ZREM', set, s.id) end
  end
end

-- The session of an entry, if there is one; entries without are removed. A key that
-- somebody else has written, or written to, must not keep the others from being reaped.
local function entry(set, id)
  local s, why = nil, FOREIGN
  if is_id(id) then s, why = read(id, nil, true) end
  if s then
    local _, is_silent = settle(s)
    if is_silent then lapsed = lapsed + 1 end
    return s, is_silent
  end
  call('ZREM', set, id)
  if why == GONE then
    missing = missing + 1
    return
  end
  invalid = invalid + 1
  if #named < NAMED then named[#named + 1] = set .. ' ' .. string.sub(id, 1, 100) end
end

-- Finds out up to `limit` sessions whose holders have fallen silent.
local function lapse(limit)
  for _, id in ipairs(due(ACTIVE, limit)) do
    local s, is_silent = entry(ACTIVE, id)
    if s and not is_silent then file(s, ACTIVE) end
  end
end

-- What becomes of a session as it is now, if claims that have ended count.
local KEPT, BURIED, REAPED = 0, 1, 2

local function fate(s)
  if s.disconnected == 0 or s.claimed < 0 or s.claimed > now_ms then return KEPT end
  if s.claimed > 0 then return s.attempts >= max_attempts and BURIED or REAPED end
  return s.disconnected + grace_ms > now_ms and KEPT or REAPED
end

-- Takes up to `limit` orphans: first those whose claim has ended, then those that were
-- left first, after up to `silent` were found out to be. `reap(s)` is called for each. Unless `is_claiming`, what was claimed once is
-- left to those who claim: its side effects have not run.
local function take(limit, silent, is_claiming, reap)
  lapse(silent)
  local taken = 0
  for _, id in ipairs(is_claiming and due(CLAIMED, limit) or {}) do
    local s = entry(CLAIMED, id)
    if s and (s.claimed <= 0 or fate(s) == KEPT) then
      file(s, CLAIMED)
    elseif s and fate(s) == BURIED then
      s.claimed = -1
      buried = buried + 1
      -- It may have to wait for as long again.
      s.renewed = -RENEWED_MS
      put(DEAD, now_ms, s.id)
      call('ZREM', CLAIMED, s.id)
      save(s)
    elseif s then
      taken = taken + 1
      reap(s)
    end
  end
  if taken >= limit then return end
  for _, id in ipairs(due(DISCONNECTED, limit - taken)) do
    local s = entry(DISCONNECTED, id)
    if s and (s.claimed ~= 0 or fate(s) == KEPT) then
      file(s, DISCONNECTED)
    elseif s then
      reap(s)
    end
  end
end

-- Whether more is due.
local function is_more(is_claiming)
  return #due(ACTIVE, 1) + (is_claiming and #due(CLAIMED, 1) or 0) + #due(DISCONNECTED, 1) > 0
end
