-- lease: sets permits aside for a node, which spends them without asking; and
-- hears what became of those it had.
--
-- Permits that may be spent until t + L count as if spent then. Those that a node
-- reports as spent count as of the report, which can only be later than the fact;
-- those it returns are free. Reports are cumulative: sent twice, they change
-- nothing more.
--
-- KEYS  of an item after the limit's: a hash of live leases by id, each five
--       doubles: where its permits are (a bucket or a window), granted, spent,
--       returned, when it ends (ms)
-- Own   extra, id of the new lease, how many permits it shall have (0: none), for
--       how many ms; twice: id of an older one, spent and returned so far
-- Answers, beside those of the rules
--       GRANTED, granted, for how many ms, capacity, what is free now, ms until then
--       all of it is, ms until some is free if nothing was granted
local rule = rule_at(algorithm, 4)
local LEASE, MAX_LEASES = '<ddddd', 256
local is_calendar = rule.window ~= nil

-- The live leases of a key; those that are over are dropped.
local function leases(key)
  local live, count, stored = {}, 0, redis.call('HGETALL', key)
  for i = 1, #stored, 2 do
    local at, granted, spent, returned, ends = struct.unpack(LEASE, stored[i + 1])
    -- A little longer, for what is returned at the end.
    if ends + slack_ms <= now_ms then
      redis.call('HDEL', key, stored[i])
    else
      live[stored[i]] = { at = at, granted = granted, spent = spent, returned = returned, ends = ends }
      if ends > now_ms then count = count + 1 end
    end
  end
  return live, count
end

local function save(key, id, lease)
  if lease.spent + lease.returned >= lease.granted then
    redis.call('HDEL', key, id)
    return
  end
  redis.call('HSET', key, id, struct.pack(LEASE, lease.at, lease.granted, lease.spent, lease.returned, lease.ends))
  local ttl_ms = lease.ends - now_ms + 2 * slack_ms
  if redis.call('PTTL', key) < ttl_ms then redis.call('PEXPIRE', key, int(ttl_ms)) end
end

-- What has become of a lease since the last report.
local function report(k, key, extra, id, lease, spent, returned)
  local left = lease.granted - lease.spent - lease.returned
  local newly_spent = math.max(math.min(spent - lease.spent, left), 0)
  local newly_returned = math.max(math.min(returned - lease.returned, left - newly_spent), 0)
  if newly_spent + newly_returned == 0 then return end
  if is_calendar then
    if newly_returned > 0 then rule.remove(k, lease.at, newly_returned, extra) end
  elseif now_ms < lease.ends then
    rule.settle(k, lease.at, newly_spent + newly_returned, newly_spent)
  elseif newly_returned > 0 then
    -- What was spent counts as of the end, which is earlier than now.
    rule.settle(k, lease.at, newly_returned, 0)
  end
  lease.spent, lease.returned = lease.spent + newly_spent, lease.returned + newly_returned
  save(key, id, lease)
end

return each(function(k, at)
  local extra, id = tonumber(ARGV[at + 1]), ARGV[at + 2]
  local wanted, lasting_ms = tonumber(ARGV[at + 3]), tonumber(ARGV[at + 4])
  local key = KEYS[k + rule.stride]
  local other = otherwise(rule, k, extra)
  if other then return other end

  local live, count = leases(key)
  for i = at + 5, at + 8, 3 do
    local lease = live[ARGV[i]]
    if lease then report(k, key, extra, ARGV[i], lease, tonumber(ARGV[i + 1]), tonumber(ARGV[i + 2])) end
  end

  local a, b = terms(rule, k)
  local state, answer = rule.judge(k, 1, a, b, extra)
  local free, reset_after = answer[3], answer[4]
  if not state then return { GRANTED, 0, 0, a, free, reset_after, math.max(answer[5], 1) } end
  if wanted == 0 or count >= MAX_LEASES or live[id] then return { GRANTED, 0, 0, a, free, reset_after, 0 } end

  local granted, place = math.min(wanted, free), nil
  if is_calendar then
    lasting_ms = math.min(lasting_ms, rule.rest_ms)
    rule.add(k, granted, extra)
    place = rule.window
  else
    place = rule.charge_until(k, state, granted, state.instant + lasting_ms + 1 + rule.window_ms)
  end
  save(key, id, { at = place, granted = granted, spent = 0, returned = 0, ends = now_ms + lasting_ms })
  return { GRANTED, granted, lasting_ms, a, free - granted, reset_after, 0 }
end, rule.stride + 1, 10)
