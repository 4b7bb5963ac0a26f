-- What becomes of a page with the passing of time, whatever form it has.

local function drop(page, keys)
  work = work + 5
  ranks[page], dues[page] = nil, nil
  unlink(keys)
  on_index('ZREM', RANK, page)
  on_index('ZREM', DUE, page)
end

-- How far back the window of a page reaches: to its first edit.
local function covered(p)
  return math.max(math.min(now_ms - p.first, window_ms), 0)
end

-- The ring of a page if it counts in our window: until what was cut has left it, and its slot.
local function ring_of(p)
  local ring = p.ring
  return ring and cut_end(p) + window_ms > now_ms and ring
end

-- Edits of a page in the last `for_ms`, of our window at most.
local function edits_in(keys, p, for_ms)
  local from_ms, ring = now_ms + 1 - for_ms, ring_of(p)
  if ring then return (since(ring, ring.slots, ring.grain, from_ms)) end
  return call('ZCOUNT', keys.window, from_ms, '+inf')
end

-- Edits of the last five minutes of a page with so many in our window.
local function lately(keys, p, count)
  local ring = window_ms > SPIKE_MS and ring_of(p)
  if not ring then return edits_in(keys, p, math.min(SPIKE_MS, window_ms)) end
  local from_ms = math.max(now_ms, ring.last) + 1 - SPIKE_MS
  return math.min(since(ring, ring.lately, LATELY_GRAIN, from_ms), count)
end

-- Whether a page with so many edits in our window is trending and spiking.
local function judged(keys, p, count)
  local is_spiking, reach = false, covered(p)
  if reach > SPIKE_MS and count >= spike_minimum then
    local recent = lately(keys, p, count)
    local ratio = p.flags >= 2 and spike_ratio / 2 or spike_ratio
    is_spiking = recent >= spike_minimum
      and recent / SPIKE_MS >= ratio * ((count - recent) / (reach - SPIKE_MS))
  end
  return count >= promotion_threshold, is_spiking
end

-- Notes, as an event, whether a page has become, or is no longer, trending or spiking.
local function judge(page, keys, p)
  local was_trending, was_spiking = p.flags % 2 == 1, p.flags >= 2
  local count = kept_ms > window_ms and edits_in(keys, p, window_ms) or edits_of(p)
  local is_trending, is_spiking = judged(keys, p, count)
  p.flags = (is_trending and 1 or 0) + (is_spiking and 2 or 0)
  if is_trending ~= was_trending then emit(is_trending and 'trending' or 'trending_ended', page, count) end
  if is_spiking ~= was_spiking then emit(is_spiking and 'spiking' or 'spiking_ended', page, count) end
end

-- Drops a page, with events for what ends with it and why.
local function drop_and_emit(page, keys, p, kind, edits)
  drop(page, keys)
  if p and p.flags % 2 == 1 then emit('trending_ended', page, edits) end
  if p and p.flags >= 2 then emit('spiking_ended', page, edits) end
  emit(kind, page, edits)
end

-- Drops what has left everybody's window of a page: the page as it is then, or nothing and
-- whether it was the last of it.
local function settle(page, keys, p)
  if p.due + kept_ms > now_ms and p.last <= ahead_ms then return p, 0 end
  if p.last + kept_ms <= now_ms or p.last > ahead_ms then
    drop_and_emit(page, keys, p, 'cooled', 0)
    return nil, 1
  end
  if p.oldest + kept_ms <= now_ms then
    local left = call('ZREMRANGEBYSCORE', keys.window, '-inf', now_ms - kept_ms)
    work = work + left / 8
    local trimmed = redis.pcall('LTRIM', keys.editors, left, '-1')
    if trimmed.err then
      if not is_corrupt(trimmed) then error(trimmed, 0) end
      -- No list: as if they were lost. The next one needs an end.
      call('UNLINK', keys.editors)
      note_repaired(keys.editors)
      p.renewed = -RENEWED_MS
    end
    local first = call('ZRANGE', keys.window, '0', '0', 'WITHSCORES')
    local oldest = number_of(first[2], 0, p.last)
    if not oldest then
      -- Its window is lost: nothing of it counts.
      drop_and_emit(page, keys, p, 'cooled', 0)
      return nil, 1
    end
    p.count, p.oldest = math.max(p.count - left, 1), oldest
  end
  local ring = p.ring
  if ring and cut_end(p) + kept_ms <= now_ms then
    -- All that was cut has left everybody's window: the members are all there is.
    call('HDEL', keys.meta, 'ring')
    p.ring, p.cut = nil, 0
  elseif ring then
    local sum, before = since(ring, ring.slots, ring.grain, now_ms + 1 - kept_ms)
    ring.slots, ring.sum = string.sub(ring.slots, before + 1), sum
  end
  work = work + 15
  p.due = due_of(p)
  dues[page] = p.due + base_ms
  judge(page, keys, p)
  save(page, keys, p)
  return p, 0
end

-- Up to `limit` pages whose window has changed for everybody, or that are absurdly far ahead.
local function due(limit)
  flush_pages()
  local until_ms = int(now_ms + base_ms - kept_ms)
  local pages = on_index('ZRANGEBYSCORE', DUE, '-inf', until_ms, 'LIMIT', 0, limit)
  if #pages < limit then
    local from = '(' .. int(ahead_ms + base_ms)
    for _, page in ipairs(call('ZRANGEBYSCORE', DUE, from, '+inf', 'LIMIT', 0, limit - #pages)) do
      pages[#pages + 1] = page
    end
  end
  return pages
end

-- Looks after a page of the index of what is due, whose keys may be lost: as `settle`.
local function settle_or_drop(page, keys)
  local p = load(keys.meta)
  if not p then
    drop(page, keys)
    return nil, 1
  end
  if p.due + kept_ms <= now_ms or p.last > ahead_ms then return settle(page, keys, p) end
  -- It was put down by another window.
  dues[page] = p.due + base_ms
  return p, 0
end

-- Looks after up to `limit` of them, or some if each is much work; how many are not hot any more. One that cannot be read
-- goes, or it would stay the first that is due.
local function settle_due(limit)
  local expired = 0
  for number, page in ipairs(due(limit)) do
    if number > 8 and work >= MOST_WORK then break end
    local keys = keys_of(page)
    local is_read, failure, gone = pcall(settle_or_drop, page, keys)
    if not is_read then
      if not is_corrupt(failure) then error(failure, 0) end
      note_repaired(keys.meta)
      drop_and_emit(page, keys, nil, 'cooled', 0)
      gone = 1
    end
    expired = expired + gone
  end
  return expired
end

-- Says what `due` goes by, who comes first: every write does before it writes there.
local function pin_due()
  if not is_pinned then call('HSET', STATE, 'due_base', base_ms) end
end

-- Whether what is remembered since then is over.
local function is_over(first_ms)
  return first_ms + ACTIVITY_MS <= now_ms or first_ms > ahead_ms
end
