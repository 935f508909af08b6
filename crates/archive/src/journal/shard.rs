//! The journals of shards: sealed once all files of the shard are read, and imported into the journal of another run.

use std::{collections::BTreeMap, path::Path};

use rusqlite::{Connection, types::ValueRef};
use sha2::{Digest as _, Sha256};

use super::{
    Failure, Journal, JournalError, class_name, differing, shard_conflict, shard_damaged, shard_unopened,
};
use crate::{Result, Shard};

/// The facts that identify the shard and the list that it belongs to, and the digest of a complete journal.
const SHARD: &str = "shard";
const LIST: &str = "list";
const SEAL: &str = "seal";

/// The tables of which a seal is the digest.
const TABLES: [&str; 7] = ["options", "files", "contents", "chunks", "nodes", "documents", "kinds"];
/// Number of files that are imported in one transaction.
const PAGE: u64 = 1000;

/// What identifies the complete journal of a shard.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Sealed {
    /// The shard.
    pub(crate) shard: Shard,
    /// Number of its files.
    pub(crate) files: u64,
    /// Number of those that could not be read.
    pub(crate) failed: u64,
    /// Digest of the list of files.
    list: String,
    /// The options on which records depend.
    options: BTreeMap<String, String>,
    /// Digest of all records.
    digest: String,
}

impl Sealed {
    /// Checks that the shard belongs to a run with these options, over this list.
    pub(crate) fn check(&self, name: &str, options: &BTreeMap<String, String>, list: &str) -> Result<()> {
        let shard = self.shard;
        let differences = differing(&self.options, options);
        if !differences.is_empty() {
            let text = format!("shard {shard} was read with other options: {}", differences.join("; "));
            let advice = "give the same options to all shards and to the merge";
            return Err(shard_conflict(format!("{name}: {text}"), advice));
        }
        if self.list != list {
            let advice = "give the same list of files to all shards and to the merge";
            return Err(shard_conflict(format!("{name}: shard {shard} of another list of files"), advice));
        }
        Ok(())
    }
}

impl Journal {
    /// Returns the seal of a journal that was complete, and removes it: the journal may change.
    pub(crate) fn unseal(&self) -> Result<Option<Sealed>> {
        if self.fact(SEAL)?.is_none() {
            return Ok(None);
        }
        let sealed = self.sealed(&self.path.display().to_string())?;
        self.set_fact(SEAL, None)?;
        Ok(Some(sealed))
    }

    /// Records which shard of which list the journal has.
    pub(crate) fn set_shard(&self, shard: Shard, list: &str) -> Result<()> {
        self.set_fact(SHARD, Some(&shard.to_string()))?;
        Ok(self.set_fact(LIST, Some(list))?)
    }

    /// Seals a journal whose files are all read, and closes it as a single file.
    pub(crate) fn seal(self) -> Result<Sealed> {
        let digest = self.query(digest)?;
        self.set_fact(SEAL, Some(&digest))?;
        let mode: String =
            self.query(|it| it.pragma_update_and_check(None, "journal_mode", "DELETE", |row| row.get(0)))?;
        if mode != "delete" {
            return Err(JournalError::failed(&self.path, "the write-ahead log cannot be closed").into());
        }
        let sealed = self.sealed(&self.path.display().to_string())?;
        let Self { connection, path, .. } = self;
        connection.close().map_err(|(_, error)| JournalError::of(&path, error))?;
        let side = |end: &str| std::path::PathBuf::from(format!("{}{end}", path.display()));
        if ["-journal", "-wal"].iter().any(|end| side(end).exists()) {
            return Err(JournalError::failed(&path, "SQLite could not write it as a single file").into());
        }
        Ok(sealed)
    }

    /// Opens the sealed journal of a shard to read it. `name` is its name for messages.
    pub(crate) fn open_sealed(file: &Path, name: &str) -> Result<(Self, Sealed)> {
        let journal = Self::open_read_only(file, Path::new(name)).map_err(shard_unopened)?;
        let intact: String = journal
            .connection
            .query_row("PRAGMA quick_check(1)", [], |row| row.get(0))
            .map_err(|error| shard_damaged(name, error))?;
        if intact != "ok" {
            return Err(shard_damaged(name, intact));
        }
        let sealed = journal.sealed(name)?;
        Ok((journal, sealed))
    }

    /// Checks the seal.
    fn sealed(&self, name: &str) -> Result<Sealed> {
        let shard = self.fact(SHARD)?;
        let incomplete = || {
            let what = shard.as_ref().map_or("its shard".to_owned(), |it| format!("shard {it}"));
            shard_conflict(format!("{name}: {what} is not complete"), "run the command of the shard again")
        };
        let facts =
            (shard.as_deref().and_then(|shard| shard.parse().ok()), self.fact(LIST)?, self.fact(SEAL)?);
        let (Some(number), Some(list), Some(seal)) = facts else {
            return Err(incomplete());
        };
        let digest = digest(&self.connection).map_err(|error| shard_damaged(name, error))?;
        if digest != seal {
            return Err(shard_damaged(name, "its records are not those that were written"));
        }
        let counts = self.counts()?;
        if counts.pending > 0 {
            return Err(incomplete());
        }
        let (files, failed) = (counts.all(), counts.failed);
        Ok(Sealed { shard: number, files, failed, list, options: self.options()?, digest })
    }

    /// Adds the files of a sealed journal, as [`Self::import`] does. Calls `fail` for each file that could not be read.
    pub(crate) fn merge(
        &mut self,
        from: &Self,
        skip_failures: bool,
        mut fail: impl FnMut(String, u32, String, String),
    ) -> Result<u64> {
        let (mut done, mut after) = (0, 0);
        loop {
            let (rows, files): (Vec<i64>, Vec<_>) = from.outcomes(after, PAGE)?.into_iter().unzip();
            let Some(last) = rows.last() else { return Ok(done) };
            after = *last;
            for (url, outcome) in &files {
                if let Err(Failure { attempts, class, error }) = outcome {
                    fail(url.clone(), *attempts, class_name(*class).to_owned(), error.clone());
                }
            }
            done += self.import(&files, skip_failures)?;
        }
    }
}

/// Returns the digest of all records: SHA-256 of the type, length and bytes of each value, in the order of the tables.
fn digest(connection: &Connection) -> rusqlite::Result<String> {
    let mut hasher = Sha256::new();
    for fact in [SHARD, LIST] {
        let sql = "SELECT coalesce(max(value), '') FROM facts WHERE name = ?1";
        hasher.update(connection.query_row(sql, [fact], |row| row.get::<_, String>(0))?);
        hasher.update([0]);
    }
    for table in TABLES {
        let mut statement =
            connection.prepare(&format!("SELECT * FROM {table} NOT INDEXED ORDER BY 1, 2"))?;
        let columns = statement.column_count();
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            for column in 0..columns {
                let number;
                let (kind, bytes) = match row.get_ref(column)? {
                    ValueRef::Null => (0_u8, &[][..]),
                    ValueRef::Integer(value) => {
                        number = value.to_le_bytes();
                        (1, &number[..])
                    }
                    ValueRef::Real(value) => {
                        number = value.to_le_bytes();
                        (2, &number[..])
                    }
                    ValueRef::Text(bytes) => (3, bytes),
                    ValueRef::Blob(bytes) => (4, bytes),
                };
                hasher.update([kind]);
                hasher.update((bytes.len() as u64).to_le_bytes());
                hasher.update(bytes);
            }
        }
    }
    Ok(hex::encode(hasher.finalize()))
}
