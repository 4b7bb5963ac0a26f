-- events: what happened after a cursor, or the latest cursor.
--
-- Own   cursor (empty: only tells the latest), how many at most
-- Answers  1 if some since the cursor are gone, the cursor to go on from, then id, kind, page, edits and when of each
local function is_before(one, other)
  local ms, number = string.match(one, '(%d+)-(%d+)')
  local other_ms, other_number = string.match(other, '(%d+)-(%d+)')
  ms, other_ms = tonumber(ms), tonumber(other_ms)
  return ms < other_ms or ms == other_ms and tonumber(number) < tonumber(other_number)
end

return each(function(_, at)
  local cursor, limit = ARGV[at + 1], ARGV[at + 2]
  if cursor == '' then
    local last = call('XREVRANGE', EVENTS, '+', '-', 'COUNT', 1)
    return { '0', last[1] and last[1][1] or '0-0' }
  end
  local answer = { is_before(cursor, call('HGET', STATE, 'forgotten') or '0-0') and '1' or '0', cursor }
  for _, event in ipairs(call('XRANGE', EVENTS, '(' .. cursor, '+', 'COUNT', limit)) do
    local fields = event[2]
    answer[2] = event[1]
    for _, text in ipairs({ event[1], fields[2], fields[4], fields[6], fields[8] }) do answer[#answer + 1] = text end
  end
  return answer
end, KEYS_OF_ITEM, 2, COMMON)
