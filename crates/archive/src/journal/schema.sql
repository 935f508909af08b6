-- Tables of a journal. The states of `files`: 0 pending, 1 done, 2 failed.
CREATE TABLE options (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE facts (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
-- The files of the last run whose listing was accepted. size, etag, modified: as listed, or else as opened; position: the
-- place among all files.
CREATE TABLE files (
    id INTEGER PRIMARY KEY,
    url TEXT NOT NULL UNIQUE,
    position INTEGER NOT NULL,
    size INTEGER, etag TEXT, modified INTEGER,
    properties TEXT,
    state INTEGER NOT NULL,
    attempts INTEGER NOT NULL DEFAULT 0,
    class TEXT, error TEXT,
    -- The name of its own output, and what was written.
    written TEXT, receipt TEXT,
    -- The run in which it was read.
    run INTEGER,
    -- That run, where what was read then is in the output that was written last.
    committed INTEGER
);
-- The files whose current version is in no output.
CREATE INDEX open_files ON files (state, position) WHERE
    NOT (state = 1 AND (written IS NOT NULL OR coalesce(committed = run, 0)));
-- How each file was read. Of a member also: its kind; its extent, encoded with that of the kind; its sources, unless it
-- is the only one; its record, encoded with that of the kind: paths, documents and numbers of chunks of its nodes, values,
-- digests, coordinates. Rows of `files` do not grow when a file is read, so that their pages stay full.
CREATE TABLE contents (
    id INTEGER PRIMARY KEY,
    requests INTEGER, bytes INTEGER,
    kind INTEGER, extent BLOB, sources BLOB, record BLOB,
    -- The other files that it depends on, with their versions.
    related TEXT
);
-- The chunks of each array of each member.
CREATE TABLE chunks (
    node INTEGER NOT NULL, file INTEGER NOT NULL, chunks BLOB NOT NULL, PRIMARY KEY (node, file)
) WITHOUT ROWID;
CREATE TABLE nodes (id INTEGER PRIMARY KEY, path TEXT NOT NULL UNIQUE);
-- Metadata documents. first: the first document of the node, with which all others are encoded.
CREATE TABLE documents (id INTEGER PRIMARY KEY, node INTEGER NOT NULL, first INTEGER, text BLOB NOT NULL);
CREATE INDEX first_documents ON documents (node) WHERE first IS NULL;
-- Signatures. extent, record: those of the first member, with which the others' are encoded.
CREATE TABLE kinds (
    id INTEGER PRIMARY KEY, storage TEXT NOT NULL UNIQUE, signature TEXT NOT NULL,
    extent BLOB NOT NULL, record BLOB NOT NULL
);
-- Combined outputs, by their urls. plan: digest of rows and options of what is there; receipt: what was written; begun:
-- the same of what a run was about to put there, and may have put; begun_more: whether it adds files to those committed.
CREATE TABLE outputs (
    url TEXT PRIMARY KEY, plan TEXT, receipt TEXT, begun_plan TEXT, begun TEXT, begun_more INTEGER, written INTEGER
) WITHOUT ROWID;
-- The files of the output that was begun, with the runs in which they were read.
CREATE TABLE begun (file INTEGER PRIMARY KEY, run INTEGER NOT NULL);
-- What a later run needs to add files to an output, as long as all files up to the row `through` stay as they are.
CREATE TABLE tails (output TEXT PRIMARY KEY, through INTEGER NOT NULL, state BLOB NOT NULL) WITHOUT ROWID;
CREATE TRIGGER changed_files AFTER UPDATE OF state, position, run ON files
WHEN (old.state = 1 OR new.state = 1)
    AND (old.state <> new.state OR old.position <> new.position OR old.run IS NOT new.run)
BEGIN DELETE FROM tails WHERE through >= old.id; END;
CREATE TRIGGER deleted_files AFTER DELETE ON files WHEN old.state = 1
BEGIN DELETE FROM tails WHERE through >= old.id; END;
