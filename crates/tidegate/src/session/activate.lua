-- activate: the session of a broadcaster, the one it has or a new one.
--
-- Keys  the broadcaster, the new session
-- Own   the new session's id, broadcaster, config, holder (empty: somebody will connect)
-- Answers  what there was (NOTHING, A_DISCONNECTED session, AN_ACTIVE one), its id,
--          its generation, until when it is held; or why not
return finish(each(function(k, at)
  local id, broadcaster, config, holder = ARGV[at + 1], ARGV[at + 2], ARGV[at + 3], ARGV[at + 4]
  local known = mapped(KEYS[k])
  local s = known and living(known, nil, '')
  if s and s.broadcaster == broadcaster then
    if holder ~= '' and is_crowded(s, holder) then return CROWDED end
    local found = s.disconnected > 0 and A_DISCONNECTED or AN_ACTIVE
    local held = hold(s, holder, 'config_json', config, written(s))
    return { found, s.id, held[1], held[2] }
  end
  local sessions = call('ZCARD', ACTIVE) + call('ZCARD', DISCONNECTED) + call('ZCARD', CLAIMED) + call('ZCARD', DEAD)
  if sessions >= max_sessions then return FULL end
  s = { id = id, key = KEYS[k + 1], broadcaster = broadcaster, generation = 1, seen = now_ms, deadline = 0,
    disconnected = 0, attempts = 0, claimed = 0, renewed = -RENEWED_MS, hand = '' }
  call('SET', KEYS[k], id, 'PX', retention_ms + slack_ms)
  local held = hold(s, holder, 'broadcaster_user_id', broadcaster, 'value', '', 'config_json', config, written(s))
  return { NOTHING, id, held[1], held[2] }
end, 2, 4, SHARED_KEYS))
