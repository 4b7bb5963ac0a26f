-- A page of an index by time: who ends after now, the first first, behind a place.
--
-- Calls `look(member, ends_at_ms)` for each, which answers what to list of it or nil if it
-- has ended otherwise; past `limit` of those it stops, and past a thousand of the others.
-- Answers 1 if there may be more, how far it has looked (time and member), now, then each
-- listed member, its time, and what `look` answered.
local function page(index, now_ms, after_ms, after, limit, look)
  local rank = redis.call('ZCOUNT', index, '-inf', int(now_ms))
  -- What the last page ended with may have left.
  if after_ms and after_ms > now_ms then rank = index_rank(index, after_ms, after, true) end
  local answer, found, looked_at = { 0, 0, '', now_ms }, 0, 0
  while found < limit and looked_at < limit + 1000 do
    local some = redis.call('ZRANGE', index, rank + looked_at, rank + looked_at + limit - 1, 'WITHSCORES')
    for i = 1, #some, 2 do
      if found < limit then
        local member, ends_at_ms = some[i], tonumber(some[i + 1])
        local listed = look(member, ends_at_ms)
        looked_at, answer[2], answer[3] = looked_at + 1, ends_at_ms, member
        if listed then
          found = found + 1
          answer[#answer + 1] = member
          answer[#answer + 1] = ends_at_ms
          answer[#answer + 1] = listed
        end
      end
    end
    if #some < 2 * limit then break end
  end
  if redis.call('ZCARD', index) > rank + looked_at then answer[1] = 1 end
  return answer
end
