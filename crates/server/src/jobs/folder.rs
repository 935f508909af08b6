//! The jobs folder: the only truth about all jobs, shared by several instances. What is in memory is a cache.
//!
//! | path | content | written by |
//! |---|---|---|
//! | `lock` | nothing; locked while jobs are created, claimed, cancelled or removed | |
//! | `ID/job.json` | the record | the runner of the job, or the holder of `lock` while nobody runs it |
//! | `ID/lock` | nothing; locked by the instance that runs the job | |
//! | `ID/progress.json` | progress since the record was written | the runner |
//! | `ID/cancel` | nothing: the job is to be cancelled | the holder of `lock` |
//! | `ID/webhook.json` | the state of the delivery of a webhook | the holder of `ID/lock`, once the job has ended |
//! | `keys.json` | idempotency keys of removed jobs | the holder of `lock` |
//! | `.ID` | a job that is being created or removed | the holder of `lock` |
//!
//! The operating system releases the locks of a process that ends. A record whose state is `running` while nobody holds
//! the lock of its job is therefore that of a killed instance. Files are replaced by renaming, so that readers need no
//! lock.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::{self, File, TryLockError},
    io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use tokio::sync::watch;

use super::{
    record::{self, Record, State},
    result,
};
use crate::stamp::Stamp;

/// Maximum time to wait for the lock of the folder.
const PATIENCE: Duration = Duration::from_secs(10);
/// Interval of attempts to get it.
const PAUSE: Duration = Duration::from_millis(2);
/// Name of the file that asks the runner of a job to cancel it.
const CANCEL: &str = "cancel";

/// Jobs by id. Ids sort by time of creation.
pub(super) type Table = Arc<BTreeMap<String, Arc<Entry>>>;

/// The jobs folder.
#[derive(Debug)]
pub(super) struct Folder {
    path: PathBuf,
    lock: Mutex<File>,
    /// The jobs when the folder was last read.
    table: Mutex<Table>,
    /// Names in the folder that are no jobs, and were reported.
    strange: Mutex<BTreeSet<String>>,
    /// Notifies of changes that this instance makes.
    changes: watch::Sender<()>,
}

/// A job as it was last read.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) record: Record,
    stamps: (Stamp, Option<Stamp>),
    /// Size of the record in bytes.
    pub(super) size: u64,
    /// Size of the job's folder in bytes, once the job has ended.
    pub(super) bytes: u64,
}

/// The lock of the folder, released on drop.
pub(super) struct Exclusive<'a>(MutexGuard<'a, File>);

impl Drop for Exclusive<'_> {
    fn drop(&mut self) {
        let _ = self.0.unlock();
    }
}

impl Folder {
    /// Opens a folder, creates it if it does not exist, and completes interrupted removals.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        fs::create_dir_all(path)?;
        let path = path.canonicalize()?;
        let lock = File::options().create(true).append(true).open(path.join("lock"))?;
        let this = Self {
            path,
            lock: Mutex::new(lock),
            table: Mutex::default(),
            strange: Mutex::default(),
            changes: watch::channel(()).0,
        };
        let exclusive = this.lock()?;
        for entry in fs::read_dir(&this.path)? {
            let entry = entry?;
            // Other hidden folders are not ours.
            if entry.file_name().to_str().and_then(|name| name.strip_prefix('.')).is_some_and(is_id) {
                let _ = fs::remove_dir_all(entry.path());
            }
        }
        drop(exclusive);
        this.refresh()?;
        Ok(this)
    }

    /// Returns the path of the folder.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the folder of a job.
    pub(super) fn place(&self, id: &str) -> PathBuf {
        self.path.join(id)
    }

    /// Locks the folder against the other instances and threads.
    pub(super) fn lock(&self) -> io::Result<Exclusive<'_>> {
        let file = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
        let end = Instant::now() + PATIENCE;
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(Exclusive(file)),
                Err(TryLockError::WouldBlock) if Instant::now() < end => std::thread::sleep(PAUSE),
                Err(TryLockError::WouldBlock) => return Err(io::ErrorKind::TimedOut.into()),
                Err(TryLockError::Error(error)) => return Err(error),
            }
        }
    }

    /// Locks a job for this instance; `None` if it is locked or no longer there. For an unfinished job, only the holder
    /// of the folder's lock may try.
    pub(super) fn claim(&self, id: &str) -> io::Result<Option<File>> {
        let file = match File::options().create(true).append(true).open(self.place(id).join("lock")) {
            Err(error) if is_gone(&error) => return Ok(None),
            file => file?,
        };
        match file.try_lock() {
            Ok(()) => Ok(Some(file)),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }

    /// Returns the jobs when the folder was last read.
    pub(super) fn table(&self) -> Table {
        Arc::clone(&self.table.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Reads what has changed in the folder, and returns the jobs.
    pub(super) fn refresh(&self) -> io::Result<Table> {
        let before = self.table();
        let mut found = BTreeMap::new();
        for entry in fs::read_dir(&self.path)? {
            let name = entry?.file_name();
            let Some(id) = name.to_str().filter(|name| is_id(name)) else { continue };
            // The record of an ended job does not change.
            let entry = match before.get(id) {
                Some(known) if known.record.state.is_over() => Some(Arc::clone(known)),
                known => self.read(id, known).unwrap_or_else(|error| {
                    tracing::warn!("{} cannot be read: {error}", self.place(id).display());
                    known.cloned()
                }),
            };
            if let Some(entry) = entry {
                found.insert(id.to_owned(), entry);
            }
        }
        let table = Arc::new(found);
        *self.table.lock().unwrap_or_else(PoisonError::into_inner) = Arc::clone(&table);
        Ok(table)
    }

    /// Returns the current state of a job.
    pub(super) fn get(&self, id: &str) -> io::Result<Option<Arc<Entry>>> {
        match is_id(id) {
            true => self.read(id, self.table().get(id)),
            false => Ok(None),
        }
    }

    /// Reads a job, unless it is as before.
    fn read(&self, id: &str, before: Option<&Arc<Entry>>) -> io::Result<Option<Arc<Entry>>> {
        let place = self.place(id);
        // On a network file system, a file that another instance replaces may vanish while it is read.
        for _ in 0..3 {
            let Some(first) = stamp(&place.join(record::FILE))? else { return Ok(None) };
            let stamps = (first, stamp(&place.join(record::PROGRESS))?);
            if let Some(before) = before.filter(|before| before.stamps == stamps) {
                return Ok(Some(Arc::clone(before)));
            }
            let record = match Record::load(&place) {
                Ok(record) if record.id == id => record,
                Ok(_) => return Ok(self.ignored(id, "it holds the record of another job")),
                Err(error) if is_gone(&error) => continue,
                Err(error) if error.raw_os_error().is_some() => return Err(error),
                Err(error) => return Ok(self.ignored(id, &error.to_string())),
            };
            let bytes = if record.state.is_over() { settle(&place, record.state) } else { 0 };
            return Ok(Some(Arc::new(Entry { record, stamps, size: first.length, bytes })));
        }
        Ok(None)
    }

    /// Reports once that a folder is not taken for a job.
    fn ignored(&self, id: &str, why: &str) -> Option<Arc<Entry>> {
        if self.strange.lock().unwrap_or_else(PoisonError::into_inner).insert(id.to_owned()) {
            tracing::warn!("{} is ignored: {why}", self.place(id).display());
        }
        None
    }

    /// Creates a job durably.
    pub(super) fn create(&self, _: &Exclusive<'_>, record: &Record) -> io::Result<()> {
        let (new, place) = (self.path.join(format!(".{}", record.id)), self.place(&record.id));
        let created = fs::create_dir(&new)
            .and_then(|()| record.save(&new))
            .and_then(|()| fs::rename(&new, &place))
            .and_then(|()| virtualize_store::sync_folder(&self.path));
        if created.is_err() {
            let _ = (fs::remove_dir_all(&new), fs::remove_dir_all(&place));
        }
        self.changed();
        created
    }

    /// Saves the record of a job that nobody runs.
    pub(super) fn save(&self, _: &Exclusive<'_>, record: &mut Record) -> io::Result<()> {
        record.touch();
        record.save(&self.place(&record.id))?;
        self.changed();
        Ok(())
    }

    /// Asks the runner of a job to cancel it.
    pub(super) fn mark(&self, _: &Exclusive<'_>, id: &str) -> io::Result<()> {
        record::write_whole(&self.place(id).join(CANCEL), |_| Ok(()))
    }

    /// Returns whether a job is to be cancelled.
    pub(super) fn is_marked(&self, id: &str) -> bool {
        self.place(id).join(CANCEL).exists()
    }

    /// Takes an ended job out of the folder, and returns the path that is left to remove.
    pub(super) fn set_aside(&self, exclusive: &Exclusive<'_>, record: &Record) -> io::Result<PathBuf> {
        let aside = self.path.join(format!(".{}", record.id));
        self.keep_key(exclusive, record)?;
        fs::rename(self.place(&record.id), &aside)?;
        virtualize_store::sync_folder(&self.path)?;
        self.changed();
        Ok(aside)
    }

    /// Returns a receiver of the changes that this instance makes.
    pub(super) fn changes(&self) -> watch::Receiver<()> {
        self.changes.subscribe()
    }

    /// Notifies of a change.
    pub(super) fn changed(&self) {
        self.changes.send_replace(());
    }
}

/// Returns whether a name can be the id of a job.
fn is_id(name: &str) -> bool {
    (16..=64).contains(&name.len()) && name.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

/// Returns whether a file was replaced or removed while it was read.
pub(super) fn is_gone(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::StaleNetworkFileHandle)
}

/// Returns the stamp of a file; `None` if it does not exist.
fn stamp(path: &Path) -> io::Result<Option<Stamp>> {
    match Stamp::of(path) {
        Ok(stamp) => Ok(Some(stamp)),
        Err(error) if is_gone(&error) || error.kind() == io::ErrorKind::NotADirectory => Ok(None),
        Err(error) => Err(error),
    }
}

/// Removes what an ended job no longer needs, and returns the size of its folder. Every instance that sees the end of a
/// job does this, as the runner may have been killed right after it wrote the record.
fn settle(place: &Path, state: State) -> u64 {
    if state != State::Done {
        let _ = fs::remove_file(place.join("result.json"));
        let _ = fs::remove_dir_all(place.join("result"));
    }
    for name in ["journal-journal", "journal-wal", "journal-shm", "journal", CANCEL, record::PROGRESS] {
        let _ = fs::remove_file(place.join(name));
    }
    // Files and locks of an output that a killed instance did not complete.
    for entry in fs::read_dir(place).into_iter().flatten().flatten() {
        if entry.file_name().to_string_lossy().starts_with(".virtualize-") {
            let _ = (fs::remove_file(entry.path()), fs::remove_dir_all(entry.path()));
        }
    }
    result::bytes(place)
}
