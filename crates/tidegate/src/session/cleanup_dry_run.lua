-- cleanup_dry_run: what a cleanup would do, some entries at a time. Nothing is written.
--
-- Keys  none
-- Own   how many entries at most, where to begin (which set, and the rank in it)
-- Answers  as cleanup; then where to go on, empty at the end
-- What judges a session writes what it finds. Here it finds the same, and writes nothing.
local READS = { EXISTS = true, HGET = true, HGETALL = true, HKEYS = true, HLEN = true, HMGET = true, ZCARD = true,
  ZCOUNT = true, ZRANGE = true, ZRANGEBYSCORE = true, ZSCORE = true }
call = function(command, ...)
  if READS[command] then return redis.call(command, ...) end
end

-- As a cleanup goes through them.
local ORDER = { ACTIVE, CLAIMED, DISCONNECTED }

-- Whether an entry is also in a set that comes later, and due there: then it counts there.
local function is_met_later(number, id)
  for later = number + 1, #ORDER do
    local score = tonumber(call('ZSCORE', ORDER[later], id) or nil)
    local until_score, ahead_score = due_scores(ORDER[later])
    if score and (score <= until_score or score > ahead_score) then return true end
  end
  return false
end

return name_misused(plain_each(function(_, at)
  start_counting()
  local left, number, rank = tonumber(ARGV[at + 1]), string.match(ARGV[at + 2], '^([123]) (%d+)$')
  number, rank = tonumber(number), tonumber(rank)
  while left > 0 and number <= #ORDER do
    local set = ORDER[number]
    local until_score, ahead_score = due_scores(set)
    -- Ranks of what is due, and of what is absurdly far ahead.
    local due_end = call('ZCOUNT', set, '-inf', until_score)
    local far, far_end = call('ZCOUNT', set, '-inf', ahead_score), call('ZCARD', set)
    if rank >= due_end then rank = math.max(rank, far) end
    local last = (rank < due_end and due_end or far_end) - 1
    local ids = call('ZRANGE', set, rank, math.min(rank + left - 1, last))
    for _, id in ipairs(ids) do
      local lapsed_before, s = lapsed, entry(set, id)
      if s and is_met_later(number, id) then
        lapsed = lapsed_before
      elseif s then
        local becomes = fate(s)
        if becomes == BURIED then buried = buried + 1 end
        if becomes == REAPED then deleted = deleted + 1 end
      end
    end
    rank, left = rank + #ids, left - #ids
    if rank >= due_end and math.max(rank, far) >= far_end then number, rank = number + 1, 0 end
  end
  -- Those are names of what was removed.
  named = {}
  local is_end = number > #ORDER
  local found = answer(lag(), not is_end)
  found[#found + 1] = is_end and '' or number .. ' ' .. int(rank)
  return found
end, 1, 2, SHARED_KEYS))
