-- The form of a page in a space that only counts: one string, hot or not.
--
-- It has flags (1 trending, 2 spiking, 4 hot), the exponent of its ring's grain, how many bytes a slot has for its count, how
-- many slots of half a minute there are; what all slots come to, and all since it began; when it began and when it
-- was last counted (ms); what the slots of half a minute come to; then the slots, as ring.lua has them. Nothing of it is ever cut, so its ring always counts. It is over
-- with the last count: the oldest that is known for certain.
local PAGE, PAGE_BYTES, HOT_FLAG, MAX_WIDTH, MAX_COUNTED = '<BBBBI6I6I6I6I6', 34, 4, 6, 1099511627775
