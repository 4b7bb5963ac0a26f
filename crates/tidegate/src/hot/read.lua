-- What scripts share that change nothing.

-- A call on an index; an error says which it is.
local function read_index(command, index, ...)
  local answer = redis.pcall(command, index, ...)
  if type(answer) == 'table' and answer.err then error(answer.err .. ': ' .. index, 0) end
  return answer
end

-- Byte change and editor of an edit, as `made_of` has them.
local function parts_of(made)
  local byte_change, editor = string.match(made, '^(%-?%d+) (.*)$')
  return byte_change or error('an editor cannot be read', 0), editor
end

-- A page as it stands in our window, for a reader: nothing is changed, and nothing is
-- answered if there is no edit in it.
local function filtered(keys, p)
  if p.last + window_ms <= now_ms or p.last > ahead_ms then return end
  if p.oldest + window_ms <= now_ms then
    local from = '(' .. int(now_ms - window_ms)
    local first = call('ZRANGEBYSCORE', keys.window, from, '+inf', 'WITHSCORES', 'LIMIT', 0, 1)
    -- Without one its window is lost.
    if not first[2] then return end
    p.count, p.oldest = call('ZCOUNT', keys.window, from, '+inf'), tonumber(first[2])
  end
  return p
end

