//! The disk cache of generated references. The name of an entry consists of its key, which covers everything that the
//! references depend on, and of the digest of its content.

use std::{
    collections::{BTreeSet, HashMap},
    fs::{self, File},
    io::{self, Read, Seek, Write},
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
    time::{Instant, SystemTime},
};

use sha2::{Digest, Sha256};

use crate::{ConfigError, budget::Budget, conditional::hexadecimal};

/// Suffix of the file names of entries.
const END: &str = ".references";
/// Prefix of the temporary files of entries that are being written. The writer holds a lock on the file.
const ASIDE: &str = ".references-";

/// A cache folder of bounded size, from which the least recently used entries are evicted.
#[derive(Debug)]
pub(crate) struct Disk {
    folder: PathBuf,
    most: u64,
    /// The budget of temporary files, whose bytes count towards `most`.
    spool: Budget,
    index: Mutex<Index>,
}

/// The entries in memory, by key and by last use.
#[derive(Debug, Default)]
struct Index {
    entries: HashMap<String, Entry>,
    /// Keys in order of last use.
    by_use: BTreeSet<(u64, String)>,
    bytes: u64,
    uses: u64,
}

#[derive(Clone, Debug)]
struct Entry {
    digest: String,
    bytes: u64,
    used: u64,
    /// Whether this process has verified the content against the digest in the name.
    checked: bool,
}

/// A cache hit: the open file and its length.
pub(crate) struct Found {
    pub(crate) file: File,
    pub(crate) bytes: u64,
}

impl Disk {
    /// Opens a cache folder, and creates it if necessary.
    pub(crate) fn open(folder: &Path, most: u64, spool: Budget) -> Result<Self, ConfigError> {
        let failed = ConfigError::io(format!("--cache {}", folder.display()));
        fs::create_dir_all(folder).map_err(&failed)?;
        let this = Self { folder: folder.to_owned(), most, spool, index: Mutex::default() };
        this.scan().map_err(&failed)?;
        tempfile::tempfile_in(folder).map_err(failed)?;
        Ok(this)
    }

    /// Returns whether the folder is writable.
    pub(crate) fn is_well(&self) -> bool {
        tempfile::tempfile_in(&self.folder).is_ok()
    }

    /// Indexes the existing entries, oldest first, and removes the temporary files of processes that have ended.
    fn scan(&self) -> io::Result<()> {
        let mut found = Vec::new();
        for entry in fs::read_dir(&self.folder)? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let about = entry.metadata()?;
            match name.strip_suffix(END).and_then(|name| name.split_once('-')) {
                Some((key, digest)) if about.is_file() => {
                    let time = about.modified().unwrap_or(SystemTime::UNIX_EPOCH);
                    found.push((time, key.to_owned(), digest.to_owned(), about.len()));
                }
                _ if name.starts_with(ASIDE) && is_left(&entry.path()) => drop(fs::remove_file(entry.path())),
                _ => {}
            }
        }
        found.sort();
        let mut index = self.index.lock().unwrap_or_else(PoisonError::into_inner);
        for (_, key, digest, bytes) in found {
            self.insert(&mut index, key, digest, bytes, false);
        }
        Ok(())
    }

    /// Looks up the entry of a key. Removes an entry that cannot be read or does not match its digest.
    pub(crate) fn get(&self, key: &str) -> Option<Found> {
        let entry = {
            let mut index = self.index.lock().unwrap_or_else(PoisonError::into_inner);
            index.touch(key)?
        };
        let opened = File::open(self.path(key, &entry.digest)).and_then(|mut file| {
            if !entry.checked
                && (file.metadata()?.len() != entry.bytes || digest(&mut file, 32)? != entry.digest)
            {
                return Err(io::ErrorKind::InvalidData.into());
            }
            file.rewind()?;
            Ok(file)
        });
        match opened {
            Ok(file) => {
                let mut index = self.index.lock().unwrap_or_else(PoisonError::into_inner);
                if let Some(entry) = index.entries.get_mut(key) {
                    entry.checked = true;
                }
                Some(Found { file, bytes: entry.bytes })
            }
            Err(error) => {
                tracing::warn!("an entry of the cache was taken away: {error}");
                self.remove(key);
                None
            }
        }
    }

    /// Stores an entry atomically: writes a temporary file, then renames it.
    pub(crate) fn put(&self, key: &str, content: &mut (impl Read + Seek)) -> io::Result<()> {
        content.rewind()?;
        let mut aside = tempfile::Builder::new().prefix(ASIDE).tempfile_in(&self.folder)?;
        // Other services that share this folder detect by the lock that the file is in use.
        let _ = aside.as_file().try_lock();
        let bytes = io::copy(content, aside.as_file_mut())?;
        if bytes > self.most {
            return Ok(());
        }
        aside.as_file_mut().flush()?;
        aside.as_file_mut().rewind()?;
        let digest = digest(aside.as_file_mut(), 32)?;
        aside.persist(self.path(key, &digest)).map_err(|error| error.error)?;
        let mut index = self.index.lock().unwrap_or_else(PoisonError::into_inner);
        self.insert(&mut index, key.to_owned(), digest, bytes, true);
        Ok(())
    }

    /// Adds an entry to the index, replacing the previous one of its key, and evicts others if necessary.
    fn insert(&self, index: &mut Index, key: String, digest: String, bytes: u64, checked: bool) {
        if let Some(old) = index.take(&key)
            && old.digest != digest
        {
            self.delete(&key, &old.digest);
        }
        index.uses += 1;
        index.bytes = index.bytes.saturating_add(bytes);
        index.by_use.insert((index.uses, key.clone()));
        index.entries.insert(key, Entry { digest, bytes, used: index.uses, checked });
        self.shrink(index);
    }

    /// Evicts entries to make room for temporary files.
    pub(crate) fn make_room(&self) {
        self.shrink(&mut self.index.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// Evicts the least recently used entries until the rest fits beside the temporary files.
    fn shrink(&self, index: &mut Index) {
        let most = self.most.saturating_sub(self.spool.held());
        while index.bytes > most {
            let Some((_, oldest)) = index.by_use.first().cloned() else { return };
            if let Some(entry) = index.take(&oldest) {
                self.delete(&oldest, &entry.digest);
            }
        }
    }

    /// Removes the entry of a key from the index and from the disk.
    fn remove(&self, key: &str) {
        let taken = self.index.lock().unwrap_or_else(PoisonError::into_inner).take(key);
        if let Some(entry) = taken {
            self.delete(key, &entry.digest);
        }
    }

    fn delete(&self, key: &str, digest: &str) {
        let path = self.path(key, digest);
        // Another service that shares this folder may have removed it.
        if let Err(error) = fs::remove_file(&path)
            && error.kind() != io::ErrorKind::NotFound
        {
            tracing::warn!("{}: {error}", path.display());
        }
    }

    fn path(&self, key: &str, digest: &str) -> PathBuf {
        self.folder.join(format!("{key}-{digest}{END}"))
    }
}

/// Returns whether a temporary file is abandoned: no process holds its lock.
fn is_left(path: &Path) -> bool {
    File::open(path).is_ok_and(|file| file.try_lock().is_ok())
}

impl Index {
    /// Marks an entry as the most recently used, and returns it.
    fn touch(&mut self, key: &str) -> Option<Entry> {
        self.uses += 1;
        let (uses, entry) = (self.uses, self.entries.get_mut(key)?);
        self.by_use.remove(&(entry.used, key.to_owned()));
        entry.used = uses;
        self.by_use.insert((uses, key.to_owned()));
        Some(entry.clone())
    }

    fn take(&mut self, key: &str) -> Option<Entry> {
        let entry = self.entries.remove(key)?;
        self.by_use.remove(&(entry.used, key.to_owned()));
        self.bytes = self.bytes.saturating_sub(entry.bytes);
        Some(entry)
    }
}

/// Returns the first `bytes` bytes of the SHA-256 digest of the remaining content, in hexadecimal.
pub(crate) fn digest(content: &mut impl Read, bytes: usize) -> io::Result<String> {
    let start = Instant::now();
    let (mut digest, mut buffer) = (Sha256::new(), vec![0; 64 << 10]);
    loop {
        let count = content.read(&mut buffer)?;
        if count == 0 {
            tracing::trace!("digest in {:?}", start.elapsed());
            return Ok(hexadecimal(&digest.finalize(), bytes));
        }
        digest.update(buffer.get(..count).unwrap_or_default());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(folder: &Path, most: u64) -> Disk {
        Disk::open(folder, most, Budget::new(most)).unwrap()
    }

    /// Two services share one folder: neither removes a file that the other is writing, nor fails on an entry that the
    /// other removed.
    #[test]
    fn what_another_service_writes_stays() {
        let folder = tempfile::tempdir().unwrap();
        let one = open(folder.path(), 100);
        let aside = tempfile::Builder::new().prefix(ASIDE).tempfile_in(folder.path()).unwrap();
        aside.as_file().try_lock().unwrap();
        fs::write(folder.path().join(".references-left"), "half").unwrap();
        let other = open(folder.path(), 100);
        assert!(aside.path().exists() && !folder.path().join(".references-left").exists());
        one.put("a", &mut io::Cursor::new("aaaa")).unwrap();
        let third = open(folder.path(), 100);
        assert_eq!(read(&third, "a").as_deref(), Some("aaaa"));
        third.remove("a");
        assert!(read(&one, "a").is_none() && read(&other, "a").is_none());
        one.put("a", &mut io::Cursor::new("aaaa")).unwrap();
        assert_eq!(read(&one, "a").as_deref(), Some("aaaa"));
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

    fn read(disk: &Disk, key: &str) -> Option<String> {
        disk.get(key).map(|found| io::read_to_string(found.file).unwrap())
    }

    #[test]
    fn the_least_used_goes_and_damage_is_noticed() {
        let folder = tempfile::tempdir().unwrap();
        let disk = open(folder.path(), 10);
        for key in ["a", "b"] {
            disk.put(key, &mut io::Cursor::new(format!("{key}{key}{key}{key}"))).unwrap();
        }
        assert_eq!(read(&disk, "a").as_deref(), Some("aaaa"));
        disk.put("c", &mut io::Cursor::new("cccc")).unwrap();
        assert_eq!(
            [read(&disk, "a"), read(&disk, "b"), read(&disk, "c")].map(|found| found.is_some()),
            [true, false, true]
        );
        disk.put("d", &mut io::Cursor::new("longer than all")).unwrap();
        assert!(read(&disk, "d").is_none());

        let names =
            || fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().path()).collect::<Vec<_>>();
        let a = names()
            .into_iter()
            .find(|path| path.file_name().unwrap().to_string_lossy().starts_with("a-"))
            .unwrap();
        fs::write(a, "aaab").unwrap();
        fs::write(folder.path().join(".references-left"), "half").unwrap();
        let again = open(folder.path(), 10);
        assert_eq!([read(&again, "a"), read(&again, "c")], [None, Some("cccc".to_owned())]);
        assert_eq!(names().len(), 1);
    }
}
