-- declarations: all that is declared; what nobody has used for long leaves.
--
-- KEYS  the marker of the first partition, twice
-- Own   what fields with declarations start with; how long after its last use one leaves
--       (ms, empty: none does)
-- Answers  the store's time, then field and text of each, one after the other
local now_ms = now()

return each(function(_, at)
  local start, unused_ms = ARGV[at + 1], tonumber(ARGV[at + 2])
  local answer, fields = { now_ms }, redis.call('HGETALL', KEYS[1])
  for i = 1, #fields, 2 do
    local field, text = fields[i], fields[i + 1]
    if string.sub(field, 1, #start) == start then
      local used_ms = 0
      for ms in string.gmatch(text, '"used_ms":(%d+)') do used_ms = math.max(used_ms, tonumber(ms)) end
      if unused_ms and used_ms + unused_ms <= now_ms then
        redis.call('HDEL', KEYS[1], field)
      else
        answer[#answer + 1], answer[#answer + 2] = field, text
      end
    end
  end
  return answer
end, 1, 2)
