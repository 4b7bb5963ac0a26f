-- count: so many more of a page, now.
--
-- Own   how many
-- Answers  as `record` of one edit does
pin_due()
return finish(each(function(k, at)
  if work >= ENOUGH_WORK then return LATER end
  return count(k, at)
end, KEYS_OF_ITEM, 1, SHARED_KEYS))
