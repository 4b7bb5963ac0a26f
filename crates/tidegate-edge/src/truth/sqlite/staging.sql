-- Where an import is put together: no file has it, and nobody else sees it.

-- A rule of the file. `body` is what it will be: as if it were new, until it is compared with what there is; `version` and
-- `hash` are those of a new one. `action` says what becomes of it: 0 new, 1 the same, 2 changed, 3 left out.
CREATE TABLE staging.staged (
    n INTEGER PRIMARY KEY,
    line INTEGER NOT NULL,
    id TEXT NOT NULL,
    is_made INTEGER NOT NULL,
    version INTEGER NOT NULL,
    host TEXT NOT NULL,
    path TEXT NOT NULL,
    destination TEXT NOT NULL,
    state TEXT NOT NULL,
    next_at INTEGER,
    clicks INTEGER NOT NULL,
    action INTEGER NOT NULL,
    is_moved INTEGER NOT NULL DEFAULT 0,
    hash BLOB NOT NULL,
    body TEXT NOT NULL
) STRICT;

CREATE TABLE staging.staged_tags (n INTEGER NOT NULL, tag TEXT NOT NULL) STRICT;

-- Rules that are to be deleted, and tags that are to go with what was changed or deleted.
CREATE TABLE staging.leaving (id TEXT NOT NULL PRIMARY KEY) STRICT, WITHOUT ROWID;
CREATE TABLE staging.left_tags (tag TEXT NOT NULL, id TEXT NOT NULL, PRIMARY KEY (tag, id)) STRICT, WITHOUT ROWID;
