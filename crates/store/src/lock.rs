//! One writer at a time for each output.
//!
//! A local output is locked by a file beside it, `.virtualize-NAME.lock`; the operating system releases the lock when
//! the process ends. An output in a bucket is locked by an object of that name, a lease that its holder renews every
//! few seconds. A lease that was not renewed for a while belongs to a dead process, and another process takes it over.

use std::{
    ffi::OsString,
    fs::{self, File, TryLockError},
    io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use object_store::{ObjectStore, ObjectStoreExt, PutMode, PutResult, UpdateVersion, path::Path as Key};
use tokio::{sync::oneshot, task::JoinHandle, time::Instant};

use crate::{
    StoreError, StoreOptions, clients::Purpose, connect::connect, local::not_a_file, location::Location,
    output::check_folder, region,
};

/// Seconds, which tests shorten.
const SECOND: Duration = Duration::from_millis(if cfg!(test) { 50 } else { 1000 });
/// Interval at which the holder renews the lease of an object.
const BEAT: Duration = SECOND.saturating_mul(5);
/// Time without renewal after which a lease expires.
const SILENCE: Duration = SECOND.saturating_mul(20);
/// Interval at which a waiting process checks a lease of another one.
const LOOK: Duration = SECOND;
/// Maximum length in bytes of an output's name that its lock's name contains; longer names are hashed.
const LONGEST_NAME: usize = 200;

/// Exclusive right to write an output, held by at most one process on this machine and on others that share the file
/// system or bucket. The lock is released when it is dropped, or when its process ends.
///
/// Locks also exclude each other within a process. An output nested below another one is a separate output.
#[derive(Debug)]
pub struct OutputLock {
    name: String,
    held: Held,
}

/// What holds the lock.
#[derive(Debug)]
enum Held {
    /// A locked file.
    File { path: PathBuf, file: File },
    /// An object whose lease a task renews.
    Object(Lease),
    /// No lock is possible: a pipe or device, or a store without conditional writes.
    Nothing,
}

/// Lease of a lock object, and the task that renews it.
#[derive(Debug)]
struct Lease {
    /// Time of the last renewal; `None` after another process took over.
    held: Arc<Mutex<Option<Instant>>>,
    /// Dropped to stop the task.
    end: Option<oneshot::Sender<()>>,
    task: Option<JoinHandle<()>>,
}

impl OutputLock {
    /// Acquires the lock of a path or URL; URLs need a tokio runtime. In a bucket, waits up to 20 seconds for the lease
    /// of a killed process to expire.
    ///
    /// # Errors
    /// [`StoreError::Locked`] if another writer holds the lock.
    pub async fn acquire(target: &str, options: &StoreOptions) -> Result<Self, StoreError> {
        let location = match Location::parse(target.trim_end_matches('/')) {
            // A whole bucket.
            Err(_) if target.contains("://") => Location::parse_prefix(target)?,
            location => location?,
        };
        let name = location.name();
        let held = match &location {
            Location::Local(path) => lock_file(path, &name)?,
            Location::Bucket { .. } => lock_object(&location, &name, options).await?,
            Location::Http(_) | Location::Foreign(_) => Held::Nothing,
        };
        Ok(Self { name, held })
    }

    /// Checks that the lock is still held: a lease that its holder did not renew in time counts as lost.
    ///
    /// # Errors
    /// [`StoreError::Locked`].
    pub fn check(&self) -> Result<(), StoreError> {
        let Held::Object(lease) = &self.held else { return Ok(()) };
        let held = *lease.held.lock().unwrap_or_else(PoisonError::into_inner);
        match held.is_some_and(|since| since.elapsed() < SILENCE) {
            true => Ok(()),
            false => Err(StoreError::Locked { name: self.name.clone() }),
        }
    }

    /// Releases the lock, and waits until the lock object of a bucket is deleted.
    pub async fn release(mut self) {
        if let Held::Object(lease) = &mut self.held {
            drop(lease.end.take());
            if let Some(task) = lease.task.take() {
                let _ = task.await;
            }
        }
    }
}

impl Drop for OutputLock {
    fn drop(&mut self) {
        // Removed before it is unlocked: a process that opened the file meanwhile detects that it is gone.
        if let Held::File { path, file } = &self.held
            && is_at(file, path)
        {
            let _ = fs::remove_file(path);
        }
    }
}

/// Returns the name of the lock of an output with this name.
fn lock_name(name: &str) -> String {
    if name.len() <= LONGEST_NAME {
        return format!(".virtualize-{name}.lock");
    }
    let sum = name
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |sum, byte| (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    format!(".virtualize-{sum:016x}.lock")
}

/// Locks the file beside a local output.
fn lock_file(target: &Path, name: &str) -> Result<Held, StoreError> {
    let failed = |error: &io::Error| StoreError::io(name, error);
    let found = fs::metadata(target).ok();
    if found.as_ref().and_then(not_a_file).is_some_and(|what| what != "a directory") {
        return Ok(Held::Nothing);
    }
    let target = real(target);
    let file_name = target.file_name().map(OsString::from).unwrap_or_default();
    let path = target.with_file_name(lock_name(&file_name.to_string_lossy()));
    loop {
        let file = File::options().create(true).truncate(false).read(true).write(true).open(&path);
        let file = file.map_err(|error| check_folder(&target).err().unwrap_or_else(|| failed(&error)))?;
        match file.try_lock() {
            Ok(()) if is_at(&file, &path) => return Ok(Held::File { path, file }),
            // Its holder removed the file between opening and locking.
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(StoreError::Locked { name: name.to_owned() }),
            Err(TryLockError::Error(error)) => {
                tracing::warn!(
                    "{name}: its file system has no locks ({error}): let no other process write it"
                );
                let _ = fs::remove_file(&path);
                return Ok(Held::Nothing);
            }
        }
    }
}

/// Resolves symbolic links in a path; the last component may be absent.
fn real(path: &Path) -> PathBuf {
    if let Ok(path) = path.canonicalize() {
        return path;
    }
    match (path.parent().and_then(|folder| folder.canonicalize().ok()), path.file_name()) {
        (Some(folder), Some(name)) => folder.join(name),
        _ => path.to_owned(),
    }
}

/// Returns whether a path still leads to an open file.
pub(crate) fn is_at(file: &File, path: &Path) -> bool {
    let (Ok(open), Ok(there)) = (file.metadata(), fs::symlink_metadata(path)) else { return false };
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt;
        (open.dev(), open.ino()) == (there.dev(), there.ino())
    }
    #[cfg(not(unix))]
    {
        open.len() == there.len()
    }
}

/// Acquires the lock object of an output in a bucket.
async fn lock_object(location: &Location, name: &str, options: &StoreOptions) -> Result<Held, StoreError> {
    let Location::Bucket { service, bucket, key } = location else { return Ok(Held::Nothing) };
    let (folder, file) = key.rsplit_once('/').map_or(("", key.as_str()), |(folder, file)| (folder, file));
    let separator = if folder.is_empty() { "" } else { "/" };
    let key = format!("{folder}{separator}{}", lock_name(file));
    let beside = Location::Bucket { service: *service, bucket: bucket.clone(), key };
    region::settle(&beside, options).await?;
    let (store, key) = connect(&beside, Purpose::Writing, options)?;
    let object = LockObject { store, key, id: format!("{:032x}", fastrand::u128(..)) };
    match object.take(name).await? {
        Some(version) => Ok(Held::Object(object.hold(version))),
        None => Ok(Held::Nothing),
    }
}

/// Object that represents a lock.
struct LockObject {
    store: Arc<dyn ObjectStore>,
    key: Key,
    /// Random identifier of the holder.
    id: String,
}

impl LockObject {
    /// Creates the object, or takes over an expired lease; `None` if the store has no conditional writes.
    async fn take(&self, name: &str) -> Result<Option<UpdateVersion>, StoreError> {
        use object_store::Error as E;
        let locked = || StoreError::Locked { name: name.to_owned() };
        let failed = |error: &E| StoreError::remote(name, error);
        let mut seen: Option<(UpdateVersion, Instant)> = None;
        loop {
            match self.put(PutMode::Create, 0).await {
                Ok(version) => return Ok(Some(version)),
                Err(E::AlreadyExists { .. } | E::Precondition { .. } | E::NotFound { .. }) => {}
                Err(E::NotImplemented { .. } | E::NotSupported { .. }) => {
                    tracing::warn!("{name}: its store has no locks: let no other process write it");
                    return Ok(None);
                }
                Err(error) => return Err(failed(&error)),
            }
            let now = match self.store.head(&self.key).await {
                Ok(found) => UpdateVersion { e_tag: found.e_tag, version: found.version },
                Err(E::NotFound { .. }) => continue,
                Err(error) => return Err(failed(&error)),
            };
            match &seen {
                Some((before, _)) if *before != now => return Err(locked()),
                Some((before, since)) if since.elapsed() >= SILENCE => {
                    return match self.put(PutMode::Update(before.clone()), 0).await {
                        Ok(version) => Ok(Some(version)),
                        Err(E::Precondition { .. } | E::NotFound { .. }) => Err(locked()),
                        Err(error) => Err(failed(&error)),
                    };
                }
                Some(_) => {}
                None => {
                    tracing::info!("{name}: locked; waiting whether its writer is alive");
                    seen = Some((now, Instant::now()));
                }
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Writes the object conditionally; `beat` makes each renewal's content distinct. If the response to a write was lost,
    /// the next attempt fails because of that write, which is therefore looked for.
    async fn put(&self, mut mode: PutMode, beat: u64) -> object_store::Result<UpdateVersion> {
        use object_store::Error as E;
        let text = format!("{} {beat}\n", self.id);
        loop {
            let error = match self.store.put_opts(&self.key, text.clone().into(), mode.into()).await {
                Ok(PutResult { e_tag, version, .. }) => return Ok(UpdateVersion { e_tag, version }),
                Err(error @ (E::Precondition { .. } | E::AlreadyExists { .. })) => error,
                Err(error) => return Err(error),
            };
            let found = self.store.get(&self.key).await?;
            let now = UpdateVersion { e_tag: found.meta.e_tag.clone(), version: found.meta.version.clone() };
            let there = found.bytes().await?;
            if there == text {
                return Ok(now);
            }
            if !there.starts_with(self.id.as_bytes()) {
                return Err(error);
            }
            mode = PutMode::Update(now);
        }
    }

    /// Renews the lease in a task until the lock is dropped, then deletes the object.
    fn hold(self, mut version: UpdateVersion) -> Lease {
        let (end, mut ended) = oneshot::channel::<()>();
        let held = Arc::new(Mutex::new(Some(Instant::now())));
        let shared = Arc::clone(&held);
        let set = move |value| *shared.lock().unwrap_or_else(PoisonError::into_inner) = value;
        let task = tokio::spawn(async move {
            for beat in 1.. {
                tokio::select! {
                    _ = &mut ended => break,
                    () = tokio::time::sleep(BEAT) => {}
                }
                match self.put(PutMode::Update(version.clone()), beat).await {
                    Ok(next) => {
                        version = next;
                        set(Some(Instant::now()));
                    }
                    Err(object_store::Error::Precondition { .. } | object_store::Error::NotFound { .. }) => {
                        return set(None);
                    }
                    // The lease stays valid until it expires.
                    Err(_) => {}
                }
            }
            let _ = self.store.delete(&self.key).await;
        });
        Lease { held, end: Some(end), task: Some(task) }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    fn runtime() -> tokio::runtime::Runtime {
        tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
    }

    fn object(store: &Arc<dyn ObjectStore>, id: &str) -> LockObject {
        LockObject { store: Arc::clone(store), key: Key::from("a/.virtualize-b.lock"), id: id.to_owned() }
    }

    #[test]
    fn an_object_has_one_holder_until_it_is_silent() {
        let store: Arc<dyn ObjectStore> = Arc::new(object_store::memory::InMemory::new());
        runtime().block_on(async {
            let first = object(&store, "first");
            let version = first.take("b").await.unwrap().unwrap();
            let lease = first.hold(version);
            let second = object(&store, "second").take("b").await;
            assert!(matches!(second, Err(StoreError::Locked { .. })), "its holder writes it anew");
            lease.task.as_ref().unwrap().abort();
            let silent = object(&store, "second");
            let version = silent.take("b").await.unwrap().unwrap();
            let second = silent.hold(version);
            drop(second.end);
            second.task.unwrap().await.unwrap();
            assert!(object(&store, "third").take("b").await.unwrap().is_some(), "it was deleted");
        });
    }

    #[test]
    fn a_lost_response_is_no_lost_lock() {
        let store: Arc<dyn ObjectStore> = Arc::new(object_store::memory::InMemory::new());
        let key = Key::from("a/.virtualize-b.lock");
        runtime().block_on(async {
            // Written by attempts whose response did not arrive.
            store.put(&key, "first 0\n".into()).await.unwrap();
            let first = object(&store, "first");
            let version = first.put(PutMode::Create, 0).await.unwrap();
            assert!(object(&store, "second").put(PutMode::Create, 0).await.is_err());
            for late in ["first 1\n", "first 0\n"] {
                store.put(&key, late.into()).await.unwrap();
                first.put(PutMode::Update(version.clone()), 1).await.unwrap();
                assert_eq!(store.get(&key).await.unwrap().bytes().await.unwrap(), "first 1\n");
            }
            store.put(&key, "second 0\n".into()).await.unwrap();
            let taken = first.put(PutMode::Update(version), 2).await;
            assert!(matches!(taken, Err(object_store::Error::Precondition { .. })));
        });
    }

    #[test]
    fn whoever_lost_it_is_told() {
        let store: Arc<dyn ObjectStore> = Arc::new(object_store::memory::InMemory::new());
        runtime().block_on(async {
            let first = object(&store, "first");
            let version = first.take("b").await.unwrap().unwrap();
            let lock = OutputLock { name: "b".to_owned(), held: Held::Object(first.hold(version)) };
            assert!(lock.check().is_ok());
            store.put(&Key::from("a/.virtualize-b.lock"), "another".into()).await.unwrap();
            tokio::time::sleep(BEAT * 2).await;
            assert!(matches!(lock.check(), Err(StoreError::Locked { .. })));
        });
    }
}
