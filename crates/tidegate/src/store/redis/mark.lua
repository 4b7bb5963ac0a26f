-- mark: the marker of a partition, written at first use, read on every new
-- connection and every few seconds.
--
-- KEYS  the marker, a hash: partitions, hash (how subjects are spread), id (random, tells
--       this marker from the next), run (the server that was last seen), lost_ms (when
--       writes were last known to have been lost, 0 for never), lost_run (the server that
--       was found then), lost_id (the marker that was found then), secret (of the first
--       partition: what all who share the store make checks with)
-- ARGV  now, partitions, hash, run ('' if it is to be found out, '-' if it cannot be), known
--       (1 if this process has seen the marker before), known_run (the server it saw then),
--       ttl_ms, the secret to be if there is none ('' if this partition has none), 1 to write
--       nothing, the id to be if there is none, known_id (that of the marker it saw then)
-- Returns partitions and hash as stored, 1 if this call found a loss (a marker that
--       was there is gone or has been made anew, or the server is not the one that was; each
--       is found only once, whoever comes first), the secret, how long ago writes were last
--       lost in ms, -1 for never; run, id, why the server takes no writes, '' if it does, and the
--       bytes of memory that it uses and may use, '' if it does not say
local stored = redis.call('HMGET', KEYS[1], 'partitions', 'hash', 'run', 'lost_ms', 'lost_run', 'secret', 'id', 'lost_id')
local partitions, hash, id = stored[1] or ARGV[2], stored[2] or ARGV[3], stored[7] or ARGV[10]
-- Asked here, it takes no way of its own.
local run = ARGV[4]
if run == '' then
  local info = redis.pcall('INFO', 'server')
  run = type(info) == 'string' and string.match(info, 'run_id:(%x+)') or '-'
end
-- Who may not be asked who it is may not be asked this.
local memory = run ~= '-' and redis.pcall('INFO', 'memory')
local function bytes(name) return type(memory) == 'string' and string.match(memory, '\n' .. name .. ':(%d+)') or '' end
local used, most = bytes('used_memory'), bytes('maxmemory')
if partitions ~= ARGV[2] or hash ~= ARGV[3] then return { partitions, hash, 0, '', -1, run, '', '', used, most } end
if ARGV[9] == '1' then return { partitions, hash, 0, stored[6] or ARGV[8], -1, run, '', '', used, most } end

local function another(seen) return seen and seen ~= '' and seen ~= '-' and run ~= '-' and seen ~= run end
-- Gone while nobody looked: others may have made it anew meanwhile, or a call has, who
-- stamped the loss then.
local gone = ARGV[5] == '1' and (not stored[1] or ARGV[11] ~= '' and ARGV[11] ~= stored[7])
gone = gone and not (stored[7] and stored[8] == stored[7])
local lost_ms = tonumber(stored[4] or '0')
local moved = (another(stored[3]) or another(ARGV[6])) and stored[5] ~= run
-- A call has stamped a loss where there is no marker. Any other date is that of an earlier
-- loss: a marker may come back from an old copy.
local is_stamped = not stored[1] and lost_ms > 0
gone = gone or is_stamped
local lost = gone or moved
if lost and not is_stamped then lost_ms = now() end
local secret = stored[6] or ARGV[8]

-- Always written, though mostly it is there: this tells whether the server takes writes.
local written = redis.pcall('HSET', KEYS[1], 'partitions', partitions, 'hash', hash, 'id', id)
if type(written) == 'table' and written.err then
  -- One that takes none can be asked all the same, if there is nothing new to be known.
  local is_whole = stored[1] and stored[4] and stored[7] and not lost
  local code = string.match(written.err, '%-?(%u+) ')
  if not is_whole or code ~= 'OOM' and code ~= 'MISCONF' and code ~= 'NOREPLICAS' then return written end
else
  written = nil
  if run ~= '-' then redis.call('HSET', KEYS[1], 'run', run) end
  if lost then
    redis.call('HSET', KEYS[1], 'lost_ms', int(lost_ms), 'lost_run', run)
  elseif not stored[4] then
    redis.call('HSET', KEYS[1], 'lost_ms', '0')
  end
  if gone then redis.call('HSET', KEYS[1], 'lost_id', id) end
  if secret ~= '' and not stored[6] then redis.call('HSET', KEYS[1], 'secret', secret) end
end
redis.pcall('PEXPIRE', KEYS[1], ARGV[7])
local since_loss_ms = lost_ms > 0 and math.max(0, now() - lost_ms) or -1
return {
  partitions, hash, lost and 1 or 0, secret, since_loss_ms, run, id, written and written.err or '', used, most,
}
