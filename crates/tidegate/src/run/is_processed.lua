-- is_processed: whether items are processed.
--
-- Keys  the run
-- Own   its id, the items
-- Answers  DONE, then 1 or 0 for each; or why not
return named(each(function(_, at)
  local id = ARGV[at + 1]
  local why = refused(read(id))
  if why then return why end
  local answer = { DONE }
  if at + 2 <= #ARGV then
    for i, flag in ipairs(call('SMISMEMBER', part('processed', id), unpack(ARGV, at + 2, #ARGV))) do answer[i + 1] = flag end
  end
  return answer
end, 1, #ARGV - 1 - SHARED_ARGS, SHARED_KEYS))
