-- Where an import is put together: in tables of its connection, which nobody else sees and which end with it. They are not in
-- the write-ahead log.

-- A rule of the file, as it would be if it were new. What is left out goes, and so does what is found to be in the database
-- already: what is left then is new.
CREATE TEMPORARY TABLE staged (
    n bigint NOT NULL,
    line bigint NOT NULL,
    id text COLLATE "C" NOT NULL,
    is_made boolean NOT NULL,
    version bigint NOT NULL,
    host text COLLATE "C" NOT NULL,
    path text COLLATE "C" NOT NULL,
    destination text COLLATE "C" NOT NULL,
    state text COLLATE "C" NOT NULL,
    next_at bigint,
    clicks bigint NOT NULL,
    hash bytea NOT NULL,
    tags text[] COLLATE "C" NOT NULL,
    body text NOT NULL
);

-- A rule of the database that changes or goes: tags that leave it and come to it, and what it is then; nothing if it goes.
-- `clicks` are those that its state was judged by, if it has only so many.
CREATE TEMPORARY TABLE touched (
    id text COLLATE "C" PRIMARY KEY,
    left_tags text[] COLLATE "C" NOT NULL,
    came_tags text[] COLLATE "C" NOT NULL,
    host text COLLATE "C",
    path text COLLATE "C",
    destination text COLLATE "C",
    state text COLLATE "C",
    next_at bigint,
    clicks bigint,
    body text
);
CREATE INDEX touched_and_bounded ON touched (id) WHERE clicks IS NOT NULL;
