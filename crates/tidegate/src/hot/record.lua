-- record: one edit of a page, or several.
--
-- Own   texts that end with a NUL each: when (ms, empty for now), byte change, id, editor; of several edits the same of
--       each, in order of time and id, behind a byte of 1; or if all are of now, behind a byte of 2, of each the id, and
--       byte change and editor as `editors` has them, in order of ids
-- Answers  of one, a number: what became of it, ACTIVITY more if it counted as activity, EXPIRED more for
--          each page that is not hot any more; in a list with the page that was replaced (empty
--          if none was) and how many events of each kind there were, if there were any. Of several, a list: how many
--          counted as activity, pages that are not hot any more, a digit for each edit of what became of it, the page that
--          was replaced, and how many events of each kind; or one number if all were added and that is all. LATER instead of
--          either, or of what became of an edit, is that nothing was done: it is to be sent again

local record_any = make_record_any()
-- The next one was looked at before, and not recorded.
ask_again_after(next_item - 1)
go_on(function(k, edit)
  if work >= ENOUGH_WORK then return LATER end
  local answer = record_in_place(k, edit)
  if answer then
    work = work + 3
    return answer
  end
  work = work + 20
  -- Pages may become hot by it, or be so no more.
  ask_again_after(k)
  return record_any(k, edit)
end)
return finish(replies)
