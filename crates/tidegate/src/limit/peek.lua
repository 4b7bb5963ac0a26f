-- peek: what a take would be told. Changes nothing of the key.
--
-- Own   extra, cost
local rule = rule_at(algorithm, 4)

return each(function(k, at)
  local extra = tonumber(ARGV[at + 1])
  local other = otherwise(rule, k, extra)
  if other then return other end
  local a, b = rule.remembered(k, extra)
  if not a then a, b = terms(rule, k) end
  local _, answer = rule.judge(k, tonumber(ARGV[at + 2]), a, b, extra)
  return by_terms(rule, answer, a, b)
end, rule.stride, 2)
