-- Goes through the items of a call, which have one argument each, by one operation and then by another.

local replies, next_item, last_item, arguments = {}, 2 + SHARED_KEYS, #KEYS, #ARGV - #KEYS

-- Goes on with the items from where it was, to the first for which an operation has no answer: whether there is none. An item that
-- fails answers its error as text and leaves the others alone.
local function go_on(operation)
  while next_item <= last_item do
    local is_done, answer = pcall(operation, next_item, ARGV[next_item + arguments])
    if not is_done then answer = type(answer) == 'table' and answer.err or tostring(answer) end
    if answer == nil then return false end
    replies[#replies + 1], next_item = answer, next_item + 1
  end
  return true
end
