-- What look.lua is to know of sessions. What is not recognised is somebody else's, as everywhere; sessions of an older
-- program wait to be taken over, and that is no defect.
--
-- KEYS  as space.lua has them, then the keys to look at
local LONG_MS = 30 * 86400000
local SET_OF = { active = ACTIVE, disconnected = DISCONNECTED, claimed = CLAIMED, dead = DEAD }

local function judge(family, key, subject, report)
  if family == 'session' then
    local s = known(subject, key)
    if not s then return false end
    if to_take_over(s) then
      if s.is_unreadable then report('unreadable') end
      return ANY_END
    end
    local set, score = home(s)
    local there = listed(set, s.id)
    if not there or score and there ~= true and there ~= score then report('data-without-entry') end
  elseif family == 'broadcaster' then
    local id = call('GET', key)
    local s = known(id)
    if not s or s.broadcaster ~= subject then return false end
    if to_take_over(s) then return ANY_END end
  elseif family == 'ref_count' then
    local s, why = known(subject)
    if not is_id(subject) or why == FOREIGN or not counted(subject) then return false end
    if s and to_take_over(s) then return ANY_END end
  end
end

local function judge_entry(family, key, _, id, score)
  local set = SET_OF[family]
  local s, why = known(id)
  if s then
    if not to_take_over(s) and home(s) ~= set then return 'misplaced' end
    return
  end
  local function remove() call('ZREM', key, id) end
  if not is_id(id) then return 'entry-without-data', remove end
  if why ~= GONE then return 'entry-without-data' end
  -- A session that nobody has taken away ends by itself after its retention; a cleanup finds its entry then, and among
  -- the dead a reconciliation. Later than that nothing is left.
  local age_ms = now_ms - tonumber(score) * (family == 'disconnected' and 1000 or 1)
  if age_ms < retention_ms / 2 or age_ms > 4 * retention_ms + LONG_MS then return 'entry-without-data', remove end
end

return look(SHARED_KEYS + 2, judge, judge_entry, { session = true, broadcaster = true, ref_count = true })
