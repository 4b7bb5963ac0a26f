-- What a key remembers by ids of its callers: reservations and charges.
--
-- `ids` is a hash of records by id, `index` a time index of the ids by when they are forgotten. A record is
-- seven doubles: cost, state, deadline_ms, forget_ms, where it is held (a bucket, or the first window), 1 if it
-- is held in the next window too, gives_back. A charge has no deadline: in its place is which limits were
-- charged together, as a number. A charge whose cost is 0 was released before it came: it is void.
local RECORD, LOOKED_AT = '<ddddddd', 16

local function load(ids, id)
  local stored = redis.call('HGET', ids, id)
  if not stored then return end
  local cost, state, deadline, forget, at, spans, gives_back = struct.unpack(RECORD, stored)
  if forget <= now_ms then return end
  return { cost = cost, state = state, deadline = deadline, forget = forget, at = at, spans = spans,
    gives_back = gives_back }
end

-- Writes a record; whoever does gives both keys their end, in the same script.
local function put(ids, index, id, r)
  redis.call('HSET', ids, id, struct.pack(RECORD, r.cost, r.state, r.deadline, r.forget, r.at, r.spans, r.gives_back))
  redis.call('ZADD', index, int(r.forget), id)
end

-- Lets both keys live until a record is forgotten.
local function renew(ids, index, forget_ms)
  local ttl_ms = forget_ms - now_ms + slack_ms
  for _, key in ipairs({ ids, index }) do
    if redis.call('PTTL', key) < ttl_ms then redis.call('PEXPIRE', key, int(ttl_ms)) end
  end
end

local function save(ids, index, id, r)
  put(ids, index, id, r)
  renew(ids, index, r.forget)
end

local function drop(ids, index, gone)
  if #gone == 0 then return end
  redis.call('HDEL', ids, unpack(gone))
  redis.call('ZREM', index, unpack(gone))
end

-- The state as it stands now.
local function state_of(r)
  return (r.state == PENDING and r.deadline <= now_ms) and LAPSED or r.state
end

-- The first that is forgotten and not pending any more, if there is one among the first few: mostly the first.
local function first_over(ids, index)
  for at = 0, 1 do
    for _, id in ipairs(redis.call('ZRANGE', index, at, at * (LOOKED_AT - 1))) do
      local r = load(ids, id)
      if not r or state_of(r) ~= PENDING then return id end
    end
  end
end
