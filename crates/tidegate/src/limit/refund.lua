-- refund: gives back one charge, once; nothing if it no longer counts.
--
-- Own   bucket and life, offset, cost, how many refunds a key remembers, extra
-- Answers what was given back, 0 for nothing
local rule = rule_at(algorithm, 4)

return each(function(k, at)
  local extra = tonumber(ARGV[at + 5])
  local other = rule.elsewhere and rule.elsewhere(k, extra)
  if other then return other end
  return rule.refund(k, tonumber(ARGV[at + 1]), tonumber(ARGV[at + 2]), tonumber(ARGV[at + 3]), tonumber(ARGV[at + 4]), extra)
end, rule.stride, 5)
