-- What cleanups and removals do about keys that a partition shares and that are not ours.

-- How many pages a call compares, about: the rest is for later ones.
local MATCHED_AT_A_TIME, MAX_SCANS = 200, 4

-- Makes both indices of hot pages list a page, where it belongs, or none if it cannot be read.
local function match(pages)
  local ranked, dated = {}, {}
  local function put(index, members)
    if members[1] then call('ZADD', index, unpack(members)) end
  end
  for _, page in ipairs(pages) do
    local keys = keys_of(page)
    local is_read, p = pcall(load, keys.meta)
    if not is_read and not is_corrupt(p) then error(p, 0) end
    if is_read and p then
      ranked[#ranked + 1], ranked[#ranked + 2] = rank_of(edits_of(p), p.last), page
      dated[#dated + 1], dated[#dated + 2] = p.due + base_ms, page
    else
      unlink(keys)
      call('ZREM', RANK, page)
      call('ZREM', DUE, page)
    end
    if #ranked >= 2000 then
      put(RANK, ranked)
      put(DUE, dated)
      ranked, dated = {}, {}
    end
  end
  put(RANK, ranked)
  put(DUE, dated)
end

-- Goes through some pages of the one index and then of the other, from where it was left; whether
-- there are more. What comes meanwhile and is missed makes it begin again.
local function match_some(from)
  local number, cursor = string.match(from, '^([12]) (%d+)$')
  -- Anybody may have written there.
  if not number or #cursor > 19 then number, cursor = 1, '0' end
  number = tonumber(number)
  local matched, scans = 0, 0
  -- Either may come to be.
  is_made = true
  repeat
    local found = call('ZSCAN', number == 1 and RANK or DUE, cursor, 'COUNT', MATCHED_AT_A_TIME)
    local pages = {}
    for i = 1, #found[2], 2 do pages[#pages + 1] = found[2][i] end
    match(pages)
    cursor, matched, scans = found[1], matched + #pages, scans + 1
    if cursor == '0' then number = number + 1 end
  until number > 2 or matched >= MATCHED_AT_A_TIME or scans >= MAX_SCANS
  if number > 2 then
    call('HDEL', STATE, 'matching')
    return false
  end
  call('HSET', STATE, 'matching', number .. ' ' .. cursor)
  return true
end

-- Repairs what the partition shares, whatever is wrong with it; whether that is to be gone on with.
-- Indices that list not as many pages as each other are wrong, and so are those that an edit has
-- begun anew.
local function repair_shared()
  on_index('ZCARD', ACTIVITIES)
  local is_apart = on_index('ZCARD', RANK) ~= on_index('ZCARD', DUE)
  local from = call('HGET', STATE, 'matching')
  if is_apart and not from and not call('HGET', STATE, 'mended') then note_repaired(RANK) end
  -- One that was made anew just now has to be gone through from the beginning.
  if is_apart and (is_repaired or not from) then from = '' end
  local is_more = from and match_some(from) or false
  on_events('XLEN')
  return is_more
end
