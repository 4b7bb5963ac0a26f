-- What look.lua is to know of runs.
--
-- KEYS  as run.lua has them, then the keys to look at
local IS_PART = { fields = true, processed = true, failures = true, failed_at = true, to_retry = true, tasks = true }

-- A run, if there is one that is ours; false and whether there is something else.
local function known(id)
  local is_read, run = pcall(read, id)
  if is_read then return run end
  if not is_corrupt(run) and not string.find(tostring(run), 'CORRUPT', 1, true) then error(run, 0) end
  return false, true
end

-- What is left of a run may outlive it by as much as TTLs are apart.
local function is_left_over(key)
  local left_ms = call('PTTL', key)
  return left_ms ~= -1 and left_ms <= 2 * RENEW_MS + 2 * slack_ms
end

local function judge(family, key, subject, report)
  if family == 'pipeline' then
    local run = known(subject)
    if run == false then
      -- An older program had other fields here.
      if not has_field(key, 'ends_ms') then return false end
      report('unreadable')
    elseif run and not run.is_over and not run.is_absurd then
      local is_listed = listed(DUE, subject) and (run.status == 'deleted' or listed(STARTED[run.status], subject))
      if not is_listed then report('data-without-entry') end
    end
  elseif IS_PART[family] then
    if not exists(part('pipeline', subject)) and not is_left_over(key) then report('data-without-entry') end
  elseif family == 'task_start' then
    local run, task = string.match(subject, '^([^:]*):(.*)$')
    run = string.gsub(run, '%%(%x%x)', function(hex) return string.char(tonumber(hex, 16)) end)
    if has_field(part('tasks', run), task) then return end
    -- An older program did not escape the run: then this is the name of none.
    if not exists(part('pipeline', run)) then return false end
    if not is_left_over(key) then report('data-without-entry') end
  end
end

local function judge_entry(family, key, subject, id, score)
  local function remove() call('ZREM', key, id) end
  -- Of what a run has: `id` is an item or a task, and of a hash `score` what is under it.
  if family == 'failures' then
    if not failure(score) then return 'unreadable' end
    if not listed(part('failed_at', subject), id) and not is_left_over(key) then return 'data-without-entry' end
    return
  elseif family == 'failed_at' or family == 'to_retry' then
    if not has_field(part('failures', subject), id) and not is_left_over(key) then return 'entry-without-data', remove end
    return
  elseif family == 'tasks' then
    return not task_of(score) and 'unreadable' or nil
  end
  local run, is_something = known(id)
  if run == nil then
    local due_ms = family == 'runs_due' and tonumber(score) or listed(DUE, id)
    -- One that is over is taken away by the next cleanup, wherever it is listed; without any, the index ends too.
    local is_left = due_ms ~= true and due_ms and due_ms <= clock_ms and due_ms > clock_ms - 4 * ttl_ms - 86400000
    if due_ms == true or is_left then return end
    return 'entry-without-data', remove
  end
  if is_something then return end
  if family == 'runs' and run.status ~= subject and not run.is_over then return 'misplaced' end
end

return look(SHARED_KEYS + 2, judge, judge_entry, { failed = true })
