-- declare: what is declared of a part, changed if it is as expected.
--
-- KEYS  the marker of the first partition; then of each item the same again
-- Own   the field, what is expected there (empty: nothing), what to put there instead
--       (empty: only tells)
-- Answers  the store's time, 1 if there is a marker, 1 if it was changed, 1 if it cannot be now,
--          what was there
local now_ms = now()

return each(function(_, at)
  local field, expected, wanted = ARGV[at + 1], ARGV[at + 2], ARGV[at + 3]
  -- Without a marker, after a flush, nothing is declared until it is there again: it
  -- tells of the loss, and gives the hash its time to live.
  if redis.call('EXISTS', KEYS[1]) == 0 then return { now_ms, 0, 0, 0, '' } end
  local stored = redis.call('HGET', KEYS[1], field) or ''
  if wanted == '' or stored ~= expected then return { now_ms, 1, 0, 0, stored } end
  -- A server whose memory is full can still be looked at: that is no reason to leave it.
  local written = redis.pcall('HSET', KEYS[1], field, wanted)
  if type(written) == 'table' and written.err then return { now_ms, 1, 0, 1, stored } end
  return { now_ms, 1, 1, 0, stored }
end, 1, 3)
