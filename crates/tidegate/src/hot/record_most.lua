-- record: what most calls are, without what few edits need: a script makes all of its functions in every call, and those would
-- take a third as long as sixteen edits do. They stand behind it.

local record_in_place, ask_again_after = make_record_in_place()
local is_done = go_on(function(k, edit)
  if work >= ENOUGH_WORK then return LATER end
  local answer = record_in_place(k, edit)
  if answer then work = work + 3 end
  return answer
end)
if is_done then return finish(replies) end
