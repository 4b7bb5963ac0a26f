-- Where limits stand: a part has its key, its terms and extra, or what it answers in place of that.
local function standing(rules, parts)
  local answers = { ALL_KNOWN }
  for i, rule in ipairs(rules) do
    local part = parts[i]
    if part.held then
      answers[i + 1] = part.held
    else
      local _, answer = rule.judge(part.k, 0, part.a, part.b, part.extra)
      answers[i + 1] = { ADMITTED, answer[2], answer[3], answer[4] }
    end
  end
  return answers
end
