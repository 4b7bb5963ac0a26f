-- count: so many more of a page, now.
--
-- Own   how many
-- Answers  as `record` of one edit does
local is_done = go_on(function(k, more)
  if work >= ENOUGH_WORK then return LATER end
  return (count_most(k, more))
end)
if is_done then return finish(replies) end
