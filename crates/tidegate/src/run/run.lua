-- What the scripts of runs share: the keys and numbers of a space, a run as it is now, what is done when it changes.
--
-- KEYS  the marker; then of the partition: runs by their end, and per state by when they were started; then of each item
--       the run
--   runs_due       a sorted set: runs by when they end, ms; it may say so too early, never too late
--   runs:<state>   sorted sets: the runs in a state by when they were started, ms
--   pipeline:<run> a hash: dag_run_id, status (`deleted`: only its attempt is remembered), attempt, start_time, total, and
--                  in ms started_ms, attempt_started_ms, updated_ms (the latest moment that anything was done at),
--                  finished_ms, ends_ms, latest_end_ms (it ends no later, whatever is done), renewed_ms (when all of it
--                  was last given its TTL); processed_before, what was processed before this attempt
--   fields:<run>   a hash: what the user has written down
--   processed:<run> a set: items
--   failures:<run> a hash: of each item how often it failed, when first and last (ms), the length of the last call's id and
--                  a colon, that id, the last reason
--   failed_at:<run>, to_retry:<run>  sorted sets: items by when they failed last, ms; those that were not processed since
--   tasks:<run>    a hash: of each task the attempt, when it was started and finished (ms, 0: it was not)
--   task_start:<run, escaped>:<task>  a string: when it was started, for people
--   failed:<hour>  a sorted set: length of the run's id, a colon, that id, item; by when it failed last, ms. What has
--                  ended or failed again since may still be there.
-- All keys of a run are in one slot, and made of ARGV's root.
--
-- ARGV  now, slack_ms (that keys live longer than their data), ttl_ms, absurd_ms, max_runs, max_fields, max_processed,
--       max_failures, max_tasks, what all keys start with
local SHARED_KEYS, SHARED_ARGS = 7, 9
local DUE = KEYS[2]
local STATES = { 'running', 'processing', 'paused', 'succeeded', 'failed', 'cancelled' }
local IS_TERMINAL = { succeeded = true, failed = true, cancelled = true }
local STARTED = {}
for i, state in ipairs(STATES) do STARTED[state] = KEYS[2 + i] end
local slack_ms, ttl_ms, absurd_ms = tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local max_runs, max_fields, max_processed = tonumber(ARGV[5]), tonumber(ARGV[6]), tonumber(ARGV[7])
local max_failures, max_tasks, ROOT = tonumber(ARGV[8]), tonumber(ARGV[9]), ARGV[10]
local PARTS = { 'pipeline', 'fields', 'processed', 'failures', 'failed_at', 'to_retry', 'tasks' }
-- TTLs are renewed when so much of a life has passed.
local RENEW_MS, HOUR_MS, MAX_HOUR = math.ceil(ttl_ms / 100), 3600000, 100000
local clock_ms, call = now(), redis.call

local function part(family, id)
  return ROOT .. family .. ':' .. id
end

local function escape(text)
  return (string.gsub(text, '[:{}%%]', function(c) return string.format('%%%02X', string.byte(c)) end))
end

local function task_start(id, task)
  return ROOT .. 'task_start:' .. escape(id) .. ':' .. task
end

-- What a call fails with that meets a key which is not what it should be.
local function corrupt(key, why)
  error('CORRUPT "' .. key .. '" ' .. why, 0)
end

-- A whole number as anybody may have written it; what is none is nothing.
local function whole(text)
  local number = tonumber(text)
  return number and number >= 0 and number < 2 ^ 53 and math.floor(number) == number and number or nil
end

-- The year, month, day and hour of a moment in UTC. Years that begin in March end with the leap day.
local function date(at_ms)
  local floor = math.floor
  local days = floor(at_ms / 86400000) + 719468
  local cycle, day = floor(days / 146097), days % 146097
  local year = floor((day - floor(day / 1460) + floor(day / 36524) - floor(day / 146096)) / 365)
  day = day - (365 * year + floor(year / 4) - floor(year / 100))
  local month = floor((5 * day + 2) / 153)
  day = day - floor((153 * month + 2) / 5) + 1
  year = cycle * 400 + year
  if month < 10 then month = month + 3 else month, year = month - 9, year + 1 end
  return year, month, day, floor(at_ms / HOUR_MS) % 24
end

local function hour(at_ms)
  return string.format('%04d-%02d-%02d_%02d', date(at_ms))
end

local function iso(at_ms)
  local year, month, day, hours = date(at_ms)
  local ms = at_ms % HOUR_MS
  return string.format('%04d-%02d-%02dT%02d:%02d:%02d.%03d000', year, month, day, hours, math.floor(ms / 60000),
    math.floor(ms / 1000) % 60, ms % 1000)
end

-- A run, if there is one: as it is now, over or not. One that was changed absurdly far ahead of the clock, by a clock that
-- was wrong, is as if it were changed now.
local function read(id)
  local key = part('pipeline', id)
  local h = call('HMGET', key, 'status', 'attempt', 'updated_ms', 'ends_ms', 'latest_end_ms', 'renewed_ms', 'started_ms',
    'attempt_started_ms', 'finished_ms', 'total', 'processed_before')
  if not h[1] and call('EXISTS', key) == 0 then return nil end
  local run = { id = id, key = key, status = h[1], attempt = whole(h[2]), updated = whole(h[3]), ends = whole(h[4]),
    latest = whole(h[5]), renewed = whole(h[6]), started = whole(h[7]), attempt_started = whole(h[8]),
    finished = whole(h[9]), total = whole(h[10]), before = whole(h[11]) }
  if not (STARTED[run.status] or run.status == 'deleted') or not (run.attempt and run.updated and run.ends and run.renewed
    and run.started and run.attempt_started and run.before) then
    corrupt(key, 'is no run')
  end
  run.now, run.is_absurd = deciding(clock_ms, run.updated, absurd_ms)
  if run.is_absurd then run.updated, run.ends, run.latest = run.now, run.now + ttl_ms, nil end
  run.is_over = run.ends <= run.now
  return run
end

-- Why a run cannot be asked about, or is not in the attempt that is meant (empty: any).
local function refused(run, attempt)
  if not run or run.is_over or run.status == 'deleted' then return { UNKNOWN } end
  if attempt and attempt ~= '' and attempt ~= int(run.attempt) then return { STALE, run.attempt } end
end

-- Why it cannot be changed.
local function unchangeable(run, attempt)
  local why = refused(run, attempt)
  if why then return why end
  if IS_TERMINAL[run.status] then return { ENDED, run.status, run.attempt } end
end

-- How long its keys live: longer than it, until they are next renewed. A call gives it to a key that it has made before it
-- touches the run: that may fail, if an index is of another type.
local function life(run)
  return run.ends - clock_ms + RENEW_MS + slack_ms
end

local function expire(run, key)
  call('PEXPIRE', key, int(life(run)))
end

local function tasks_of(id)
  local tasks = redis.pcall('HKEYS', part('tasks', id))
  return tasks.err and {} or tasks
end

-- Lists a run where it belongs, and gives all of it its TTL.
local function renew(run)
  if STARTED[run.status] then index_put(STARTED[run.status], run.started, run.id, life(run)) end
  index_put(DUE, run.ends, run.id, life(run))
  for _, family in ipairs(PARTS) do expire(run, part(family, run.id)) end
  for _, task in ipairs(tasks_of(run.id)) do expire(run, task_start(run.id, task)) end
end

-- Moves a run to another state; what it is says the hash, which is written after.
local function move(run, state)
  if state == run.status then return end
  index_put(STARTED[state], run.started, run.id, life(run))
  call('ZREM', STARTED[run.status], run.id)
  run.status = state
end

-- A run was changed, with these fields: it lives from now on again.
local function touch(run, ...)
  run.ends = math.max(run.ends, run.now + ttl_ms)
  if run.latest then run.ends = math.min(run.ends, run.latest) end
  local is_renewed = run.is_absurd or clock_ms - run.renewed >= RENEW_MS or run.renewed > clock_ms
  if is_renewed then
    call('HSET', run.key, 'updated_ms', int(run.now), 'ends_ms', int(run.ends), 'renewed_ms', int(clock_ms), 'latest_end_ms',
      run.latest and int(run.latest) or '', ...)
    renew(run)
  else
    call('HSET', run.key, 'updated_ms', int(run.now), 'ends_ms', int(run.ends), ...)
  end
end

-- Takes all of a run away, whatever it is, but for the index by end.
local function erase(id)
  -- What all runs share first: if that cannot be written, nothing is.
  for _, state in ipairs(STATES) do call('ZREM', STARTED[state], id) end
  local keys = {}
  for _, family in ipairs(PARTS) do keys[#keys + 1] = part(family, id) end
  for _, task in ipairs(tasks_of(id)) do keys[#keys + 1] = task_start(id, task) end
  for i = 1, #keys, 1000 do call('UNLINK', unpack(keys, i, math.min(i + 999, #keys))) end
  return #keys
end

-- Takes runs away that were over at a moment: looks at up to `limit`, and erases no more than some thousand keys. Those that
-- were updated since are put back, after the others: a server whose memory is full takes only what is erased first.
-- Answers how many it took away, and whether to go on: there may be more, and something was done.
local function collect(at_ms, limit)
  local looked_at, removed, keys, updated, put_back = 0, 0, 0, {}, 0
  local due = index_due(DUE, at_ms, limit)
  for _, id in ipairs(due) do
    if keys > 5000 then break end
    looked_at = looked_at + 1
    local h = redis.pcall('HMGET', part('pipeline', id), 'ends_ms')
    local ends_ms = not h.err and whole(h[1])
    if ends_ms and ends_ms > at_ms then
      updated[#updated + 1] = { ends_ms, id }
    else
      -- What somebody else has under its name is left to them.
      if not h.err then keys = keys + erase(id) end
      call('ZREM', DUE, id)
      removed = removed + 1
    end
  end
  for _, it in ipairs(updated) do
    if type(redis.pcall('ZADD', DUE, int(it[1]), it[2])) == 'number' then put_back = put_back + 1 end
  end
  return removed, (#due == limit or looked_at < #due) and removed + put_back > 0
end

-- The server does not say which key it was that is of another type; all runs share these.
local function named(replies)
  for i, reply in ipairs(replies) do
    if type(reply) == 'string' and string.find(reply, 'WRONGTYPE', 1, true) then
      for k = 2, SHARED_KEYS + 1 do
        local answer = redis.pcall('ZCARD', KEYS[k])
        if type(answer) == 'table' and answer.err then replies[i] = 'CORRUPT "' .. KEYS[k] .. '" is no sorted set' end
      end
    end
  end
  return replies
end

-- What is known of an item that failed.
local function failure(text)
  if not text then return nil end
  local count, first, last, length, from = string.match(text, '^(%d+) (%d+) (%d+) (%d+):()')
  count, first, last, length = whole(count), whole(first), whole(last), whole(length)
  if not (count and first and last and length) then return nil end
  return { count = count, first = first, last = last, id = string.sub(text, from, from + length - 1),
    reason = string.sub(text, from + length) }
end

-- The attempt of a task, when it was started and when it was finished (0: it was not).
local function task_of(text)
  local attempt, started, finished = string.match(text, '^(%d+) (%d+) (%d+)$')
  attempt, started, finished = whole(attempt), whole(started), whole(finished)
  if attempt and started and finished then return attempt, started, finished end
end

-- What an index calls an item of a run.
local function member(id, item)
  return #id .. ':' .. id .. item
end
