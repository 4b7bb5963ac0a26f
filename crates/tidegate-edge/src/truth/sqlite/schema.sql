-- Version 1. A database of another version is brought to this one when it is opened, step by step.

-- Where the rules stand: one row.
CREATE TABLE state (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    epoch TEXT NOT NULL,
    seq INTEGER NOT NULL,
    count INTEGER NOT NULL,
    digest BLOB NOT NULL
) STRICT;

-- `body` is the rule as JSON without its clicks, and what it is hashed from; the columns beside it are for finding.
CREATE TABLE rules (
    id TEXT NOT NULL PRIMARY KEY,
    host TEXT NOT NULL,
    path TEXT NOT NULL,
    destination TEXT NOT NULL,
    -- Live, disabled, scheduled or ended, and when that is over by itself. Whoever lists by it settles what is due
    -- before; what a request is answered never depends on it.
    state TEXT NOT NULL,
    next_at INTEGER,
    body TEXT NOT NULL,
    clicks INTEGER NOT NULL DEFAULT 0,
    -- Clicks that may be spent or have been: what a budget is debited by.
    granted INTEGER NOT NULL DEFAULT 0,
    last_click_at INTEGER
) STRICT;
CREATE UNIQUE INDEX rules_by_place ON rules (host, path);
CREATE INDEX rules_by_path ON rules (path, id);
CREATE INDEX rules_by_destination ON rules (destination, id);
CREATE INDEX rules_by_state ON rules (state, id);
CREATE INDEX rules_due ON rules (next_at) WHERE next_at IS NOT NULL;

-- Permits of rules with so many clicks that were given to workers. Standing: 0 with its worker, 1 returned, 2 lost.
CREATE TABLE blocks (
    worker TEXT NOT NULL,
    number INTEGER NOT NULL,
    rule TEXT NOT NULL,
    permits INTEGER NOT NULL,
    deadline_ms INTEGER NOT NULL,
    standing INTEGER NOT NULL,
    PRIMARY KEY (worker, number)
) STRICT, WITHOUT ROWID;
CREATE INDEX blocks_by_rule ON blocks (rule, standing, deadline_ms);
CREATE INDEX blocks_by_deadline ON blocks (standing, deadline_ms);

-- Clicks per day of UTC, counted from 1970; the last 90 days of a rule that had some.
CREATE TABLE days (
    rule TEXT NOT NULL,
    day INTEGER NOT NULL,
    clicks INTEGER NOT NULL,
    PRIMARY KEY (rule, day)
) STRICT, WITHOUT ROWID;

-- The last report of clicks of each worker, for an hour: one that comes twice counts once.
CREATE TABLE reports (
    worker TEXT NOT NULL PRIMARY KEY,
    number INTEGER NOT NULL,
    at_ms INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE tags (
    tag TEXT NOT NULL,
    id TEXT NOT NULL,
    PRIMARY KEY (tag, id)
) STRICT, WITHOUT ROWID;

-- Every change, as long as the log goes back. Hashes are of what left and what came; the digest and the count are of
-- all rules after it. An import is one change and has no id.
CREATE TABLE log (
    seq INTEGER PRIMARY KEY,
    id TEXT,
    before_host TEXT,
    before_path TEXT,
    host TEXT,
    path TEXT,
    body TEXT,
    left_hash BLOB NOT NULL,
    came_hash BLOB NOT NULL,
    digest BLOB NOT NULL,
    count INTEGER NOT NULL,
    at_ms INTEGER NOT NULL
) STRICT;
