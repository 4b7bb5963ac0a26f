-- get: a session as it is, by its id or by its broadcaster.
--
-- Keys  the session, or the broadcaster
-- Own   the id, empty if it is found by the broadcaster; the broadcaster then
-- Answers  id, generation, the last sign of life, when it was left (0: it is held),
--          claims so far, until when it is claimed, 1 if its grace is over, until when it is held,
--          broadcaster, config, value and last update, then of each holder its name and until
--          when it holds; or why not
return finish(each(function(k, at)
  local id, key = ARGV[at + 1], KEYS[k]
  if id == '' then
    id, key = mapped(KEYS[k]), nil
    if not id then return GONE end
  end
  local s, why = read(id, key)
  -- A mapping that others have written may name anybody's.
  if ARGV[at + 1] == '' and (not s or s.broadcaster ~= ARGV[at + 2]) then return GONE end
  if not s then return why end
  settle(s)
  local holders, fields = {}, call('HGETALL', s.key)
  local texts = {}
  for i = 1, #fields, 2 do
    local field, text = fields[i], fields[i + 1]
    if string.sub(field, 1, 2) ~= 'h:' then
      texts[field] = text
    elseif #field > 2 and ends(lease_end(text)) > now_ms then
      holders[#holders + 1] = string.sub(field, 3)
      holders[#holders + 1] = ends(lease_end(text))
    end
  end
  local is_orphan = s.disconnected > 0 and s.disconnected + grace_ms <= now_ms
  local answer = { id, s.generation, s.seen, s.disconnected, s.attempts, s.claimed, is_orphan and 1 or 0, ends(s.deadline),
    s.broadcaster, texts.config_json or '', texts.value or '', texts.last_update or '0' }
  for _, field in ipairs(holders) do answer[#answer + 1] = field end
  return answer
end, 1, 2, SHARED_KEYS))
