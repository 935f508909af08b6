-- Temporary tables of a listing that is not accepted yet. listing: position: the place in this run's listing; known: the
-- file's row; changed: whether the file was replaced. looked: files that the listing says too little about and that a
-- check found gone or replaced. names: names of outputs. dropped: files whose content is no longer valid.
CREATE TEMP TABLE listing (
    position INTEGER PRIMARY KEY,
    url TEXT NOT NULL UNIQUE,
    known INTEGER,
    changed INTEGER NOT NULL,
    size INTEGER, etag TEXT, modified INTEGER,
    properties TEXT
);
CREATE INDEX listing_known ON listing (known) WHERE known IS NOT NULL;
CREATE TEMP TABLE looked (
    known INTEGER PRIMARY KEY,
    gone INTEGER NOT NULL,
    size INTEGER, etag TEXT, modified INTEGER
);
CREATE TEMP TABLE names (name TEXT PRIMARY KEY, url TEXT NOT NULL) WITHOUT ROWID;
CREATE TEMP TABLE dropped (file INTEGER PRIMARY KEY);
