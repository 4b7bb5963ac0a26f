-- What scripts of runs answer first: redis/codes.rs has the same names.
local DONE = 0
-- Why not, and what comes behind it:
-- nothing
local UNKNOWN, UNKNOWN_TASK, TOO_MANY_FIELDS, TOO_MANY_TASKS, TOO_MANY_RUNS = 1, 2, 3, 4, 5
-- the state and the attempt
local ENDED, LIVE = 6, 7
-- the attempt
local STALE = 8
-- how many were added
local FULL = 9
