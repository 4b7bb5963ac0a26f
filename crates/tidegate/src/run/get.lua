-- get: a run as it is.
--
-- Keys  the run
-- Own   its id
-- Answers  DONE, state, attempt, when it was started, when its attempt began, when it was updated, when it was finished (-1:
--          it was not), when it ends, its total (-1: nobody has said), then each field and its value; or why not
return named(each(function(_, at)
  local id = ARGV[at + 1]
  local run = read(id)
  local why = refused(run)
  if why then return why end
  local answer = { DONE, run.status, run.attempt, run.started, run.attempt_started, run.updated, run.finished or -1,
    run.ends, run.total or -1 }
  for _, text in ipairs(call('HGETALL', part('fields', id))) do answer[#answer + 1] = text end
  return answer
end, 1, 1, SHARED_KEYS))
