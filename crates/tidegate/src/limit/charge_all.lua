-- charge_all: charges a subject under several limits, or under none, by an id of the caller's: sent twice it charges
-- once. A charge is remembered in the records of each limit.
--
-- ARGV  behind the limits: how long the id is remembered (ms), 1 if it is a quota, which limits are charged together;
--       per limit: extra, how many ids are remembered
-- KEYS  of an item for each limit, after the limit's: records and their index. If it is a quota, all items are without a
--       subject and share these, and the hours of the first limit behind them
-- Own   id (empty: it is not remembered); per limit: cost
-- Answers ALL_CHARGED and each limit's answer; of a quota then, if it is the first charge of an hour, of each limit the hour
--         before and what was noted of that
--         ALL_KNOWN and where each limit stands: it was charged by this id before
--         ALL_RELEASED: it was, and has been given back; or it was released before it came
--         ALL_REFUSED and each limit's answer
--         ALL_OTHER, number of the limit, cost: the id was used for this cost, or (0) for something else
--         ALL_NO_ROOM, number of the limit: no room for another id
--         or the number of one that holds, or TRY_AGAIN, and its answer alone
local rules, described = several({ sliding = sliding, calendar = calendar })
local remembered_ms, is_quota = tonumber(ARGV[described + 1]), ARGV[described + 2] == '1'
local together = tonumber(ARGV[described + 3])
local shared_args, arguments, keys = described + 3 + 2 * #rules, 1 + #rules, 0
for _, rule in ipairs(rules) do keys = keys + rule.stride + 2 end

-- What limits remember of a key, by the index of it: looked at before the first charge, and given its end behind the
-- last.
local books = {}

local function book_of(part)
  if not books[part.index] then
    drop(part.ids, part.index, index_due(part.index, now_ms, LOOKED_AT))
    books[part.index] = { ids = part.ids, count = redis.call('ZCARD', part.index) }
  end
  return books[part.index]
end

local function remember(part, id, r)
  local book = books[part.index]
  if part.leaving then
    drop(part.ids, part.index, { part.leaving })
    book.count = book.count - 1
  end
  put(part.ids, part.index, id, r)
  book.count, book.is_changed = book.count + 1, true
end

-- What is known of the id, by the state of its charge; or an answer in place of that.
local function find(parts, id)
  local state
  for i, part in ipairs(parts) do
    book_of(part)
    local r = load(part.ids, id)
    if r then
      if r.cost ~= part.cost and r.cost ~= 0 then return nil, { ALL_OTHER, i, r.cost } end
      local is_charge = r.state == CHARGED or r.state == RELEASED
      if not is_charge or r.deadline ~= together then return nil, { ALL_OTHER, i, 0 } end
      state = r.state
    end
  end
  return state
end

-- Makes sure of room for one more id of each limit; what must go for it is dropped later.
local function find_room(parts)
  for i, part in ipairs(parts) do
    if book_of(part).count >= part.max then
      part.leaving = first_over(part.ids, part.index)
      if not part.leaving then return { ALL_NO_ROOM, i } end
    end
  end
end

local hour_now, is_said = math.floor(now_ms / HOUR_MS), false

-- Whether no quota was charged yet in this hour, as far as the first limit knows. Asked before anything is charged: hours may
-- be of another type.
local function begins_hour()
  if is_said then return false end
  local stored = redis.call('HGET', rules[1].hours, int(hour_now))
  is_said = stored and not string.find(stored, 'unsaid', 1, true)
  return not is_said
end

-- Notes that it is told; of each limit the hour before, and what was noted of that.
local function say_hour()
  local told = {}
  for _, rule in ipairs(rules) do
    local stored = redis.call('HGET', rule.hours, int(hour_now))
    if stored then redis.call('HSET', rule.hours, int(hour_now), (string.gsub(stored, ' unsaid', ''))) end
    told[#told + 1], told[#told + 2] = forget_hours(rule.hours, hour_now)
  end
  is_said = true
  return told
end

local replies = each(function(k, at)
  local id, parts, k_of, at_of = ARGV[at + 1], {}, k, described + 3
  for i, rule in ipairs(rules) do
    local part = { k = k_of, cost = tonumber(ARGV[at + 1 + i]), extra = tonumber(ARGV[at_of + 1]),
      max = tonumber(ARGV[at_of + 2]), ids = KEYS[k_of + rule.stride], index = KEYS[k_of + rule.stride + 1] }
    local other = otherwise(rule, k_of, part.extra)
    -- Nothing is known of the key, or the caller has to try again.
    if other then return { other[1] == HELD and i or TRY_AGAIN, other } end
    part.a, part.b = terms(rule, k_of)
    parts[i], k_of, at_of = part, k_of + rule.stride + 2, at_of + 2
  end

  if id ~= '' then
    local state, answer = find(parts, id)
    if answer then return answer end
    if state == RELEASED then return { ALL_RELEASED } end
    if state then return standing(rules, parts) end
    local no_room = find_room(parts)
    if no_room then return no_room end
  end

  local is_refused, answers = false, {}
  for i, rule in ipairs(rules) do
    local part = parts[i]
    part.state, part.answer = rule.judge(part.k, part.cost, part.a, part.b, part.extra)
    is_refused = is_refused or not part.state
    answers[i + 1] = part.answer
  end
  answers[1] = is_refused and ALL_REFUSED or ALL_CHARGED
  if is_refused then return answers end

  -- Before anything is charged: it may be of another type.
  check_all(rules, parts)
  local is_first = is_quota and begins_hour()
  for i, rule in ipairs(rules) do
    local part = parts[i]
    answers[i + 1] = rule.charge(part.k, part.state, part.cost, part.a, part.b, false, part.extra)
    if id ~= '' then
      remember(part, id, { cost = part.cost, state = CHARGED, deadline = together, forget = now_ms + remembered_ms,
        at = rule.place(answers[i + 1][5]), spans = 0, gives_back = 0 })
    end
  end
  if is_first then answers[#answers + 1] = say_hour() end
  return answers
end, is_quota and 0 or keys, arguments, 0, (#ARGV - shared_args) / arguments)

for index, book in pairs(books) do
  if book.is_changed then renew(book.ids, index, now_ms + remembered_ms) end
end
return replies
