-- A session: read, taken over from an older program, settled, held, left, erased. Behind space.lua.

-- A time as the sets and fields that others read have it.
local function seconds(at_ms)
  return math.max(1, math.floor(at_ms / 1000))
end

local ID

local function is_id(text)
  if #text ~= 36 then return false end
  if not ID then
    local hex = string.rep('[0-9a-f]', 4)
    ID = '^' .. hex .. hex .. string.rep('%-' .. hex, 4) .. hex .. hex .. '$'
  end
  return string.find(text, ID)
end

-- How long the keys of a session live when they are renewed, now and then: for
-- `retention_ms` after the last sign of life, and up to an hour longer.
local life_ms = retention_ms + RENEWED_MS + slack_ms + behind_ms

-- Whether its broadcaster has this session and no newer one. A key that is no string is
-- none of ours, and must not keep a session from its end.
local function is_mapped(s)
  return redis.pcall('GET', BROADCASTER .. s.broadcaster) == s.id
end

-- Writes a session down, with other fields. What is done to the sets is done before: if one
-- of them is of another type, nothing is.
local function save(s, ...)
  local is_renewed = clock_ms - s.renewed >= RENEWED_MS or s.renewed > clock_ms
  if is_renewed then s.renewed = clock_ms end
  local is_left = s.disconnected > 0
  call('HSET', s.key, 's', struct.pack(PACKED, s.generation, s.seen, is_left and s.disconnected or s.deadline, s.attempts,
    s.claimed < 0 and IS_DEAD or s.claimed, math.floor(s.renewed / 1000), is_left and 1 or 0) .. s.hand, ...)
  if is_renewed then
    call('PEXPIRE', s.key, life_ms)
    if is_mapped(s) then call('PEXPIRE', BROADCASTER .. s.broadcaster, life_ms) end
  end
end

local function is_holder(field)
  return field == 'm' or string.sub(field, 1, 2) == 'h:'
end

-- Not more than a stack holds at a time.
local function drop(s, holders)
  for i = 1, #holders, 1000 do call('HDEL', s.key, unpack(holders, i, math.min(i + 999, #holders))) end
end

-- Ends the leases of all holders; whether unknown ones of an older program were among
-- them.
local function drop_holders(s)
  local holders, is_migrated = {}, false
  for _, field in ipairs(call('HKEYS', s.key)) do
    if is_holder(field) then holders[#holders + 1] = field end
    is_migrated = is_migrated or field == 'm'
  end
  drop(s, holders)
  return is_migrated
end

-- The end of the last lease, 0 if all have ended; how many holders there are; those whose
-- leases have ended, and how many of them have names.
local function leases(s)
  local fields, last, count, over, named_over = call('HGETALL', s.key), 0, 0, {}, 0
  for i = 1, #fields, 2 do
    if is_holder(fields[i]) then
      local until_ms, named = lease_end(fields[i + 1]), #fields[i] > 2 and 1 or 0
      if ends(until_ms) <= now_ms then
        over[#over + 1], named_over = fields[i], named_over + named
      else
        last, count = math.max(last, until_ms), count + named
      end
    end
  end
  return last, count, over, named_over
end

-- Nobody holds it any more, since then.
local function leave(s, at_ms)
  put(DISCONNECTED, at_ms / 1000, s.id)
  call('ZREM', ACTIVE, s.id)
  s.disconnected, s.deadline, s.hand = at_ms, 0, ''
  drop_holders(s)
  -- What an older program has counted would keep it from ever deleting the session.
  if s.is_counted then call('UNLINK', REF_COUNT .. s.id) end
  save(s, 'last_disconnect', seconds(at_ms))
end

-- What a clock that was absurdly ahead has left begins anew, now.
local function reset(s)
  s.seen = math.min(s.seen, now_ms)
  if s.disconnected == 0 then
    local is_migrated = drop_holders(s)
    s.deadline = now_ms + (is_migrated and migration_ms or lease_ms)
    put(ACTIVE, s.deadline, s.id)
    save(s, is_migrated and 'm' or 'h:', s.deadline)
    return
  end
  s.disconnected = math.min(s.disconnected, now_ms)
  if s.claimed > ahead_ms then s.claimed = now_ms + claim_ms end
  if s.claimed == 0 then put(DISCONNECTED, s.disconnected / 1000, s.id) end
  if s.claimed > 0 then put(CLAIMED, s.claimed, s.id) end
  save(s, 'last_disconnect', seconds(s.disconnected))
end

-- When an older program says that a session was left; what is no time is none.
local function left_of(text)
  local left = tonumber(text)
  return left and left >= 0 and left < 1e15 and left or 0
end

-- Whether a hash under the name of a session is one. It has a broadcaster and says when it
-- was left; what an older program's crash or late write has left of one has either, and no
-- field that is not known. Anything else is somebody else's, and is never written to.
local function is_session(key, broadcaster, left)
  if broadcaster and left then return true end
  if not broadcaster and not left or call('HLEN', key) > SOURCE_FIELDS then return false end
  for _, field in ipairs(call('HKEYS', key)) do
    if not SOURCE[field] then return false end
  end
  return true
end

-- What is packed into `s`; nothing if it cannot be what we have packed.
local function unpacked(packed)
  if #packed < PACKED_BYTES then return end
  local generation, seen, at_ms, attempts, claimed, renewed_s, is_left = struct.unpack(PACKED, packed)
  if is_left > 1 or at_ms == 0 or is_left == 0 and claimed ~= 0 then return end
  return generation, seen, at_ms, attempts, claimed, renewed_s, is_left == 1
end

-- A session as it was last written; or nothing, and whether that is because there is no
-- such key or because it is somebody else's. One that only an older program has written, or
-- changed since, has `last_disconnect` alone to go by: `is_foreign`. One whose `s` somebody
-- has overwritten, all else being there, is an error; or, if the caller `accepts_unreadable`, read as if there
-- were no `s`: `is_unreadable`.
local function read(id, key, accepts_unreadable)
  key = key or SESSION .. id
  local fields = redis.pcall('HMGET', key, 's', 'broadcaster_user_id', 'last_disconnect')
  if fields.err then
    if is_wrong_type(fields.err) then return nil, FOREIGN end
    error(fields, 0)
  end
  if not is_session(key, fields[2], fields[3]) then return nil, call('EXISTS', key) == 1 and FOREIGN or GONE end
  -- Whole from the beginning: a table that grows is made anew.
  local s = { id = id, key = key, broadcaster = fields[2] or '', left = left_of(fields[3]), hand = '',
    is_whole = fields[2] and true, generation = 0, seen = 0, deadline = 0, disconnected = 0, attempts = 0, claimed = 0,
    renewed = -RENEWED_MS, is_foreign = true, is_counted = false }
  if fields[1] then
    local generation, seen, at_ms, attempts, claimed, renewed_s, is_left = unpacked(fields[1])
    if generation then
      s.generation, s.seen, s.attempts, s.claimed = generation, seen, attempts, claimed == IS_DEAD and -1 or claimed
      s.deadline, s.disconnected = is_left and 0 or at_ms, is_left and at_ms or 0
      s.renewed, s.hand = renewed_s * 1000, string.sub(fields[1], PACKED_BYTES + 1)
      s.is_foreign = s.left ~= (is_left and seconds(s.disconnected) or 0)
      return s
    end
    local others = call('HMGET', key, 'value', 'config_json', 'last_update')
    if not (others[1] and others[2] and others[3]) then return nil, FOREIGN end
    if not accepts_unreadable then error(corrupt(key, 'has a field "s" that cannot be read'), 0) end
    s.is_unreadable = true
  end
  -- No life that it may have had was as late as this.
  s.generation = s.is_unreadable and seconds(now_ms) or 0
  return s
end

-- When an older program says that a session was left: it wrote seconds here, and
-- milliseconds there.
local function left_ms(s)
  return math.floor(s.left < 100000000000 and s.left * 1000 or s.left)
end

-- What an older program has counted, as it is written; false if there is no such count.
local function counted(id)
  local count = redis.pcall('GET', REF_COUNT .. id)
  return type(count) == 'string' and string.match(count, '^%-?%d+$')
end

-- The hand that an older program has on a session: how many holders it has counted, and
-- when it says that it was last written to; empty if it has counted nobody. We never
-- count there, so one above zero is not ours.
local function hand(s)
  local count = counted(s.id)
  s.is_counted = count and true
  if not count or tonumber(count) <= 0 then return '' end
  return count .. ' ' .. string.sub(call('HGET', s.key, 'last_update') or '', 1, 40)
end

-- What there is to be taken over from an older program, if anything: when it has left the
-- session (0: it holds it), and its hand. A hand that has changed since we last looked
-- holds the session; one that has not, for `migration_ms`, is what a crash has left. One that is
-- being reaped is taken over all the same: the side effects of its claim are those of the life before.
local function to_take_over(s)
  -- Somebody holds it here, whatever was done there.
  if s.disconnected == 0 and ends(s.deadline) > now_ms then return end
  local seen = hand(s)
  if seen ~= '' and seen ~= s.hand then return 0, seen end
  if not s.is_foreign then return end
  return seen == '' and left_ms(s) or 0, seen
end

-- Takes a session over, in a new generation. Who holds it cannot be known: they have
-- `migration_ms` to come back.
local function take_over(s, left, seen)
  local home, score = ACTIVE, now_ms + migration_ms
  left = math.min(left, now_ms)
  if left > 0 then home, score = DISCONNECTED, left / 1000 end
  put(home, score, s.id)
  for _, set in ipairs(SETS) do
    if set ~= home then call('ZREM', set, s.id) end
  end
  drop_holders(s)
  if not s.is_whole then call('HSET', s.key, 'broadcaster_user_id', '') end
  s.generation, s.renewed, s.hand = s.generation + 1, -RENEWED_MS, seen
  s.attempts, s.claimed, s.is_foreign = 0, 0, false
  if left == 0 then
    s.seen, s.deadline, s.disconnected = now_ms, score, 0
    save(s, 'm', s.deadline, 'last_disconnect', 0)
  else
    s.seen, s.deadline, s.disconnected = left, 0, left
    save(s, 'last_disconnect', seconds(left))
  end
  if s.is_counted then call('PEXPIRE', REF_COUNT .. s.id, life_ms) end
end

-- The fields of a session that is written to by us. What is known of an older program's
-- hand changes with them; what is not known yet holds the session.
local function written(s)
  local at_s = seconds(now_ms)
  if s.hand ~= '' then
    local seen = hand(s)
    if seen ~= '' and seen ~= s.hand and s.disconnected == 0 then
      s.deadline = math.max(s.deadline, now_ms + migration_ms)
      put(ACTIVE, s.deadline, s.id)
      call('HSET', s.key, 'm', now_ms + migration_ms)
    end
    s.hand = seen ~= '' and string.match(seen, '^%d+ ') .. int(at_s) or ''
  end
  return 'last_update', at_s
end

-- A session as it is now; and whether its holders have just been found silent: it was
-- left when the last lease ended.
local function settle(s)
  local left, seen = to_take_over(s)
  if left then
    take_over(s, left, seen)
  elseif s.is_foreign then
    s.is_foreign = false
    save(s, 'last_disconnect', s.disconnected > 0 and seconds(s.disconnected) or 0)
  end
  if math.max(s.seen, s.deadline, s.disconnected, s.claimed) > ahead_ms then reset(s) end
  local is_silent = s.disconnected == 0 and ends(s.deadline) <= now_ms
  if is_silent then leave(s, ends(s.deadline)) end
  return s, is_silent
end

-- The same of a session by its id; or why there is none.
local function load(id, key)
  local s, why = read(id, key)
  if s then return settle(s) end
  return nil, why
end

-- Whether it was left too long ago to be resumed. One that was left at the end of a hold
-- counts as seen when that began.
local function is_expired(s)
  return s.disconnected > 0 and math.max(s.seen, math.min(s.disconnected, hold_ms) - lease_ms) + ttl_ms <= now_ms
end

-- One that can still be held, or why it cannot.
local function living(id, key, generation)
  local s, why = load(id, key)
  if not s then return nil, why end
  if s.claimed == 0 and is_expired(s) then return nil, GONE end
  if s.claimed ~= 0 then return nil, REAPING end
  if generation ~= '' and tonumber(generation) ~= s.generation then return nil, STALE end
  return s
end

-- Gives a holder its lease; `h:` alone is that of whoever is about to connect, and ends
-- when somebody does.
local function hold(s, holder, ...)
  local field = 'h:' .. holder
  local held = call('HMGET', s.key, field, 'h:')
  local until_ms, expected = math.max(now_ms + lease_ms, lease_end(held[1])), held[2] and lease_end(held[2])
  local was_left = s.disconnected > 0
  if was_left then
    s.generation, s.disconnected = s.generation + 1, 0
  elseif expected and holder ~= '' then
    call('HDEL', s.key, 'h:')
    if expected > until_ms and expected >= s.deadline then s.deadline = leases(s) end
  end
  s.seen, s.deadline = now_ms, math.max(s.deadline, until_ms)
  put(ACTIVE, s.deadline, s.id)
  if was_left then call('ZREM', DISCONNECTED, s.id) end
  save(s, field, until_ms, 'last_disconnect', 0, ...)
  return { s.generation, until_ms }
end

-- Whether a new holder would be one too many. The number of fields is never below that
-- of holders, so few have to be counted. Leases that have ended are forgotten where there is
-- no room for them, and nowhere else: if the clock is put back, those that are written down
-- count again, and in every kind of store that must be the same ones, and never too many.
local function is_crowded(s, holder)
  if call('HLEN', s.key) < max_holders then return false end
  if ends(lease_end(call('HGET', s.key, 'h:' .. holder))) > now_ms then return false end
  local _, count, over, named_over = leases(s)
  if count + named_over < max_holders then return false end
  drop(s, over)
  return count >= max_holders
end

-- Takes an id out of all sets.
local function unindex(id)
  for _, set in ipairs(SETS) do call('ZREM', set, id) end
end

-- The end of a session. Its broadcaster may have a newer one by now.
local function erase(s)
  if s.is_unreadable then
    unindex(s.id)
  else
    call('ZREM', s.claimed < 0 and DEAD or s.claimed > 0 and CLAIMED or DISCONNECTED, s.id)
  end
  if is_mapped(s) then call('UNLINK', BROADCASTER .. s.broadcaster) end
  call('UNLINK', s.key)
  if s.is_counted then call('UNLINK', REF_COUNT .. s.id) end
end

-- The session that the key of a broadcaster names. Older programs also wrote ids in upper case
-- there, or nothing: they name none, and give way to one. What is neither is somebody else's:
-- it is not written to.
local function mapped(key)
  local id = redis.pcall('GET', key)
  if not id then return end
  if type(id) == 'table' and not is_wrong_type(id.err) then error(id, 0) end
  if type(id) == 'string' then
    if is_id(id) then return id end
    if id == '' or is_id(string.lower(id)) then return end
  end
  error(corrupt(key, 'is not the id of a session, and not ours'), 0)
end
