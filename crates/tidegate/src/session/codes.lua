-- What scripts of sessions answer instead of a list, and in one: redis/codes.rs has the same names.
-- Why not:
local GONE, REAPING, IS_ACTIVE, IS_DISCONNECTED, LAPSED, STALE, CROWDED, FULL, UNCLAIMED = 1, 2, 3, 4, 5, 6, 7, 8, 9
-- There is something under the name of a session, and it is none.
local FOREIGN = 10
-- What a broadcaster had that activates a session:
local NOTHING, A_DISCONNECTED, AN_ACTIVE = 1, 2, 3
-- Who holds a session after one has left it:
local NOBODY, OTHERS = 0, 1
-- What is listed:
local LIST_ACTIVE, LIST_DISCONNECTED, LIST_CLAIMED, LIST_DEAD = 0, 1, 2, 3
