-- What scripts of hot pages answer: redis/codes.rs has the same names.
-- What became of an edit:
local REMEMBERED, PROMOTED, ADDED, REJECTED, DUPLICATE, TOO_LATE, COUNTED = 0, 1, 2, 3, 4, 5, 6
-- Or of counts that were gathered, that they were here before; or that nothing was done, since the call had enough to do:
local REPEATED, LATER = 7, 8
-- More by so much if it counted as activity, and for each page that is not hot any more: most
-- edits are answered with one number, which takes a server the least.
local ACTIVITY, EXPIRED = 16, 32
-- What a page was that is removed:
local NOT_KNOWN, WAS_REMEMBERED, WAS_HOT = 0, 1, 2
-- What a position is among the events: some since may be gone, or it is ahead of the clock.
local KNOWN, MISSED, IMPOSSIBLE = 0, 1, 2
-- Instead of a place to go on from:
local NO_MORE = -1
