-- count: the rest of a call, of which something is not as most are.
local count_any = make_count_any()
go_on(function(k, more)
  if work >= ENOUGH_WORK then return LATER end
  local answer, page, text, number = count_most(k, more)
  return answer or count_any(KEYS[k], page, text, number)
end)
return finish(replies)
