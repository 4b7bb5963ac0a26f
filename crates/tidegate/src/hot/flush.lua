-- flush: counts that a node has gathered, once each, however often and however late they are sent.
--
-- KEYS  behind those that all share: the number of the last flush that a node has sent
-- ARGV  behind the time: the number of this one, from 1 on, and for how long it is remembered (ms)
-- Own   how many
-- Answers  as `count` does, or that an item was here before
-- A node begins with the next when this one is answered for in full, so what is below the last has been here, or was given
-- up. The number is written first: a server whose memory is full refuses that, and then nothing is counted either. While
-- some of it is left for later, how many items are not is behind the number: sent again, it goes on there.
SHARED_KEYS = 6
local FLUSH, number, for_ms, first = KEYS[7], tonumber(ARGV[2]), ARGV[3], 2 + SHARED_KEYS
-- From which item on nothing is known of it.
local new_from = first
local known = redis.pcall('GET', FLUSH)
local last, done = string.match(type(known) == 'string' and known or '', '^(%d+) ?(%d*)$')
last = number_of(last, 0, MAX_WHOLE) or 0
if number == last and done ~= '' then
  new_from = first + tonumber(done)
elseif number <= last then
  new_from = #KEYS + 1
end
if new_from > #KEYS then return each(function() return REPEATED end, KEYS_OF_ITEM, 1, SHARED_KEYS) end
call('SET', FLUSH, ARGV[2], 'PX', for_ms)
local left_from
local count_any = make_count_any()
return finish(each(function(k, at)
  if k < new_from then return REPEATED end
  if work < ENOUGH_WORK then
    local answer, page, text, more = count_most(k, ARGV[at + 1])
    return answer or count_any(KEYS[k], page, text, more)
  end
  if not left_from then
    left_from = k
    call('SET', FLUSH, ARGV[2] .. ' ' .. int(k - first), 'PX', for_ms)
  end
  return LATER
end, KEYS_OF_ITEM, 1, SHARED_KEYS))
