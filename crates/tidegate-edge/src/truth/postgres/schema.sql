-- Version 1. All of it is in a schema of its own, so that it gets in nobody's way in a database that others use too.
-- Text is compared by its bytes, whatever the database's language is: pages go on where the one before ended.

-- Where the rules stand: one row. Whoever writes holds its lock until it has committed, so that numbers have no gaps and
-- are seen in their order.
CREATE TABLE tidegate.state (
    one integer PRIMARY KEY CHECK (one = 1),
    -- Changes when somebody says that the database has gone back; what PostgreSQL knows of that itself comes with it.
    epoch text NOT NULL,
    seq bigint NOT NULL,
    count bigint NOT NULL,
    digest bytea NOT NULL,
    -- There is nothing before that in the log: it is cut off without looking for its end.
    log_from bigint NOT NULL
) WITH (fillfactor = 10);

-- `body` is the rule as JSON without its clicks, and what it is hashed from; the columns beside it are for finding.
CREATE TABLE tidegate.rules (
    id text COLLATE "C" PRIMARY KEY,
    host text COLLATE "C" NOT NULL,
    path text COLLATE "C" NOT NULL,
    -- How it begins: an index has no room for all of a long one.
    destination text COLLATE "C" NOT NULL,
    -- Live, disabled, scheduled or ended, and when that is over by itself. Whoever lists by it settles what is due
    -- before; what a request is answered never depends on it.
    state text COLLATE "C" NOT NULL,
    next_at bigint,
    body text NOT NULL,
    clicks bigint NOT NULL DEFAULT 0,
    -- Clicks that may be spent or have been: what a budget is debited by.
    granted bigint NOT NULL DEFAULT 0,
    last_click_at bigint,
    -- Looked at when a group is committed: inside it rules may exchange their places.
    CONSTRAINT rules_by_place UNIQUE (host, path) DEFERRABLE INITIALLY DEFERRED
);
CREATE INDEX rules_by_path ON tidegate.rules (path, id);
CREATE INDEX rules_by_destination ON tidegate.rules (destination, id);
CREATE INDEX rules_by_state ON tidegate.rules (state, id);
CREATE INDEX rules_due ON tidegate.rules (next_at) WHERE next_at IS NOT NULL;

-- Permits of rules with so many clicks that were given to workers. Standing: 0 with its worker, 1 returned, 2 lost. Whoever
-- changes one holds the lock of its rule.
CREATE TABLE tidegate.blocks (
    worker text COLLATE "C" NOT NULL,
    number bigint NOT NULL,
    rule text COLLATE "C" NOT NULL,
    permits bigint NOT NULL,
    deadline_ms bigint NOT NULL,
    standing smallint NOT NULL,
    PRIMARY KEY (worker, number)
);
CREATE INDEX blocks_by_rule ON tidegate.blocks (rule, standing, deadline_ms);
CREATE INDEX blocks_by_deadline ON tidegate.blocks (standing, deadline_ms);

-- Clicks per day of UTC, counted from 1970; the last 90 days of a rule that had some.
CREATE TABLE tidegate.days (
    rule text COLLATE "C" NOT NULL,
    day bigint NOT NULL,
    clicks bigint NOT NULL,
    PRIMARY KEY (rule, day)
);

-- The last report of clicks of each worker, for an hour: one that comes twice counts once.
CREATE TABLE tidegate.reports (
    worker text COLLATE "C" PRIMARY KEY,
    number bigint NOT NULL,
    at_ms bigint NOT NULL
);
CREATE INDEX reports_by_time ON tidegate.reports (at_ms);

CREATE TABLE tidegate.tags (
    tag text COLLATE "C" NOT NULL,
    id text COLLATE "C" NOT NULL,
    PRIMARY KEY (tag, id)
);

-- Every change, as long as the log goes back. Hashes are of what left and what came; the digest and the count are of
-- all rules after it. An import is one change and has no id.
CREATE TABLE tidegate.log (
    seq bigint PRIMARY KEY,
    id text,
    before_host text,
    before_path text,
    host text,
    path text,
    body text,
    left_hash bytea NOT NULL,
    came_hash bytea NOT NULL,
    digest bytea NOT NULL,
    count bigint NOT NULL,
    at_ms bigint NOT NULL
);
