-- list: sessions by time, the first first.
--
-- Keys  none
-- Own   which (0 active, 1 disconnected, 2 claimed, 3 dead), left for at least how long
--       (ms), how many at most, and after which: its time in ms and its id, empty for
--       the first
-- Answers  entries that are no session ids, then id and time in ms of each. Sessions that
--          have fallen silent are among the disconnected; the two lists are in one. Their
--          time is the end of the last lease as it was given: what a hold makes of it, `get`
--          tells.
return finish(each(function(_, at)
  local which, age_ms, limit = tonumber(ARGV[at + 1]), tonumber(ARGV[at + 2]), tonumber(ARGV[at + 3])
  local after_ms, after_id = tonumber(ARGV[at + 4]), ARGV[at + 5]
  local answer = { 0 }

  -- The rank of the first entry behind the last page. Those of one time are in the order
  -- of their ids; the one that the page ended with may have left meanwhile.
  local function behind(set, score)
    local low = call('ZCOUNT', set, '-inf', '(' .. string.format('%.17g', score))
    local high = low + call('ZCOUNT', set, score, score)
    while low < high do
      local middle = math.floor((low + high) / 2)
      if call('ZRANGE', set, middle, middle)[1] <= after_id then low = middle + 1 else high = middle end
    end
    return low
  end

  -- Goes on behind entries that are not ids, a thousand of them at most.
  local function add(set, from, to, unit)
    local found, offset, first, last = 0, 0, nil, nil
    if after_ms then first, last = behind(set, after_ms / unit), call('ZCOUNT', set, '-inf', to) - 1 end
    while found < limit and offset < limit + 1000 do
      local page
      if not first then
        page = call('ZRANGEBYSCORE', set, from, to, 'WITHSCORES', 'LIMIT', offset, limit)
      elseif first + offset > last then
        return
      else
        page = call('ZRANGE', set, first + offset, math.min(first + offset + limit - 1, last), 'WITHSCORES')
      end
      for i = 1, #page, 2 do
        if not is_id(page[i]) then
          answer[1] = answer[1] + 1
        elseif found < limit then
          found = found + 1
          answer[#answer + 1] = page[i]
          answer[#answer + 1] = math.max(0, math.floor(tonumber(page[i + 1]) * unit + 0.5))
        end
      end
      if #page < 2 * limit then return end
      offset = offset + limit
    end
  end

  if which == 0 then
    local ended_ms = ended_by(now_ms)
    if after_ms and after_ms <= ended_ms then after_ms = nil end
    add(ACTIVE, '(' .. int(ended_ms), '+inf', 1)
  end
  if which == 1 then
    add(DISCONNECTED, '-inf', (now_ms - age_ms) / 1000, 1000)
    add(ACTIVE, '-inf', int(ended_by(now_ms - age_ms)), 1)
  end
  if which == 2 then add(CLAIMED, '-inf', '+inf', 1) end
  if which == 3 then add(DEAD, '-inf', '+inf', 1) end
  return answer
end, 1, 5, COMMON))
