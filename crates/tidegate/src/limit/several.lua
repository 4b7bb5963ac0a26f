-- Several limits at once.
--
-- ARGV  as of the rules, each with its algorithm's name in front of it and the
--       number of its numbers; in front of the first, how many there are

-- The rules of all of them, and the number of the last argument that describes them.
local function several(algorithms)
  local rules, at = {}, 5
  for i = 1, tonumber(ARGV[5]) do
    -- name, count of numbers, then hold, id, two terms and the numbers.
    rules[i] = rule_at(algorithms[ARGV[at + 1]], at + 2)
    at = at + 6 + tonumber(ARGV[at + 2])
  end
  return rules, at
end

-- Makes sure that all can be charged, before the first of them is: nothing is done by halves.
local function check_all(rules, requests)
  for i, rule in ipairs(rules) do
    if rule.check then rule.check(requests[i].k, requests[i].state) end
  end
end
