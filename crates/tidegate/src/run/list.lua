-- list: runs behind a place, of one state or all, the one that was started last first.
--
-- Keys  anything of the partition
-- Own   the state (empty: all), where to go on (ms and id; empty: at the newest), how many
-- Answers  1 if there may be more, how far it has looked (ms and id), then of each id, state, attempt, when it was started,
--          updated, finished (-1: it was not), when it ends, its total (-1: nobody has said)
return named(each(function(_, at)
  local state, after_ms, after, limit = ARGV[at + 1], tonumber(ARGV[at + 2]), ARGV[at + 3], tonumber(ARGV[at + 4])
  -- Of each set what comes next, from its end on.
  local heads = {}
  local function fill(head)
    local from = math.max(head.rank - limit, 0)
    head.some, head.place = {}, 0
    if head.rank > 0 then head.some = call('ZRANGE', head.set, from, head.rank - 1, 'WITHSCORES') end
    head.rank, head.place = from, #head.some - 1
  end
  local function score(head)
    return tonumber(head.some[head.place + 1])
  end
  for _, name in ipairs(STATES) do
    if state == '' or state == name then
      local set = STARTED[name]
      local head = { set = set, rank = after_ms and index_rank(set, after_ms, after) or call('ZCARD', set) }
      fill(head)
      heads[#heads + 1] = head
    end
  end
  local function next_head()
    local best
    for _, head in ipairs(heads) do
      if head.place < 1 and head.rank > 0 then fill(head) end
      if head.place >= 1 then
        local ahead = not best or score(head) > score(best)
          or (score(head) == score(best) and is_before(best.some[best.place], head.some[head.place]))
        if ahead then best = head end
      end
    end
    return best
  end
  local answer, found, looked_at = { 0, 0, '' }, 0, 0
  local head = next_head()
  while head and found < limit and looked_at < limit + 1000 do
    local id = head.some[head.place]
    answer[2], answer[3], looked_at = score(head), id, looked_at + 1
    head.place = head.place - 2
    -- A run that somebody else has written over is one that is not there.
    local is_read, run = pcall(read, id)
    if is_read and not refused(run) then
      found = found + 1
      for _, field in ipairs({ id, run.status, run.attempt, run.started, run.updated, run.finished or -1, run.ends,
        run.total or -1 }) do
        answer[#answer + 1] = field
      end
    end
    head = next_head()
  end
  if head then answer[1] = 1 end
  return answer
end, 1, 4, SHARED_KEYS))
