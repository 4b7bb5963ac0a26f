-- What scripts of limits answer first, and what they remember: redis/codes.rs has the same names.
-- Of a take:
local REFUSED, ADMITTED, HELD, ELSEWHERE, WANTS_OVERRIDE, SUPPRESSED = 0, 1, 2, 3, 4, 5
-- Instead of a time to come back:
local NEVER = -1
-- Of a reservation or a lease:
local RESERVATION, OTHER_COST, NO_ROOM, UNKNOWN, GRANTED = 6, 7, 8, 9, 10
-- What has become of a reservation:
local PENDING, COMMITTED, RELEASED, LAPSED = 0, 1, 2, 3
-- Of a take from several limits: whether all were charged, or the number of the one that holds.
local ALL_CHARGED, ALL_REFUSED, TRY_AGAIN = -2, -1, 0
