-- take_all: charges a subject under several limits, or under none.
--
-- ARGV  as of the rules, each with its algorithm's name in front of it and the
--       number of its numbers; in front of the first, how many there are
-- Own   per limit: cost, two terms to judge by (0: those of the limit), extra
-- Answers 1 if all was charged, then each limit's answer
local algorithms = { sliding = sliding, suppressed = suppressed, token = token, calendar = calendar }
local rules, keys, at = {}, 0, 5
for i = 1, tonumber(ARGV[5]) do
  -- name, count of numbers, then hold, id, two terms and the numbers.
  rules[i] = rule_at(algorithms[ARGV[at + 1]], at + 2)
  at = at + 6 + tonumber(ARGV[at + 2])
  keys = keys + rules[i].stride
end

return each(function(k, at)
  local asked, is_refused, k_of = {}, false, k
  for i, rule in ipairs(rules) do
    local ask = { k = k_of, cost = tonumber(ARGV[at + 1]), extra = tonumber(ARGV[at + 4]) }
    local other = otherwise(rule, k_of, ask.extra)
    -- Nothing is known of the key, or the caller has to ask again.
    if other then return { other[1] == 2 and i or 0, other } end
    ask.a, ask.b = tonumber(ARGV[at + 2]), tonumber(ARGV[at + 3])
    ask.remember = ask.a ~= 0
    if not ask.remember then ask.a, ask.b = terms(rule, k_of) end
    ask.state, ask.answer = rule.judge(k_of, ask.cost, ask.a, ask.b, ask.extra)
    ask.is_refused = not ask.state or ask.answer[6] == 0 and ask.answer[1] == 5
    is_refused = is_refused or ask.is_refused
    asked[i] = ask
    at, k_of = at + 4, k_of + rule.stride
  end
  local answers = { is_refused and -1 or -2 }
  for i, rule in ipairs(rules) do
    local ask = asked[i]
    if not is_refused or (rule.records_refusals and ask.is_refused) then
      local charged, reset_after = rule.charge(ask.k, ask.state, ask.cost, ask.a, ask.b, ask.remember, ask.extra)
      if rule.records_refusals then
        ask.answer[3], ask.answer[4] = charged, reset_after
      else
        ask.answer = charged
      end
    end
    answers[i + 1] = by_terms(rule, ask.answer, ask.a, ask.b)
  end
  return answers
end, keys, 4 * #rules)
