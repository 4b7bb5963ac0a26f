-- The fast path of charge_all: charges to a quota by the hours of UTC, all of a batch at once.
--
-- It stands in front of all else that the script is made of, so that nothing of that is made for it. It reads first, and
-- writes only if all is as usual: the hour was charged before, nothing is lent, overridden or held, every charge fits,
-- and no id is known. Otherwise nothing has happened, and the rest of the script goes through them one by one, with the
-- same outcome. ARGV and KEYS are those of charge_all.lua, for one calendar limit.
local has_written = false

-- Which ids go to make room for `added` more: mostly the first of the index, and nothing else is tried here. None if
-- one of them may not.
local function first_to_go(ids, index, added, is_fresh, forget_ms, now_ms)
  local due = index_due(index, now_ms, 16)
  local count, max = redis.call('ZCARD', index) - #due, tonumber(ARGV[19])
  -- Who remembers too many forgets one for each that comes.
  local leaving = math.min(added, count + added - max)
  if leaving <= 0 then return due end
  local last = #due + leaving - 1
  local gone = redis.call('ZRANGE', index, #due, last)
  -- What comes now is forgotten later than all of these.
  if #gone < leaving or tonumber(redis.call('ZRANGE', index, last, last, 'WITHSCORES')[2]) >= forget_ms then return end
  for _, id in ipairs(gone) do
    if is_fresh[id] then return end
  end
  for _, record in ipairs(redis.call('HMGET', ids, unpack(gone))) do
    if record then
      local _, state = struct.unpack('<dd', record)
      if state == PENDING then return end
    end
  end
  for _, id in ipairs(due) do gone[#gone + 1] = id end
  return gone
end

local function charge_at_once()
  if ARGV[16] ~= '1' or ARGV[4] ~= '0' or ARGV[5] ~= '1' or ARGV[6] ~= 'calendar' then return end
  local call, now_ms = redis.call, now()
  local window_ms, capacity = tonumber(ARGV[12]), tonumber(ARGV[10])
  local window = math.floor(now_ms / window_ms)
  local counter_at = 2 + 2 * (window - tonumber(ARGV[18]))
  if counter_at < 2 or counter_at > 6 then return end
  local counter, beside, ids, index, hours = KEYS[counter_at], KEYS[counter_at + 1], KEYS[8], KEYS[9], KEYS[10]

  local marker = call('HMGET', KEYS[1], 'lost_ms', 'o:' .. ARGV[9])
  if (tonumber(marker[2]) or 0) > now_ms or (ARGV[8] ~= 'no' and marker[1] ~= '0') then return end
  local stored = call('GET', counter)
  local before = tonumber(stored or 0)
  -- A counter that has no end yet, and what INCRBY would refuse.
  if not before or not (before > 0) or int(before) ~= stored then return end
  local terms = call('HMGET', beside, 't', 'p', 'n')
  if terms[1] or terms[2] or terms[3] then return end
  local hour = int(math.floor(now_ms / 3600000))
  local began, most = string.match(call('HGET', hours, hour) or '', '^(%d+) (%d+)$')
  if not began then return end

  local count, rest_ms = before, (window + 1) * window_ms - now_ms
  local forget_ms, together = now_ms + tonumber(ARGV[15]), tonumber(ARGV[17])
  local replies, fresh, is_fresh, records, dues = {}, {}, {}, {}, {}
  local forget = int(forget_ms)
  for at = 20, #ARGV, 2 do
    local id, cost = ARGV[at], tonumber(ARGV[at + 1])
    count = count + cost
    if count > capacity then return end
    replies[#replies + 1] = { ALL_CHARGED, { ADMITTED, capacity, capacity - count, rest_ms } }
    if id ~= '' then
      if is_fresh[id] then return end
      local n = #fresh + 1
      is_fresh[id], fresh[n] = true, id
      records[n * 2 - 1], records[n * 2] = id, struct.pack('<ddddddd', cost, CHARGED, together, forget_ms, window, 0, 0)
      dues[n * 2 - 1], dues[n * 2] = forget, id
    end
  end
  local gone
  if #fresh > 0 then
    for _, record in ipairs(call('HMGET', ids, unpack(fresh))) do
      if record then return end
    end
    gone = first_to_go(ids, index, #fresh, is_fresh, forget_ms, now_ms)
    if not gone then return end
  end

  -- First what a server without memory refuses.
  call('INCRBY', counter, int(count - before))
  has_written = true
  if count > tonumber(most) then call('HSET', hours, hour, began .. ' ' .. int(count)) end
  if gone then
    if #gone > 0 then
      call('HDEL', ids, unpack(gone))
      call('ZREM', index, unpack(gone))
    end
    call('HSET', ids, unpack(records))
    call('ZADD', index, unpack(dues))
    local ttl_ms = forget_ms - now_ms + tonumber(ARGV[2])
    for _, key in ipairs({ ids, index }) do
      if call('PTTL', key) < ttl_ms then call('PEXPIRE', key, int(ttl_ms)) end
    end
  end
  return replies
end

do
  local is_done, replies = pcall(charge_at_once)
  if has_written and not is_done then error(replies) end
  if is_done and replies then return replies end
end
