-- look: says what is wrong with keys, or with the entries of one, each with what belongs to it in the same step: so
-- nothing that changes meanwhile is taken for a defect.
--
-- Behind it stands what a room knows of its keys, which ends with `return look(first, judge, judge_entry, is_yielding)`:
--   first               where KEYS of items begin
--   judge(family, key, subject, report)
--                       calls report(word) for whatever is wrong; answers false if the key is not ours, ANY_END if it
--                       may have no end
--   judge_entry(family, key, subject, entry, score)
--                       answers a word, and what mends it if that is safe; or nothing
--   is_yielding         by family: what is of another type there is not ours
--
-- In front of it TAIL, how many of ARGV are the room's own
-- ARGV  behind those: 1 to mend what can be; for how long a key of ours lives that is given an end (ms); what keys of
--       the part start with; then what only some rooms need: a suffix, a length of time (ms); then
--         `keys`, and of each key its family, its type, its subject, 1 to measure it
--         a family, and a cursor, about how many entries, the key's subject, and the command
-- Answers  of each key `gone`, `others` (it is not ours) or `ours`, its bytes (-1: not measured), the words
--          or where to go on, how many entries were looked at, then a word and an entry, one after the other
-- A word with a + in front is of what has been mended.
local is_mending, life_ms, ROOT = ARGV[TAIL + 1] == '1', ARGV[TAIL + 2], ARGV[TAIL + 3]
local SUFFIX, SPAN_MS, WHAT = ARGV[TAIL + 4], tonumber(ARGV[TAIL + 5]), ARGV[TAIL + 6]
local look_ms, ANY_END = now(), 'any end'

-- What a command answers; nothing if the key is of another type, which is told of itself. Whatever else it fails with
-- must not be taken for that: whoever may not use a command has seen nothing.
local function ask(...)
  local answer = redis.pcall(...)
  if type(answer) ~= 'table' or not answer.err then return answer end
  if not string.find(answer.err, 'WRONGTYPE', 1, true) then error(answer.err, 0) end
end

-- The score of a member; true if that cannot be said because the index is of another type.
local function listed(index, member)
  local score = ask('ZSCORE', index, member)
  if score == nil then return true end
  return score and tonumber(score)
end

local function exists(...)
  return redis.call('EXISTS', ...) > 0
end

-- Whether a hash has a field; what is no hash has all of them.
local function has_field(key, field)
  return ask('HEXISTS', key, field) ~= 0
end

local function look_at_key(key, at, judge, is_yielding)
  local family, expected, subject, is_measured = ARGV[at + 1], ARGV[at + 2], ARGV[at + 3], ARGV[at + 4] == '1'
  local kind = redis.call('TYPE', key).ok
  if kind == 'none' then return { 'gone', -1 } end
  local answer = { 'ours', -1 }
  local function report(word) answer[#answer + 1] = word end
  if kind ~= expected then
    if is_yielding and is_yielding[family] then return { 'others', -1 } end
    report('wrong-type')
  else
    local is_read, verdict = pcall(judge, family, key, subject, report)
    if not is_read then
      if not is_corrupt(verdict) and not string.find(tostring(verdict), 'CORRUPT', 1, true) then error(verdict, 0) end
      report('unreadable')
    elseif verdict == false then
      return { 'others', -1 }
    end
    if verdict ~= ANY_END and redis.call('PTTL', key) == -1 then
      if is_mending then redis.call('PEXPIRE', key, life_ms) end
      report(is_mending and '+no-ttl' or 'no-ttl')
    end
  end
  local bytes = is_measured and redis.pcall('MEMORY', 'USAGE', key)
  if type(bytes) == 'number' then answer[2] = bytes end
  return answer
end

local function look(first, judge, judge_entry, is_yielding)
  if WHAT == 'keys' then
    local answers = {}
    for k = first, #KEYS do
      answers[#answers + 1] = look_at_key(KEYS[k], TAIL + 6 + 4 * (k - first), judge, is_yielding)
    end
    return answers
  end
  local key, cursor, count, subject = KEYS[first], ARGV[TAIL + 7], ARGV[TAIL + 8], ARGV[TAIL + 9]
  local page = ask(ARGV[TAIL + 10], key, cursor, 'COUNT', count)
  if not page then return { '0', '0' } end
  local answer = { page[1], int(#page[2] / 2) }
  for i = 1, #page[2], 2 do
    local word, mend = judge_entry(WHAT, key, subject, page[2][i], page[2][i + 1])
    if word then
      local is_mended = is_mending and mend ~= nil
      if is_mended then mend() end
      answer[#answer + 1] = (is_mended and '+' or '') .. word
      answer[#answer + 1] = page[2][i]
    end
  end
  return answer
end
