-- What several edits begin with: each with a time, or all of now.
local DATED, UNDATED = 1, 2
-- So many edits are put into a window at once: of a large one that takes most of a millisecond.
local MOST_AT_ONCE = 200
