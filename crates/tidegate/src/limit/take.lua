-- take: charges a cost to a key if it fits.
--
-- Own   cost, two terms to judge by, which a later peek uses too (0: those of the
--       limit), extra; without the last ones where the algorithm has no use for them
local rule = rule_at(algorithm, 4)

return each(function(k, at)
  local extra = tonumber(ARGV[at + 4])
  local other = otherwise(rule, k, extra)
  if other then return other end
  local a, b = tonumber(ARGV[at + 2]), tonumber(ARGV[at + 3])
  local is_own = a ~= 0
  if not is_own then a, b = terms(rule, k) end
  return by_terms(rule, rule.take(k, tonumber(ARGV[at + 1]), a, b, is_own, extra), a, b)
end, rule.stride, rule.own)
