-- list: sessions by time, the first first.
--
-- Keys  none
-- Own   which (LIST_ACTIVE and so on), left for at least how long
--       (ms), how many at most, 1 to write nothing; then of each of the two sets that may
--       be in it where to go on: behind a score and an entry, in hexadecimal; an empty score
--       for the beginning, `-` for not at all
-- Answers  entries that are no session ids, or at no time; of each of the two sets where to go on, as
--          above; then id and time in ms of each. Sessions that have fallen silent are among
--          the disconnected; the two lists are in one. Their time is the end of the last lease as it
--          was given: what a hold makes of it, `get` tells.
local SKIPPED, PAGE = 1000, 100
local is_changing = false
local replies = plain_each(function(_, at)
  local which, age_ms, limit = tonumber(ARGV[at + 1]), tonumber(ARGV[at + 2]), tonumber(ARGV[at + 3])
  local invalid, found = 0, {}
  if ARGV[at + 4] ~= '1' then
    is_changing = true
    stamp()
  end

  -- An entry may be any bytes.
  local function hex(text)
    return (string.gsub(text, '.', function(c) return string.format('%02x', string.byte(c)) end))
  end

  local function unhex(text)
    return (string.gsub(text, '..', function(c) return string.char(tonumber(c, 16)) end))
  end

  -- The rank of the first entry behind another. Those of one time are in the order of
  -- their ids; the one that is named may have left meanwhile.
  local function behind(set, score, entry)
    local low = call('ZCOUNT', set, '-inf', '(' .. score)
    local high = low + call('ZCOUNT', set, score, score)
    while low < high do
      local middle = math.floor((low + high) / 2)
      if is_before(entry, call('ZRANGE', set, middle, middle)[1]) then high = middle else low = middle + 1 end
    end
    return low
  end

  -- Adds up to `limit` sessions, and goes on behind entries that are no ids, a thousand of
  -- them at a time: where it was left then.
  local function add(set, first, to, unit, number)
    local score, entry = ARGV[at + 3 + 2 * number], ARGV[at + 4 + 2 * number]
    if score == '-' then return '-', '' end
    local rank, last = first, call('ZCOUNT', set, '-inf', to) - 1
    if score ~= '' then rank = math.max(rank, behind(set, score, unhex(entry))) end
    local count, skipped = 0, 0
    while count < limit and rank <= last do
      local page = call('ZRANGE', set, rank, math.min(rank + PAGE - 1, last), 'WITHSCORES')
      for i = 1, #page, 2 do
        if count == limit then break end
        -- A score that is no time is nobody's of ours: a list could not go on behind it.
        local at_ms = is_id(page[i]) and moment(tonumber(page[i + 1]) * unit + 0.5)
        if at_ms then
          count = count + 1
          found[#found + 1] = page[i]
          found[#found + 1] = at_ms
        else
          skipped = skipped + 1
        end
      end
      rank = rank + #page / 2
      if skipped >= SKIPPED and count < limit and rank <= last then
        invalid = invalid + skipped
        return page[#page], hex(page[#page - 1])
      end
    end
    invalid = invalid + skipped
    return '-', ''
  end

  local one, one_entry, other, other_entry = '-', '', '-', ''
  if which == LIST_ACTIVE then
    one, one_entry = add(ACTIVE, call('ZCOUNT', ACTIVE, '-inf', int(ended_by(now_ms))), '+inf', 1, 1)
  elseif which == LIST_DISCONNECTED then
    one, one_entry = add(DISCONNECTED, 0, (now_ms - age_ms) / 1000, 1000, 1)
    other, other_entry = add(ACTIVE, 0, int(ended_by(now_ms - age_ms)), 1, 2)
  else
    one, one_entry = add(which == LIST_CLAIMED and CLAIMED or DEAD, 0, '+inf', 1, 1)
  end
  local answer = { invalid, one, one_entry, other, other_entry }
  for _, field in ipairs(found) do answer[#answer + 1] = field end
  return answer
end, 1, 8, SHARED_KEYS)
return is_changing and finish(replies) or replies
