-- events: what happened after a position, or the latest position.
--
-- Own   the position and its life (empty: only tells the latest), how many at most
-- Answers  the life of these events, what the position is, the position that they come after, then id, kind, page,
--          edits and when of each, empty where it is none of ours
local AHEAD_MS = 1000

local function parts(id)
  local ms, number = string.match(id, '(%d+)-(%d+)')
  return tonumber(ms), tonumber(number)
end

local function is_earlier(one, other)
  local ms, number = parts(one)
  local other_ms, other_number = parts(other)
  return ms < other_ms or ms == other_ms and number < other_number
end

return each(function(_, at)
  local position, of_life, limit = ARGV[at + 1], ARGV[at + 2], ARGV[at + 3]
  if is_foreign then
    -- Without a state there is no life; another begins with the next edit. Who knows one is told
    -- once that it is over, and everybody goes on from the beginning of the next.
    local is_new = position == '' or position == '0-0' and of_life == '0'
    return { '0', is_new and KNOWN or MISSED, '0-0' }
  end
  life_of_events()
  local last = on_events('XREVRANGE', '+', '-', 'COUNT', 1)[1]
  last = last and last[1] or '0-0'
  if position == '' then return { life, KNOWN, last } end
  local answer = { life, KNOWN, position }
  local is_ahead = is_earlier(last, position)
  if is_ahead and parts(position) > math.max(tonumber(call('TIME')[1]) * 1000 + 999, (parts(last))) + AHEAD_MS then
    return { life, IMPOSSIBLE, last }
  end
  if position ~= '0-0' or of_life ~= '0' then
    if of_life ~= life or is_earlier(position, forgotten) then
      answer[2], answer[3] = MISSED, forgotten
    elseif is_ahead then
      -- Those that it came after were lost.
      answer[2], answer[3] = MISSED, last
    end
  end
  if answer[3] == last then return answer end
  for _, event in ipairs(call('XRANGE', EVENTS, '(' .. answer[3], '+', 'COUNT', limit)) do
    local fields = event[2]
    answer[#answer + 1] = event[1]
    for i = 2, 8, 2 do answer[#answer + 1] = fields[i] or '' end
  end
  return answer
end, KEYS_OF_ITEM, 3, SHARED_KEYS)
