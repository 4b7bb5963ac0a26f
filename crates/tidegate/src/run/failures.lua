-- failures, retry_list: what has failed of a run behind a place, one page.
--
-- Keys  the run
-- Own   its id, 1 for those alone that were not processed since, the longest ago first (0: all, the latest first), where to
--       go on (ms and item; empty: at the beginning), how many
-- Answers  DONE, 1 if there are more, how far it has looked (ms and item), then of each item, reason, how often, when first
--          and last, 1 if it was not processed since; or why not
return named(each(function(_, at)
  local id, is_retry, after_ms, after = ARGV[at + 1], ARGV[at + 2] == '1', tonumber(ARGV[at + 3]), ARGV[at + 4]
  local limit = tonumber(ARGV[at + 5])
  local why = refused(read(id))
  if why then return why end
  local failures, to_retry = part('failures', id), part('to_retry', id)
  local set, some, is_more, step = is_retry and to_retry or part('failed_at', id), {}, false, 2
  local card = call('ZCARD', set)
  local first, last
  if is_retry then
    local rank = after_ms and index_rank(set, after_ms, after, true) or 0
    some, is_more = call('ZRANGE', set, rank, rank + limit - 1, 'WITHSCORES'), rank + limit < card
    first, last = 1, #some - 1
  else
    local rank = after_ms and index_rank(set, after_ms, after) or card
    if rank > 0 then some = call('ZRANGE', set, math.max(rank - limit, 0), rank - 1, 'WITHSCORES') end
    is_more, first, last, step = rank > limit, #some - 1, 1, -2
  end
  local answer = { DONE, is_more and 1 or 0, 0, '' }
  for i = first, last, step do
    local item = some[i]
    answer[3], answer[4] = tonumber(some[i + 1]), item
    local known = failure(call('HGET', failures, item))
    if known then
      local is_open = is_retry or call('ZSCORE', to_retry, item)
      for _, field in ipairs({ item, known.reason, known.count, known.first, known.last, is_open and 1 or 0 }) do
        answer[#answer + 1] = field
      end
    end
  end
  return answer
end, 1, 5, SHARED_KEYS))
