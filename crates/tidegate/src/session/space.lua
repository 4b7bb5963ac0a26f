-- What the scripts of sessions share: the keys and numbers of a space, its time, and its holds.
--
-- KEYS  the marker; then of the partition: state, active, disconnected, claimed, dead;
--       then of each item the keys that its script names
--   state         a hash: `now`, the stamp, the latest moment that anything was done at
--                 (ms); `hold`, until when no lease ends (ms); `hold_from`: leases that had
--                 ended by then are over for all that; `hold_past`, the end of the hold
--                 before; `hold_lease`, how long it was to last when it was found; `lost`,
--                 the latest loss of the store that is known here; and how far reconciling is
--   active        a sorted set: sessions by the end of their last holder's lease, ms
--   disconnected  a sorted set: sessions by when they were left, in seconds
--   claimed       a sorted set: sessions being reaped, by the end of their claim, ms
--   dead          a sorted set: sessions that were claimed too often, by when, ms
--   session       a hash: value, broadcaster_user_id, config_json, last_disconnect (in
--                 seconds, 0 while active), last_update (in seconds), `h:<holder>` the
--                 end of each holder's lease (ms), `m` that of the unknown holders of a
--                 session that was migrated, and `s`, packed into 29 bytes, little-endian:
--                 generation (4), the last sign of life (6), the end of the last lease or
--                 when it was left (6), claims so far (2), until when it is claimed (6; 0:
--                 it is not, all bits set: dead), when its keys were last renewed (4, in
--                 seconds), 1 if it was left (1); behind them, if an older program held
--                 it when we last looked, its `hand`
--   broadcaster   a string: the session of a broadcaster
-- A session is in one of the four sets: the one that `s` says. Sessions that a script
-- finds by a set, and the broadcaster of a session, are known only here: their keys are
-- in the same slot, and made of ARGV's families.
--
-- ARGV  now, slack_ms (that keys live longer than their data), grace_ms, lease_ms,
--       ttl_ms, retention_ms, claim_ms, max_attempts, max_holders, max_sessions,
--       migration_ms, then what the keys of sessions, broadcasters and the counters of
--       older programs start with
local SHARED_KEYS = 5
local STATE, ACTIVE, DISCONNECTED, CLAIMED, DEAD = KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6]
local slack_ms, grace_ms, lease_ms, ttl_ms = tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
local retention_ms, claim_ms, max_attempts = tonumber(ARGV[6]), tonumber(ARGV[7]), tonumber(ARGV[8])
local max_holders, max_sessions, migration_ms = tonumber(ARGV[9]), tonumber(ARGV[10]), tonumber(ARGV[11])
local SESSION, BROADCASTER, REF_COUNT = ARGV[12], ARGV[13], ARGV[14]
local SETS = { ACTIVE, DISCONNECTED, CLAIMED, DEAD }
local STAMP_MS = math.min(retention_ms, 600000)
local PACKED, PACKED_BYTES, IS_DEAD, RENEWED_MS = '<I4I6I6I2I6I4B', 29, 281474976710655, 3600000
-- What the older program writes into a session.
local SOURCE = { value = true, broadcaster_user_id = true, config_json = true, last_disconnect = true, last_update = true }
local SOURCE_FIELDS = 5
-- Numbers that go to it are written with 17 digits: whole ones and scores are exact.
local call = redis.call

local function is_wrong_type(text)
  return string.find(text, 'WRONGTYPE', 1, true)
end

-- What a call fails with that meets a key which is not what it should be.
local function corrupt(key, why)
  return 'CORRUPT "' .. key .. '" ' .. why
end

-- A moment as anybody may have written it, in whole ms; what is none is nothing.
local function moment(text)
  local at_ms = tonumber(text)
  return at_ms and at_ms >= 0 and at_ms < 2 ^ 53 and math.floor(at_ms) or nil
end

-- One of the keys that all sessions of the partition share, if it is of another type.
local function is_misused(key)
  local answer = key == STATE and redis.pcall('HMGET', key, 'now') or key ~= STATE and redis.pcall('ZCARD', key)
  return type(answer) == 'table' and answer.err and is_wrong_type(answer.err)
end

local state = redis.pcall('HMGET', STATE, 'now', 'hold', 'hold_from', 'hold_past', 'lost', 'hold_lease')
if state.err then
  if not is_wrong_type(state.err) then return state end
  -- Whoever reconciles goes on, and may put it right.
  if not is_reconciling then return redis.error_reply(corrupt(STATE, 'is no hash')) end
  state = {}
end
local stamp_ms, clock_ms = moment(state[1]), now()
local now_ms, is_absurd = deciding(clock_ms, stamp_ms or 0, STAMP_MS)

-- Holds. Whoever calls leaves a stamp, and every process calls at least every sixth of a
-- lease. If there is none of the last half of a lease, the store or all who use it were
-- away, and nobody could say that they are still there: so they have the length of a lease
-- to do so, in which no lease ends and nothing is reaped. The same after a loss, which may
-- have taken what they said.
local hold_ms = moment(state[2]) or 0
-- Neither is ever written ahead of the time.
local from_ms, past_ms = math.min(moment(state[3]) or 0, now_ms), math.min(moment(state[4]) or 0, now_ms)
local lost, is_lost = state[5] or '0', false
-- Within the same millisecond nothing has ended that had not before.
if clock_ms ~= stamp_ms then
  local latest = call('HGET', KEYS[1], 'lost_ms') or lost
  lost, is_lost = latest, latest ~= lost
end
-- It lasts for the lease of whoever found it: another with a shorter one does not end it.
local hold_lease_ms = math.max(lease_ms, math.min(moment(state[6]) or 0, retention_ms))
local is_written = not is_lost and hold_ms <= now_ms + hold_lease_ms
hold_ms = math.min(hold_ms, now_ms + hold_lease_ms)
local is_unseen = is_lost or is_absurd or not stamp_ms or clock_ms - stamp_ms > lease_ms / 2
local is_held = now_ms < hold_ms

local function begin_hold()
  local seen_ms = math.min(stamp_ms or 0, now_ms)
  -- One that still ran is the same with another end.
  if hold_ms <= seen_ms then past_ms, from_ms = hold_ms, seen_ms end
  hold_ms, past_ms, from_ms = math.max(hold_ms, now_ms + lease_ms), math.min(past_ms, now_ms), math.min(from_ms, now_ms)
  hold_lease_ms, is_written, is_held = hold_ms - now_ms, false, true
end

if is_unseen and (stamp_ms or call('EXISTS', ACTIVE, DISCONNECTED) > 0) then begin_hold() end

-- Stamps, and writes a hold down that was found. This is the first that a call writes: a
-- server whose memory is full refuses it, and would not once something was deleted. It takes
-- no heartbeats then either, so no lease ends meanwhile; and since there is no stamp, there
-- is a hold when it takes them again. `refusal` is what it said, empty if it has stamped.
local is_stamped, refusal = false, ''

local function stamp()
  if is_stamped then return end
  is_stamped = true
  local written
  if not is_written then
    written = redis.pcall('HSET', STATE, 'now', now_ms, 'hold', hold_ms, 'hold_from', from_ms, 'hold_past', past_ms,
      'lost', lost, 'hold_lease', hold_lease_ms)
  elseif now_ms ~= stamp_ms or clock_ms < now_ms then
    written = redis.pcall('HSET', STATE, 'now', now_ms)
  end
  if type(written) == 'table' and written.err then
    refusal = written.err
    begin_hold()
  end
end

-- What runs an operation for each item, after the stamp; where that depends on the item,
-- operations stamp themselves.
local plain_each = each
local function each(operation, ...)
  stamp()
  return plain_each(operation, ...)
end

-- When a lease that was given until then ends.
local function ends(until_ms)
  return math.max(until_ms, until_ms > from_ms and hold_ms or past_ms)
end

-- The other way round: leases that were given until then, or before, have ended at `at_ms`.
local function ended_by(at_ms)
  if at_ms >= hold_ms then return at_ms end
  return at_ms >= past_ms and math.min(at_ms, from_ms) or -1
end

-- What keys live longer for: they end by the clock, what is in them by the stamp.
local behind_ms = now_ms - clock_ms
-- What is dated later was dated by a clock that was absurdly ahead.
local ahead_ms = now_ms + retention_ms

-- The end of a lease as anybody may have written it; what is no time that a lease may end at
-- has ended.
local function lease_end(text)
  local until_ms = moment(text)
  return until_ms and until_ms <= ahead_ms and until_ms or 0
end

-- Sets that were written to: they live longer than what they list.
local touched = {}

local function put(set, score, id)
  call('ZADD', set, score, id)
  touched[set] = true
end

-- The server does not say which key it was that is of another type.
local function name_misused(replies)
  for i, reply in ipairs(replies) do
    if type(reply) == 'string' and is_wrong_type(reply) then
      for _, set in ipairs(SETS) do
        if is_misused(set) then replies[i] = corrupt(set, 'is no sorted set') end
      end
    end
  end
  return replies
end

-- Sees to it that what this call has written has an end.
local function finish(replies)
  local ttl = retention_ms + 2 * RENEWED_MS + 2 * slack_ms + behind_ms
  -- One that came too late says nothing of who is there, but that there was nobody.
  if not is_written then stamp() end
  if is_stamped and (now_ms ~= stamp_ms or not is_written) then redis.pcall('PEXPIRE', STATE, ttl) end
  for set in pairs(touched) do call('PEXPIRE', set, ttl) end
  return name_misused(replies)
end
