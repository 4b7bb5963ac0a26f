-- Where a session belongs; behind session.lua, in scripts that compare sessions with their sets.

-- The set that a session belongs to, and its place in it.
local function home(s)
  if s.disconnected == 0 then return ACTIVE, s.deadline end
  if s.claimed > 0 then return CLAIMED, s.claimed end
  if s.claimed < 0 then return DEAD end
  return DISCONNECTED, s.disconnected / 1000
end

-- The session of an id, if there is one that we know; or nothing, and why.
local function known(id, key)
  if is_id(id) then return read(id, key, true) end
end
