-- What scripts of limits answer first, and what they remember: redis/codes.rs has the same names.
-- Of a take:
local REFUSED, ADMITTED, HELD, ELSEWHERE, WANTS_OVERRIDE, SUPPRESSED = 0, 1, 2, 3, 4, 5
-- Instead of a time to come back:
local NEVER = -1
-- Of a reservation or a lease:
local RESERVATION, OTHER_COST, NO_ROOM, UNKNOWN, GRANTED = 6, 7, 8, 9, 10
-- What has become of a reservation; the last is a charge that was never pending:
local PENDING, COMMITTED, RELEASED, LAPSED, CHARGED = 0, 1, 2, 3, 4
-- Of a take from several limits: whether all were charged, or the number of the one that holds.
local ALL_CHARGED, ALL_REFUSED, TRY_AGAIN = -2, -1, 0
-- Of a charge by an id, beside those: what it found under the id, or that there is no room for it.
local ALL_KNOWN, ALL_RELEASED, ALL_UNKNOWN, ALL_OTHER, ALL_NO_ROOM = -3, -4, -5, -6, -7
