//! The cache folder of generated references, which several services may share. The name of an entry is its key, which
//! covers everything that the references depend on. An entry ends with the digest of its content. Its time of access is
//! that of its last use, by any service.

use std::{
    collections::HashMap,
    fs::{self, File, FileTimes},
    io::{self, Read, Seek, SeekFrom, Write},
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
    time::{Duration, SystemTime},
};

use sha2::{Digest, Sha256};

use crate::{ConfigError, budget::Budget, conditional::hexadecimal};

/// Suffix of the file names of entries.
const END: &str = ".references";
/// Prefix of the temporary files of entries that are being written. The writer holds a lock on the file.
const ASIDE: &str = ".references-";
/// Suffix of the file names of records of versions.
const SHOWN: &str = ".shown";
/// File whose lock a service holds while it changes a record.
const LOCK: &str = ".shown.lock";
/// Length in bytes of the digest at the end of an entry.
pub(crate) const DIGEST: u64 = 32;
/// Age from which an unlocked temporary file counts as abandoned.
const ABANDONED: Duration = Duration::from_secs(60);
/// Age from which a record of a version is removed: longer than `--hold-time` can be.
const FORGOTTEN: Duration = Duration::from_secs(2 * 86_400);
/// Part of the entries, and of the size, that may be written between two scans of the folder.
const PART: u64 = 64;

/// A cache folder of bounded size, from which the least recently used entries are evicted.
#[derive(Debug)]
pub(crate) struct Disk {
    folder: PathBuf,
    most: u64,
    /// The budget of temporary files, whose bytes count towards `most`.
    spool: Budget,
    state: Mutex<State>,
}

/// What this service knows of the folder.
#[derive(Debug, Default)]
struct State {
    /// Entries whose digest this service has verified.
    verified: HashMap<String, Identity>,
    /// Number and bytes of the entries at the last scan.
    entries: u64,
    bytes: u64,
    /// Entries and bytes that this service has written since.
    new_entries: u64,
    new_bytes: u64,
}

/// Identifies the content of a file: length, modification time and creation time.
type Identity = (u64, Option<SystemTime>, Option<SystemTime>);

/// A cache hit: the open file and the length of its content.
pub(crate) struct Found {
    pub(crate) file: File,
    pub(crate) bytes: u64,
}

impl Disk {
    /// Opens a cache folder, and creates it if necessary.
    pub(crate) fn open(folder: &Path, most: u64, spool: Budget) -> Result<Self, ConfigError> {
        let failed = ConfigError::io(format!("--cache {}", folder.display()));
        fs::create_dir_all(folder).map_err(&failed)?;
        let this = Self { folder: folder.to_owned(), most, spool, state: Mutex::default() };
        this.shrink().map_err(&failed)?;
        tempfile::tempfile_in(folder).map_err(failed)?;
        Ok(this)
    }

    /// Returns whether the folder is writable.
    pub(crate) fn is_well(&self) -> bool {
        tempfile::tempfile_in(&self.folder).is_ok()
    }

    /// Looks up the entry of a key. Removes an entry that cannot be read or does not match its digest.
    pub(crate) fn get(&self, key: &str) -> Option<Found> {
        match self.opened(key) {
            Ok(found) => Some(found),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => {
                tracing::warn!("an entry of the cache was removed: {error}");
                self.delete(&self.path(key));
                None
            }
        }
    }

    fn opened(&self, key: &str) -> io::Result<Found> {
        let mut file = File::open(self.path(key))?;
        let about = file.metadata()?;
        let bytes = about.len().checked_sub(DIGEST).ok_or(io::ErrorKind::UnexpectedEof)?;
        let identity = (about.len(), about.modified().ok(), about.created().ok());
        if self.state().verified.get(key) != Some(&identity) {
            let expected = digest(&mut (&mut file).take(bytes))?;
            let mut written = [0; 32];
            file.read_exact(&mut written)?;
            if expected != written {
                return Err(io::Error::new(io::ErrorKind::InvalidData, "it does not match its digest"));
            }
            self.state().verified.insert(key.to_owned(), identity);
        }
        // The order of eviction does not depend on the options that the file system is mounted with.
        let _ = file.set_times(FileTimes::new().set_accessed(SystemTime::now()));
        file.rewind()?;
        Ok(Found { file, bytes })
    }

    /// Stores an entry atomically: writes a temporary file, then renames it.
    pub(crate) fn put(&self, key: &str, content: &mut (impl Read + Seek)) -> io::Result<()> {
        let bytes = content.seek(SeekFrom::End(0))?.saturating_add(DIGEST);
        content.rewind()?;
        if bytes > self.most {
            return Ok(());
        }
        let mut aside = self.aside()?;
        io::copy(content, aside.as_file_mut())?;
        content.rewind()?;
        aside.as_file_mut().write_all(&digest(content)?)?;
        aside.as_file_mut().flush()?;
        aside.as_file().set_times(FileTimes::new().set_accessed(SystemTime::now()))?;
        aside.persist(self.path(key)).map_err(|error| error.error)?;
        let is_due = {
            let mut state = self.state();
            state.new_entries = state.new_entries.saturating_add(1);
            state.new_bytes = state.new_bytes.saturating_add(bytes);
            state.is_due(self.most) || !self.fits(&state)
        };
        if is_due { self.shrink() } else { Ok(()) }
    }

    /// Creates a temporary file. Other services detect by the lock that it is in use.
    fn aside(&self) -> io::Result<tempfile::NamedTempFile> {
        let aside = tempfile::Builder::new().prefix(ASIDE).tempfile_in(&self.folder)?;
        let _ = aside.as_file().try_lock();
        Ok(aside)
    }

    /// Evicts entries to make room for temporary files.
    pub(crate) fn make_room(&self) {
        let fits = self.fits(&self.state());
        if !fits && let Err(error) = self.shrink() {
            tracing::warn!("the cache cannot be read: {error}");
        }
    }

    /// Returns whether the known entries fit beside the temporary files.
    fn fits(&self, state: &State) -> bool {
        state.bytes.saturating_add(state.new_bytes) <= self.most.saturating_sub(self.spool.held())
    }

    /// Returns the bytes of all entries at the last scan, and of those written since.
    pub(crate) fn bytes(&self) -> u64 {
        let state = self.state();
        state.bytes.saturating_add(state.new_bytes)
    }

    /// Scans the folder, removes what is abandoned or forgotten, and evicts the least recently used entries until the
    /// rest fits beside the temporary files. A 64th more is evicted, so that the next entries need no scan.
    fn shrink(&self) -> io::Result<()> {
        let mut entries = self.scan()?;
        let all = entries.iter().fold(0_u64, |all, (_, bytes, _)| all.saturating_add(*bytes));
        let most = self.most.saturating_sub(self.spool.held());
        let goal = if all > most { most.saturating_sub(self.most / PART) } else { all };
        let (mut left, mut count) = (all, entries.len() as u64);
        entries.sort_unstable();
        for (_, bytes, path) in &entries {
            if left <= goal {
                break;
            }
            self.delete(path);
            (left, count) = (left.saturating_sub(*bytes), count.saturating_sub(1));
        }
        let mut state = self.state();
        if state.verified.len() as u64 > count.saturating_mul(2).max(1024) {
            state.verified.clear();
        }
        let verified = std::mem::take(&mut state.verified);
        *state = State { verified, entries: count, bytes: left, ..State::default() };
        Ok(())
    }

    /// Lists the entries with their last use and size, and removes abandoned files and forgotten records.
    fn scan(&self) -> io::Result<Vec<(SystemTime, u64, PathBuf)>> {
        let mut found = Vec::new();
        for entry in fs::read_dir(&self.folder)? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            // Another service may have removed it.
            let Ok(about) = entry.metadata() else { continue };
            let modified = about.modified().unwrap_or(SystemTime::UNIX_EPOCH);
            let is_older = |age: Duration| modified.elapsed().is_ok_and(|elapsed| elapsed > age);
            if name.starts_with(ASIDE) {
                if is_older(ABANDONED) && is_left(&entry.path()) {
                    self.delete(&entry.path());
                }
            } else if name.ends_with(END) && about.is_file() {
                let used = about.accessed().map_or(modified, |accessed| accessed.max(modified));
                found.push((used, about.len(), entry.path()));
            } else if name.ends_with(SHOWN) && is_older(FORGOTTEN) {
                self.delete(&entry.path());
            }
        }
        Ok(found)
    }

    fn delete(&self, path: &Path) {
        // Another service that shares this folder may have removed it.
        if let Err(error) = fs::remove_file(path)
            && error.kind() != io::ErrorKind::NotFound
        {
            tracing::warn!("{}: {error}", path.display());
        }
    }

    fn path(&self, key: &str) -> PathBuf {
        self.folder.join(format!("{key}{END}"))
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a record of a version.
    pub(crate) fn record(&self, key: &str) -> io::Result<Option<Vec<u8>>> {
        match fs::read(self.folder.join(format!("{key}{SHOWN}"))) {
            Ok(record) => Ok(Some(record)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Replaces a record if it is still `expected`; returns whether it was. On a file system without locks, two
    /// services may replace it at the same time.
    pub(crate) fn replace_record(
        &self,
        key: &str,
        expected: Option<&[u8]>,
        record: &[u8],
    ) -> io::Result<bool> {
        let lock = File::options().create(true).truncate(false).write(true).open(self.folder.join(LOCK))?;
        match lock.lock() {
            Err(error) if error.kind() != io::ErrorKind::Unsupported => return Err(error),
            _ => {}
        }
        if self.record(key)?.as_deref() != expected {
            return Ok(false);
        }
        let mut aside = self.aside()?;
        aside.as_file_mut().write_all(record)?;
        aside.persist(self.folder.join(format!("{key}{SHOWN}"))).map_err(|error| error.error)?;
        Ok(true)
    }
}

impl State {
    /// Returns whether so much was written that other services may have exceeded the size meanwhile.
    fn is_due(&self, most: u64) -> bool {
        self.new_entries > self.entries / PART || self.new_bytes > most / PART
    }
}

/// Returns whether a temporary file is abandoned: no process holds its lock.
fn is_left(path: &Path) -> bool {
    File::open(path).is_ok_and(|file| file.try_lock().is_ok())
}

/// Returns the SHA-256 digest of the remaining content.
pub(crate) fn digest(content: &mut impl Read) -> io::Result<[u8; 32]> {
    let (mut digest, mut buffer) = (Sha256::new(), vec![0; 64 << 10]);
    loop {
        let count = content.read(&mut buffer)?;
        if count == 0 {
            return Ok(digest.finalize().into());
        }
        digest.update(buffer.get(..count).unwrap_or_default());
    }
}

/// Returns the first 16 bytes of the digest of the remaining content, in hexadecimal.
pub(crate) fn short_digest(content: &mut impl Read) -> io::Result<String> {
    digest(content).map(|digest| hexadecimal(&digest, 16))
}

#[cfg(test)]
mod model;
#[cfg(test)]
mod tests {
    use super::*;

    fn open(folder: &Path, most: u64) -> Disk {
        Disk::open(folder, most, Budget::new(most)).unwrap()
    }

    fn put(disk: &Disk, key: &str, content: &str) {
        disk.put(key, &mut io::Cursor::new(content.to_owned())).unwrap();
    }

    fn read(disk: &Disk, key: &str) -> Option<String> {
        disk.get(key).map(|found| {
            let mut text = String::new();
            found.file.take(found.bytes).read_to_string(&mut text).unwrap();
            text
        })
    }

    fn bytes(folder: &Path) -> u64 {
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().metadata().unwrap().len()).sum()
    }

    #[test]
    fn services_find_what_others_wrote() {
        let folder = tempfile::tempdir().unwrap();
        let (one, other) = (open(folder.path(), 100), open(folder.path(), 100));
        assert_eq!(read(&other, "a"), None);
        put(&one, "a", "aaaa");
        assert_eq!(read(&other, "a").as_deref(), Some("aaaa"));
        put(&other, "a", "aaaa");
        assert_eq!(read(&one, "a").as_deref(), Some("aaaa"));
        fs::remove_file(one.path("a")).unwrap();
        assert!(read(&one, "a").is_none() && read(&other, "a").is_none());
    }

    #[test]
    fn files_that_others_write_stay() {
        let folder = tempfile::tempdir().unwrap();
        let long_ago = SystemTime::now() - ABANDONED * 2;
        let file = |name: &str| {
            let file = File::create(folder.path().join(name)).unwrap();
            file.set_modified(long_ago).unwrap();
            file
        };
        let written = file(".references-written");
        written.try_lock().unwrap();
        drop(file(".references-left"));
        fs::write(folder.path().join(".references-new"), "half").unwrap();
        open(folder.path(), 100);
        let exists = |name: &str| folder.path().join(name).exists();
        assert!(exists(".references-written") && exists(".references-new") && !exists(".references-left"));
    }

    #[test]
    fn temporary_files_take_the_place_of_entries() {
        let folder = tempfile::tempdir().unwrap();
        let (most, spool) = (1 << 20, Budget::new(1 << 20));
        let disk = Disk::open(folder.path(), most, spool.clone()).unwrap();
        for key in ["a", "b"] {
            disk.put(key, &mut io::Cursor::new(vec![0; 400 << 10])).unwrap();
        }
        let share = spool.try_take(512 << 10).unwrap();
        disk.make_room();
        assert!(disk.get("a").is_none() && disk.get("b").is_some());
        drop(share);
    }

    /// Three services write and read at random: the folder stays within its size, give or take what each may write
    /// between two scans, and evicts what none of them used for the longest time.
    #[test]
    fn services_share_one_size_and_one_order() {
        let folder = tempfile::tempdir().unwrap();
        let most = 64 * 100;
        let services = [0, 1, 2].map(|_| open(folder.path(), most));
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        for step in 0..2000 {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            let service = &services[usize::try_from(state % 3).unwrap()];
            let key = format!("k{}", (state >> 8) % 120);
            match service.get(&key) {
                Some(found) => assert_eq!(found.bytes, 68),
                None => put(service, &key, &format!("{key:068}")),
            }
            assert!(bytes(folder.path()) <= most + 3 * 100, "step {step}: {}", bytes(folder.path()));
            services[usize::try_from(step % 3).unwrap()]
                .get("hot")
                .is_none()
                .then(|| put(service, "hot", "hot"));
            assert!(services[0].get("hot").is_some(), "step {step}");
        }
    }

    #[test]
    fn the_least_used_goes_and_damage_is_noticed() {
        let folder = tempfile::tempdir().unwrap();
        let disk = open(folder.path(), 100);
        for key in ["a", "b"] {
            put(&disk, key, &key.repeat(8));
        }
        assert_eq!(read(&disk, "a").as_deref(), Some("aaaaaaaa"));
        put(&disk, "c", "cccccccc");
        let there = |key| read(&disk, key).is_some();
        assert_eq!([there("a"), there("b"), there("c")], [true, false, true]);
        put(&disk, "d", &"longer than all".repeat(10));
        assert!(!there("d"));
        let other = open(folder.path(), 100);
        for damaged in ["short", &"b".repeat(40), &"c".repeat(41)] {
            put(&disk, "a", "aaaaaaaa");
            assert!(read(&other, "a").is_some());
            // The clock of the file system may be coarse.
            std::thread::sleep(Duration::from_millis(20));
            fs::write(disk.path("a"), damaged).unwrap();
            assert!(read(&other, "a").is_none() && read(&disk, "a").is_none() && !disk.path("a").exists());
        }
        assert!(there("c"));
    }

    #[test]
    fn one_of_two_services_replaces_a_record() {
        let folder = tempfile::tempdir().unwrap();
        let (one, other) = (open(folder.path(), 100), open(folder.path(), 100));
        assert!(one.replace_record("k", None, b"1").unwrap());
        assert!(!other.replace_record("k", None, b"2").unwrap());
        assert_eq!(other.record("k").unwrap().as_deref(), Some(&b"1"[..]));
        assert!(other.replace_record("k", Some(b"1"), b"2").unwrap());
        assert!(!one.replace_record("k", Some(b"1"), b"3").unwrap());
        assert_eq!(one.record("k").unwrap().as_deref(), Some(&b"2"[..]));
    }
}
