-- The calendar limit: so many per UTC minute, hour or day.
--
-- An item has six keys: of the previous, the present and the next window as the
-- caller's clock has it, the counter and what stands beside it. The store's clock
-- picks; if none fits, the answer is the store's time and nothing has happened.
--   counter  a string: what counts in the window
--   beside   a hash: `v` what was given back or reset so far; `r` which charges,
--            offset and cost, two doubles each: a receipt that overlaps one of
--            these is void; `t` the capacity of the last take_with; `p` what is
--            lent until a deadline, deadline and cost, two doubles each; `n` is there
--            once something was held that reaches into the next window
--
-- Numbers: window_ms, ttl_ms (of a counter, if the rest of its window is shorter), the
-- safety buffer.
-- Own, last: the number of the first window
local function calendar(at, now_us, slack_ms)
  local now_ms = math.floor(now_us / 1000)
  local window_ms, ttl_ms, buffer = tonumber(ARGV[at + 1]), tonumber(ARGV[at + 2]), tonumber(ARGV[at + 3])
  local PAIR, MAX_LOANS, NONE = '<dd', 128, {}
  local window = math.floor(now_ms / window_ms)
  local rest_ms = (window + 1) * window_ms - now_ms
  -- Of a key without a subject so much is behind the root: the name of its hour.
  local rule = { keys = 6, own = 4, everyone = 13, window_ms = window_ms, absurd_ms = window_ms, window = window,
    rest_ms = rest_ms }

  -- The counter and what stands beside it, of the store's window and so many after.
  local function pick(k, first, later)
    local index = window - first + (later or 0)
    if index < 0 or index > 2 then return end
    return KEYS[k + index * 2], KEYS[k + index * 2 + 1]
  end

  -- Whether the caller's clock named the store's window; with `later`, that one too.
  function rule.elsewhere(k, first, later)
    if not pick(k, first) or (later and not pick(k, first, later)) then return { ELSEWHERE, now_ms } end
  end

  -- Whether a counter is as Redis writes it, and can be added to.
  local function is_whole(stored)
    return stored == '0' or #stored < 18 and string.find(stored, '^%-?[1-9]%d*$')
  end

  local function add(counter, cost, later)
    if redis.call('INCRBY', counter, int(cost)) == cost then
      local life_ms = math.max(ttl_ms, rest_ms + (later or 0) * window_ms)
      redis.call('PEXPIRE', counter, int(life_ms + slack_ms))
    end
  end

  -- Sets fields of what stands beside a counter, also of the next window; it ends
  -- no earlier than that.
  local function note(beside, ...)
    redis.call('HSET', beside, ...)
    redis.call('PEXPIRE', beside, int(math.max(ttl_ms, rest_ms + window_ms) + slack_ms))
  end

  -- What is lent out now, the first to end first.
  local function lent(packed)
    local loans, sum = {}, 0
    for at = 1, #(packed or ''), 16 do
      local until_ms, cost = struct.unpack(PAIR, packed, at)
      if until_ms > now_ms then
        loans[#loans + 1] = { until_ms, cost }
        sum = sum + cost
      end
    end
    table.sort(loans, function(one, other) return one[1] < other[1] end)
    return loans, sum
  end

  local function pack(loans)
    local texts = {}
    for i, loan in ipairs(loans) do texts[i] = struct.pack(PAIR, loan[1], loan[2]) end
    return table.concat(texts)
  end

  -- What counts in the next window when it begins: what is used, and of that the loans.
  local function ahead(k, first)
    local counter, beside = pick(k, first, 1)
    if not counter then return 0, {} end
    local used, loans = tonumber(redis.call('GET', counter)) or 0, {}
    for _, loan in ipairs((lent(redis.call('HGET', beside, 'p')))) do
      if loan[1] - now_ms > rest_ms then
        loans[#loans + 1] = loan
        used = used + loan[2]
      end
    end
    return used, loans
  end

  -- When all is free: with the window, or with the next if something reaches into it.
  local function reset_after(used, used_ahead)
    if used_ahead > 0 then return rest_ms + window_ms end
    return used == 0 and 0 or rest_ms
  end

  local function reply(capacity, used, used_ahead)
    return { ADMITTED, capacity, math.max(capacity - used, 0), reset_after(used, used_ahead) }
  end

  -- When `cost` fits: in how many ms, and what is free then. As loans end, when the next
  -- window begins, as those end that reach into it, or when it is over too.
  local function wait(loans, used, cost, capacity, used_ahead, loans_ahead)
    for _, loan in ipairs(loans) do
      used = used - loan[2]
      if used + cost <= capacity and loan[1] - now_ms < rest_ms then return loan[1] - now_ms, capacity - used end
    end
    used = used_ahead
    if used + cost <= capacity then return rest_ms, capacity - used end
    for _, loan in ipairs(loans_ahead) do
      used = used - loan[2]
      if used + cost <= capacity and loan[1] - now_ms < rest_ms + window_ms then
        return loan[1] - now_ms, capacity - used
      end
    end
    return rest_ms + window_ms, capacity
  end

  function rule.judge(k, cost, capacity, _, first)
    local counter, beside = pick(k, first)
    local stored = redis.call('GET', counter)
    local count = tonumber(stored) or 0
    local before = redis.call('HMGET', beside, 'v', 't', 'p', 'n')
    -- Most keys have lent nothing: no tables are made for that.
    local loans, sum = NONE, 0
    if before[3] then loans, sum = lent(before[3]) end
    local used_ahead, loans_ahead = 0, NONE
    if before[4] then used_ahead, loans_ahead = ahead(k, first) end
    local answer = reply(capacity, count + sum, used_ahead)
    if count + sum + cost > capacity then
      answer[1], answer[5], answer[6] = REFUSED, NEVER, NEVER
      if cost <= capacity then
        answer[5], answer[6] = wait(loans, count + sum, cost, capacity, used_ahead, loans_ahead)
      end
      return nil, answer, before[2]
    end
    return { stored = stored, count = count, lent = sum, given = tonumber(before[1]) or 0, has_terms = before[2],
      used_ahead = used_ahead }, answer
  end

  function rule.check(_, state)
    if state.stored and not is_whole(state.stored) then error('the counter is not an integer', 0) end
  end

  function rule.charge(k, state, cost, capacity, _, remember, first)
    local counter, beside = pick(k, first)
    add(counter, cost)
    if #counter == rule.noted_bytes then
      note_use(rule.hours, now_ms, slack_ms, state.count + state.lent + cost)
    end
    if remember then
      note(beside, 't', int(capacity))
    elseif state.has_terms then
      redis.call('HDEL', beside, 't')
    end
    local answer = reply(capacity, state.count + state.lent + cost, state.used_ahead)
    answer[5], answer[6] = window, state.count + state.given
    return answer
  end

  function rule.take(k, cost, capacity, _, remember, first)
    local state, answer, has_terms = rule.judge(k, cost, capacity, _, first)
    if state then return rule.charge(k, state, cost, capacity, _, remember, first) end
    if has_terms and not remember then
      -- A plain take: peeks go by the limit's own capacity again.
      local _, beside = pick(k, first)
      redis.call('HDEL', beside, 't')
    end
    return answer
  end

  function rule.terms_of(rate)
    return math.max(permits(rate, window_ms / 1000, 1, 1) - buffer, 1), 0
  end

  function rule.remembered(k, first)
    local counter, beside = pick(k, first)
    local capacity = tonumber(redis.call('HGET', beside, 't'))
    if capacity then return capacity, 0 end
  end

  function rule.refund(k, number, offset, cost, max_refunds, first)
    if number ~= window then return 0 end
    local counter, beside = pick(k, first)
    local count = tonumber(redis.call('GET', counter)) or 0
    local before = redis.call('HMGET', beside, 'v', 'r')
    local given, packed = tonumber(before[1]) or 0, before[2] or ''
    if cost > count or offset + cost > count + given or #packed >= max_refunds * 16 then return 0 end
    for at = 1, #packed, 16 do
      local o, c = struct.unpack(PAIR, packed, at)
      if offset < o + c and o < offset + cost then return 0 end
    end
    redis.call('DECRBY', counter, int(cost))
    note(beside, 'v', int(given + cost), 'r', packed .. struct.pack(PAIR, offset, cost))
    return cost
  end

  -- Forgets what was charged to one window; what stays is that all of it was given
  -- back, so that receipts from before are void.
  local function reset(counter, beside)
    local count = tonumber(redis.call('GET', counter)) or 0
    local ever = count + (tonumber(redis.call('HGET', beside, 'v')) or 0)
    -- Whatever it is that is no count.
    redis.call('DEL', counter)
    if ever == 0 then return redis.call('HDEL', beside, 't', 'p') end
    redis.call('HDEL', beside, 't', 'p')
    note(beside, 'v', int(ever), 'r', struct.pack(PAIR, 0, ever))
    return 1
  end

  function rule.reset(k, first)
    -- In the next window there are only reservations, and they go too.
    reset(pick(k, first, 1))
    return reset(pick(k, first))
  end

  -- For reservations and leases: adds to the store's window, or one after it; with
  -- `until_ms` only until then. False if too much is lent already.
  function rule.add(k, cost, first, later, until_ms)
    local counter, beside = pick(k, first, later)
    if later == 1 then
      local _, before = pick(k, first)
      note(before, 'n', '1')
    end
    if not until_ms then
      add(counter, cost, later)
    else
      local loans = lent(redis.call('HGET', beside, 'p'))
      if #loans >= MAX_LOANS then return false end
      loans[#loans + 1] = { until_ms, cost }
      note(beside, 'p', pack(loans))
    end
    if later ~= 1 then rule.note_standing(k, first) end
    return true
  end

  -- Notes what counts, after something was held or spent.
  function rule.note_standing(k, first)
    if #pick(k, first) == rule.noted_bytes then note_use(rule.hours, now_ms, slack_ms, rule.used(k, first)) end
  end

  -- Takes out again what was added to a window, if it can still be reached.
  function rule.remove(k, number, cost, first, until_ms)
    local counter, beside = pick(k, first, number - window)
    if not counter then return 0 end
    if until_ms then
      local loans = lent(redis.call('HGET', beside, 'p'))
      for i, loan in ipairs(loans) do
        if loan[1] == until_ms and loan[2] == cost then
          table.remove(loans, i)
          note(beside, 'p', pack(loans))
          return cost
        end
      end
      return 0
    end
    local stored = redis.call('GET', counter)
    local count = tonumber(stored) or 0
    -- A text that is no number of ours holds nothing.
    if count < cost or not is_whole(stored) then return 0 end
    redis.call('DECRBY', counter, int(cost))
    -- As if refunded: no two charges shall have the same receipt.
    note(beside, 'v', int((tonumber(redis.call('HGET', beside, 'v')) or 0) + cost))
    return cost
  end

  -- Where a charge is, by what its receipt says.
  function rule.place(number)
    return number
  end

  -- Takes a charge out of its window again, be it that of this moment or one beside it.
  function rule.give_back(k, number, cost, first)
    if math.abs(number - window) <= 1 then rule.remove(k, number, cost, first) end
  end

  -- Charges what a lease still holds again, if it is of this window.
  function rule.hold_anew(k, number, cost, first)
    if number == window then rule.add(k, cost, first) end
  end

  -- What was lost counted in that window, and in no later one.
  function rule.lost_until(lost_ms)
    return (math.floor(lost_ms / window_ms) + 1) * window_ms
  end

  -- Whether a window can be reached, or is over anyway.
  function rule.reaches(k, number, first)
    return math.abs(number - window) > 1 or pick(k, first, number - window)
  end

  -- What is used of a window, and what is lent of it.
  function rule.used(k, first, later)
    local counter, beside = pick(k, first, later)
    local _, sum = lent(redis.call('HGET', beside, 'p'))
    return (tonumber(redis.call('GET', counter)) or 0) + sum
  end

  return rule
end
