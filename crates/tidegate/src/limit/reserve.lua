-- reserve, commit, release and see a reservation: a charge that is held first, by
-- an id of the caller's. Each may be sent twice and charges once.
--
-- KEYS  after the marker, the index of the limit's pending reservations by deadline;
--       of an item after the limit's: records and their index, see records.lua
-- Own   what to do, id, extra, cost, lasting_ms, gives_back (1: at the deadline it
--       is given back, 0: it counts as spent), max (ids of a key), remembered_ms,
--       what it is called among the pending ones of all keys
-- Answers, beside those of the rules
--       RESERVATION, cost, state, expires_in_ms, 1 if this call made it
--       OTHER_COST, cost: the id was used for this cost
--       NO_ROOM: no more room for ids that are pending
--       UNKNOWN: there is no such id
local rule = rule_at(algorithm, 4)
local is_calendar, pending = rule.window ~= nil, KEYS[2]

local function seen(r, is_new)
  local state = state_of(r)
  return { RESERVATION, r.cost, state, state == PENDING and r.deadline - now_ms or 0, is_new and 1 or 0 }
end

-- Holds a cost until a deadline: where, or a refusal.
local function hold(k, extra, cost, lasting_ms, gives_back)
  local a, b = terms(rule, k)
  local state, answer = rule.judge(k, cost, a, b, extra)
  if not state then return nil, answer end
  if is_calendar then
    local until_ms = gives_back == 1 and now_ms + lasting_ms or nil
    -- One that is given back when the next window begins does not reach into it.
    local spans = lasting_ms - gives_back >= rule.rest_ms and 1 or 0
    if spans == 1 then
      local other = rule.elsewhere(k, extra, 1)
      if other then return nil, other end
      local used = rule.used(k, extra, 1)
      if used + cost > a then
        -- Free when the next window is over.
        local wait_ms = rule.rest_ms + rule.window_ms
        return nil, { REFUSED, a, math.max(a - used, 0), wait_ms, wait_ms, a }
      end
    end
    if spans == 1 and not rule.add(k, cost, extra, 1, until_ms) then return nil, { NO_ROOM } end
    if not rule.add(k, cost, extra, 0, until_ms) then
      if spans == 1 then rule.remove(k, rule.window + 1, cost, extra, until_ms) end
      return nil, { NO_ROOM }
    end
    return { at = rule.window, spans = spans }
  end
  local until_ms = state.instant + lasting_ms
  if gives_back == 0 then until_ms = until_ms + 1 + rule.window_ms end
  return { at = rule.charge_until(k, state, cost, until_ms), spans = 0 }
end

-- Takes a reservation out of the windows it is held in.
local function remove(k, extra, r, number)
  return rule.remove(k, number, r.cost, extra, r.gives_back == 1 and r.deadline or nil)
end

-- Spends what is held; false if it is gone and there is no room for it.
local function spend(k, extra, r)
  if is_calendar then
    -- It is spent in this window, and in no other.
    local is_held = r.at == rule.window or r.spans == 1 and r.at + 1 == rule.window
    if is_held and r.gives_back == 1 then
      local found = remove(k, extra, r, r.at)
      if r.spans == 1 then found = found + remove(k, extra, r, r.at + 1) end
      if found > 0 then
        rule.add(k, r.cost, extra)
        return true
      end
    elseif is_held then
      local other = r.at == rule.window and r.at + 1 or r.at
      if r.spans == 1 then remove(k, extra, r, other) end
      return true
    end
  elseif rule.settle(k, r.at, r.cost, r.cost) == r.cost then
    return true
  end
  local a, b = terms(rule, k)
  local state = rule.judge(k, r.cost, a, b, extra)
  if state then rule.charge(k, state, r.cost, a, b, false, extra) end
  return state ~= nil
end

local function give_back(k, extra, r)
  if is_calendar then
    remove(k, extra, r, r.at)
    if r.spans == 1 then remove(k, extra, r, r.at + 1) end
  else
    rule.settle(k, r.at, r.cost, 0)
  end
end

return each(function(k, at)
  local operation, id, extra = ARGV[at + 1], ARGV[at + 2], tonumber(ARGV[at + 3])
  local ids, index = KEYS[k + rule.stride], KEYS[k + rule.stride + 1]
  local remembered_ms = tonumber(ARGV[at + 8])
  local other = otherwise(rule, k, extra)
  if other then return other end

  if operation == 'reserve' then
    local cost, lasting_ms = tonumber(ARGV[at + 4]), tonumber(ARGV[at + 5])
    local gives_back, max = tonumber(ARGV[at + 6]), tonumber(ARGV[at + 7])
    drop(ids, index, index_due(index, now_ms, LOOKED_AT))
    local r = load(ids, id)
    if r then return r.cost == cost and seen(r, false) or { OTHER_COST, r.cost } end
    if redis.call('ZCARD', index) >= max then
      local leaving = first_over(ids, index)
      if not leaving then return { NO_ROOM } end
      drop(ids, index, { leaving })
    end
    -- Before anything is charged: it may be of another type.
    index_drop_due(pending, now_ms)
    local place, answer = hold(k, extra, cost, lasting_ms, gives_back)
    if not place then return answer end
    r = { cost = cost, state = PENDING, deadline = now_ms + lasting_ms, forget = now_ms + lasting_ms + remembered_ms,
      at = place.at, spans = place.spans, gives_back = gives_back }
    save(ids, index, id, r)
    index_put(pending, r.deadline, ARGV[at + 9], lasting_ms + slack_ms)
    return seen(r, true)
  end

  local r = load(ids, id)
  if not r then return { UNKNOWN } end
  local state = state_of(r)
  if is_calendar and operation ~= 'see' and state == PENDING then
    for number = r.at, r.at + r.spans do
      if not rule.reaches(k, number, extra) then return { ELSEWHERE, now_ms } end
    end
  end
  if operation ~= 'see' and r.state == PENDING then
    -- Before anything is charged or given back: they may be of another type.
    redis.call('ZCARD', index)
    redis.call('ZREM', pending, ARGV[at + 9])
  end
  if operation == 'commit' then
    if state == PENDING then
      state = spend(k, extra, r) and COMMITTED or LAPSED
      if state == COMMITTED then rule.note_standing(k, extra) end
    elseif state == LAPSED and r.state == PENDING and r.gives_back == 0 then
      -- It has been spent already.
      state = COMMITTED
    end
  elseif operation == 'release' and state == PENDING then
    give_back(k, extra, r)
    state = RELEASED
  end
  if operation ~= 'see' and r.state == PENDING then
    r.state, r.forget = state, now_ms + remembered_ms
    save(ids, index, id, r)
  end
  return seen(r, false)
end, rule.stride + 2, 9, 1)
