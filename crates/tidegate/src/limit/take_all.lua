-- take_all: charges a subject under several limits, or under none.
--
-- Own   per limit: cost, two terms to judge by (0: those of the limit), extra
-- Answers ALL_CHARGED or ALL_REFUSED, then each limit's answer; or the number of one that holds, or
--         TRY_AGAIN, and its answer alone
local rules = several({ sliding = sliding, suppressed = suppressed, token = token, calendar = calendar })
local keys = 0
for _, rule in ipairs(rules) do keys = keys + rule.stride end

return each(function(k, at)
  local requests, is_refused, k_of = {}, false, k
  for i, rule in ipairs(rules) do
    local request = { k = k_of, cost = tonumber(ARGV[at + 1]), extra = tonumber(ARGV[at + 4]) }
    local other = otherwise(rule, k_of, request.extra)
    -- Nothing is known of the key, or the caller has to try again.
    if other then return { other[1] == HELD and i or TRY_AGAIN, other } end
    request.a, request.b = tonumber(ARGV[at + 2]), tonumber(ARGV[at + 3])
    request.remember = request.a ~= 0
    if not request.remember then request.a, request.b = terms(rule, k_of) end
    request.state, request.answer = rule.judge(k_of, request.cost, request.a, request.b, request.extra)
    request.is_refused = not request.state or request.answer[6] == 0 and request.answer[1] == SUPPRESSED
    is_refused = is_refused or request.is_refused
    requests[i] = request
    at, k_of = at + 4, k_of + rule.stride
  end
  if not is_refused then check_all(rules, requests) end
  local answers = { is_refused and ALL_REFUSED or ALL_CHARGED }
  for i, rule in ipairs(rules) do
    local request = requests[i]
    if not is_refused or (rule.records_refusals and request.is_refused) then
      local charged, reset_after = rule.charge(request.k, request.state, request.cost, request.a, request.b, request.remember, request.extra)
      if rule.records_refusals then
        request.answer[3], request.answer[4] = charged, reset_after
      else
        request.answer = charged
      end
    end
    answers[i + 1] = by_terms(rule, request.answer, request.a, request.b)
  end
  return answers
end, keys, 4 * #rules)
