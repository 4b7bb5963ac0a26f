-- update: changes the state of a run, to another live one, its fields or its total.
--
-- Keys  the run
-- Own   its id, attempt (empty: any), state and total (empty: as it is), how many fields are set; of each name and value;
--       the names of those that are removed
-- Answers  DONE, its attempt, its state, when it ends; or why not
return named(each(function(_, at)
  local id, state, total = ARGV[at + 1], ARGV[at + 3], ARGV[at + 4]
  local run = read(id)
  local why = unchangeable(run, ARGV[at + 2])
  if why then return why end
  local key, names, texts, removed = part('fields', id), {}, {}, {}
  local first_removed = at + 6 + 2 * tonumber(ARGV[at + 5])
  for i = at + 6, first_removed - 1, 2 do
    names[#names + 1] = ARGV[i]
    texts[#texts + 1] = ARGV[i]
    texts[#texts + 1] = ARGV[i + 1]
  end
  for i = first_removed, #ARGV do removed[#removed + 1] = ARGV[i] end
  local known = call('HLEN', key)
  local count = known
  if #names > 0 then
    for _, value in ipairs(call('HMGET', key, unpack(names))) do count = count + (value and 0 or 1) end
  end
  if #removed > 0 then
    for _, value in ipairs(call('HMGET', key, unpack(removed))) do count = count - (value and 1 or 0) end
  end
  if count > max_fields and count > known then return { TOO_MANY_FIELDS } end
  if state ~= '' then move(run, state) end
  if #texts > 0 then call('HSET', key, unpack(texts)) end
  if #removed > 0 then call('HDEL', key, unpack(removed)) end
  if known == 0 and #texts > 0 then expire(run, key) end
  if total ~= '' then touch(run, 'status', run.status, 'total', total) else touch(run, 'status', run.status) end
  return { DONE, run.attempt, run.status, run.ends }
end, 1, #ARGV - 1 - SHARED_ARGS, SHARED_KEYS))
