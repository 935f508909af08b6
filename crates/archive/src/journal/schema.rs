//! Schema of the journal.

use std::{io::Read, path::Path};

use rusqlite::Connection;

use super::{JournalError, listing::STAGED};

/// SQLite application ID of a journal: "vjrn".
const APPLICATION: i32 = 0x766A_726E;
/// Version of the schema.
const VERSION: i32 = 4;

/// Condition: the current version of the file is in no output.
macro_rules! open {
    () => {
        "NOT (state = 1 AND (written IS NOT NULL OR coalesce(committed = run, 0)))"
    };
}
pub(super) const OPEN: &str = open!();

/// Tables; the states of `files` are those of [`super::rows::State`].
const TABLES: &str = concat!(
    "
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
CREATE INDEX open_files ON files (state, position) WHERE ",
    open!(),
    ";
-- How each file was read. Of a member also: its kind; its extent, encoded with that of the kind; its sources, unless it
-- is the only one; its record, encoded with that of the kind: paths, documents and numbers of chunks of its nodes, values,
-- digests, coordinates. Rows of `files` do not grow when a file is read, so that their pages stay full.
CREATE TABLE contents (
    id INTEGER PRIMARY KEY,
    milliseconds INTEGER, requests INTEGER, bytes INTEGER, warnings TEXT,
    kind INTEGER, extent BLOB, sources BLOB, record BLOB
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
"
);

/// Size of SQLite's cache of pages, in KiB.
const CACHE: i64 = 64 << 10;

/// Acquires the lock, which lasts until the connection is closed.
pub(super) fn lock(connection: &Connection) -> rusqlite::Result<()> {
    connection.busy_timeout(std::time::Duration::ZERO)?;
    connection.pragma_update(None, "locking_mode", "EXCLUSIVE")?;
    connection.pragma_update_and_check(None, "journal_mode", "WAL", |_| Ok(()))?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    connection.pragma_update(None, "cache_size", -CACHE)?;
    connection.execute_batch("BEGIN EXCLUSIVE; COMMIT")
}

/// Creates the tables of a new file; rejects a file of another version, or one that is not a journal.
pub(super) fn settle(connection: &mut Connection, path: &Path) -> Result<(), JournalError> {
    let failed = |error| JournalError::of(path, error);
    match is_empty(connection).map_err(failed)? {
        true => create(connection).map_err(failed)?,
        false => check(connection, path)?,
    }
    connection.execute_batch(STAGED).map_err(failed)
}

fn is_empty(connection: &Connection) -> rusqlite::Result<bool> {
    connection.query_row("SELECT count(*) = 0 FROM sqlite_schema", [], |row| row.get(0))
}

/// Rejects a file of another version, or one that is not a journal.
pub(super) fn check(connection: &Connection, path: &Path) -> Result<(), JournalError> {
    let failed = |error| JournalError::of(path, error);
    let number = |name: &str| connection.pragma_query_value(None, name, |row| row.get::<_, i32>(0));
    let (application, version) =
        (number("application_id").map_err(failed)?, number("user_version").map_err(failed)?);
    match application {
        APPLICATION if version == VERSION => is_of_this_program(connection, path),
        APPLICATION => Err(JournalError::Version {
            path: path.to_owned(),
            found: version.to_string(),
            expected: VERSION.to_string(),
        }),
        _ => Err(JournalError::NotAJournal {
            path: path.to_owned(),
            reason: "another program's database".to_owned(),
        }),
    }
}

fn create(connection: &mut Connection) -> rusqlite::Result<()> {
    let transaction = connection.transaction()?;
    transaction.execute_batch(TABLES)?;
    transaction.execute(
        "INSERT INTO facts (name, value) VALUES ('program', ?1), ('run', '0'), ('files', '0'), ('next', '0')",
        [env!("CARGO_PKG_VERSION")],
    )?;
    transaction.pragma_update(None, "application_id", APPLICATION)?;
    transaction.pragma_update(None, "user_version", VERSION)?;
    transaction.commit()
}

/// Rejects a journal of another version of the program, whose rows may differ.
fn is_of_this_program(connection: &Connection, path: &Path) -> Result<(), JournalError> {
    let found: String = connection
        .query_row("SELECT value FROM facts WHERE name = 'program'", [], |row| row.get(0))
        .map_err(|error| JournalError::of(path, error))?;
    let expected = env!("CARGO_PKG_VERSION").to_owned();
    if found == expected {
        return Ok(());
    }
    Err(JournalError::Version { path: path.to_owned(), found: format!("{found} of the program"), expected })
}

/// Returns whether a file that cannot be opened is nevertheless a journal: by its header or, if the header names no
/// program, by its name.
pub(super) fn is_damaged_journal(path: &Path) -> bool {
    let mut header = [0; 100];
    let read = std::fs::File::open(path).and_then(|mut file| {
        let mut length = 0;
        while let Some(rest) = header.get_mut(length..).filter(|rest| !rest.is_empty()) {
            match file.read(rest)? {
                0 => break,
                count => length = length.saturating_add(count),
            }
        }
        Ok(())
    });
    let program =
        header.get(68..72).and_then(|bytes| <[u8; 4]>::try_from(bytes).ok()).map(i32::from_be_bytes);
    let is_named = path.extension().is_some_and(|extension| extension == "journal");
    read.is_ok()
        && header.starts_with(b"SQLite format 3\0")
        && (program == Some(APPLICATION) || (program == Some(0) && is_named))
}

/// Increments and returns the number of the run.
pub(super) fn next_run(connection: &Connection) -> rusqlite::Result<i64> {
    connection.execute("UPDATE facts SET value = CAST(value AS INTEGER) + 1 WHERE name = 'run'", [])?;
    connection.query_row("SELECT CAST(value AS INTEGER) FROM facts WHERE name = 'run'", [], |row| row.get(0))
}
