-- take: charges a cost to a key if it fits.
--
-- Own   cost, two terms to judge by, which a later peek uses too (0: those of the
--       limit), extra; without the last ones where the algorithm has no use for them
local rule = rule_at(algorithm, 4)

return each(function(k, at)
  local extra = tonumber(ARGV[at + 4])
  local other = otherwise(rule, k, extra)
  if other then return other end
  local a = tonumber(ARGV[at + 2])
  if a ~= 0 then return rule.take(k, tonumber(ARGV[at + 1]), a, tonumber(ARGV[at + 3]), true, extra) end
  local own_a, own_b = terms(rule, k)
  return rule.take(k, tonumber(ARGV[at + 1]), own_a, own_b, false, extra)
end, rule.stride, rule.own)
