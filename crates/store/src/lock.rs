//! One writer at a time for each output.
//!
//! A local output is locked by a file next to it, `.virtualize-NAME.lock`; the operating system releases the lock when
//! the process ends. An output in a bucket is locked by an object of that name, a lease that its holder renews every
//! few seconds. A lease that was not renewed for a while belongs to a dead process, and another process takes it over.
//!
//! All writes of the object are conditional, but stores delete unconditionally. A holder therefore writes the object
//! before it deletes it: the write fails if another process took over, and no process takes over soon after it. A holder
//! that is suspended between the two can still delete the lease of its successor, which notices that before it publishes
//! its output.

use std::{
    ffi::OsString,
    fs::{self, File, TryLockError},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use object_store::{ObjectStore, ObjectStoreExt, PutMode, PutResult, UpdateVersion, path::Path as Key};
use tokio::{
    sync::{Mutex, oneshot},
    task::JoinHandle,
    time::Instant,
};

use crate::{
    StoreError, StoreOptions,
    clients::Purpose,
    connect::{connect, settle_region},
    location::Location,
    object::not_a_file,
    output::PREFIX,
    output::check_folder,
};

/// Seconds, which tests shorten.
const SECOND: Duration = Duration::from_millis(if cfg!(test) { 10 } else { 1000 });
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
    object: Arc<LockObject>,
    state: Arc<Mutex<LeaseState>>,
    /// Dropped to stop the task.
    end: Option<oneshot::Sender<()>>,
    task: Option<JoinHandle<()>>,
}

/// The last known state of a lease.
#[derive(Debug)]
struct LeaseState {
    /// Version that the last renewal wrote; `None` after another process took over.
    version: Option<UpdateVersion>,
    /// When that renewal was sent: no other process takes over for [`SILENCE`] from then on.
    since: Instant,
    /// Number of renewals.
    beat: u64,
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

    /// Checks that the lock is still held, and renews a lease for this, since the process may have been suspended.
    ///
    /// # Errors
    /// [`StoreError::Locked`].
    pub async fn check(&self) -> Result<(), StoreError> {
        let Held::Object(lease) = &self.held else { return Ok(()) };
        let mut state = lease.state.lock().await;
        lease.object.renew(&mut state).await;
        let is_held = state.version.is_some() && state.since.elapsed() < SILENCE;
        is_held.then_some(()).ok_or_else(|| StoreError::Locked { name: self.name.clone() })
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

/// Returns the name of the lock, or of another object, of an output with this name.
fn name_next_to(name: &str, suffix: &str) -> String {
    if name.len() <= LONGEST_NAME {
        return format!("{PREFIX}{name}.{suffix}");
    }
    let sum = name
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |sum, byte| (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    format!("{PREFIX}{sum:016x}.{suffix}")
}

/// Locks the file next to a local output.
fn lock_file(target: &Path, name: &str) -> Result<Held, StoreError> {
    let failed = StoreError::at(name);
    let found = fs::metadata(target).ok();
    if found.as_ref().and_then(not_a_file).is_some_and(|what| what != "a directory") {
        return Ok(Held::Nothing);
    }
    let target = real(target);
    let file_name = target.file_name().map(OsString::from).unwrap_or_default();
    let path = target.with_file_name(name_next_to(&file_name.to_string_lossy(), "lock"));
    loop {
        let file = File::options().create(true).truncate(false).read(true).write(true).open(&path);
        let file = file.map_err(|error| check_folder(&target).err().unwrap_or_else(|| failed(error)))?;
        match file.try_lock() {
            Ok(()) if is_at(&file, &path) => return Ok(Held::File { path, file }),
            // Its holder removed the file between opening and locking.
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(StoreError::Locked { name: name.to_owned() }),
            Err(TryLockError::Error(error)) => {
                tracing::warn!(
                    "{name}: its file system has no locks ({error}): make sure that no other process writes it"
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
    let beside = beside(location, "lock");
    settle_region(&beside, options).await?;
    let (store, key) = connect(&beside, Purpose::Writing, options)?;
    let object = LockObject { store, key, id: format!("{:032x}", fastrand::u128(..)) };
    match object.take(name).await? {
        Some(state) => Ok(Held::Object(object.hold(state))),
        None => Ok(Held::Nothing),
    }
}

/// Returns the location of the object `.virtualize-NAME.SUFFIX` next to an output in a bucket.
pub(crate) fn beside(output: &Location, suffix: &str) -> Location {
    match output {
        Location::Bucket { service, bucket, key } => {
            let (folder, file) = key.rsplit_once('/').unwrap_or(("", key));
            let separator = if folder.is_empty() { "" } else { "/" };
            let key = format!("{folder}{separator}{}", name_next_to(file, suffix));
            Location::Bucket { service: *service, bucket: bucket.clone(), key }
        }
        other => other.clone(),
    }
}

/// Object that represents a lock. Its text is the identifier of the holder and the number of the renewal.
#[derive(Debug)]
struct LockObject {
    store: Arc<dyn ObjectStore>,
    key: Key,
    /// Random identifier of the holder.
    id: String,
}

impl LockObject {
    /// Creates the object, or takes over an expired lease; `None` if the store has no conditional writes.
    async fn take(&self, name: &str) -> Result<Option<LeaseState>, StoreError> {
        use object_store::Error as E;
        let locked = || StoreError::Locked { name: name.to_owned() };
        let failed = |error: &E| StoreError::remote(name, error);
        let mut seen: Option<(UpdateVersion, Instant)> = None;
        loop {
            let since = Instant::now();
            match self.put(PutMode::Create, "0").await {
                Ok(version) => return Ok(Some(LeaseState { version: Some(version), since, beat: 0 })),
                Err(E::AlreadyExists { .. } | E::Precondition { .. } | E::NotFound { .. }) => {}
                Err(E::NotImplemented { .. } | E::NotSupported { .. }) => {
                    tracing::warn!(
                        "{name}: its store has no locks: make sure that no other process writes it"
                    );
                    return Ok(None);
                }
                Err(error) => return Err(failed(&error)),
            }
            let now = match self.read().await {
                Ok((version, _)) => version,
                Err(E::NotFound { .. }) => continue,
                Err(error) => return Err(failed(&error)),
            };
            match &seen {
                Some((before, _)) if *before != now => return Err(locked()),
                Some((before, first)) if first.elapsed() >= SILENCE => {
                    let since = Instant::now();
                    return match self.put(PutMode::Update(before.clone()), "0").await {
                        Ok(version) => Ok(Some(LeaseState { version: Some(version), since, beat: 0 })),
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

    async fn read(&self) -> object_store::Result<(UpdateVersion, String)> {
        let found = self.store.get(&self.key).await?;
        let version = UpdateVersion { e_tag: found.meta.e_tag.clone(), version: found.meta.version.clone() };
        Ok((version, String::from_utf8_lossy(&found.bytes().await?).into_owned()))
    }

    /// Writes the object conditionally; `word` makes each renewal's content distinct. If the response to a write was lost,
    /// the next attempt fails because of that write, which is therefore looked for.
    async fn put(&self, mut mode: PutMode, word: &str) -> object_store::Result<UpdateVersion> {
        use object_store::Error as E;
        let text = format!("{} {word}\n", self.id);
        loop {
            let error = match self.store.put_opts(&self.key, text.clone().into(), mode.into()).await {
                Ok(PutResult { e_tag, version, .. }) => return Ok(UpdateVersion { e_tag, version }),
                Err(error @ (E::Precondition { .. } | E::AlreadyExists { .. })) => error,
                Err(error) => return Err(error),
            };
            let (now, there) = self.read().await?;
            if there == text {
                return Ok(now);
            }
            if !there.starts_with(&self.id) {
                return Err(error);
            }
            mode = PutMode::Update(now);
        }
    }

    /// Renews a lease, or records that another process took over. The lease stays valid until it expires if the store
    /// fails.
    async fn renew(&self, state: &mut LeaseState) {
        let Some(version) = state.version.clone() else { return };
        let since = Instant::now();
        state.beat += 1;
        match self.put(PutMode::Update(version), &state.beat.to_string()).await {
            Ok(next) => (state.version, state.since) = (Some(next), since),
            Err(object_store::Error::Precondition { .. } | object_store::Error::NotFound { .. }) => {
                state.version = None;
            }
            Err(_) => {}
        }
    }

    /// Renews the lease in a task until the lock is dropped, then releases it.
    fn hold(self, state: LeaseState) -> Lease {
        let (end, mut ended) = oneshot::channel::<()>();
        let (object, state) = (Arc::new(self), Arc::new(Mutex::new(state)));
        let (renewed, shared) = (Arc::clone(&object), Arc::clone(&state));
        let task = tokio::spawn(async move {
            loop {
                tokio::select! {
                    _ = &mut ended => break,
                    () = tokio::time::sleep(BEAT) => {}
                }
                let mut state = shared.lock().await;
                renewed.renew(&mut state).await;
                if state.version.is_none() {
                    return;
                }
            }
            let since = Instant::now();
            if let Some(version) = shared.lock().await.version.take()
                && renewed.put(PutMode::Update(version), "released").await.is_ok()
                && since.elapsed() < SILENCE / 2
            {
                let _ = renewed.store.delete(&renewed.key).await;
            }
        });
        Lease { object, state, end: Some(end), task: Some(task) }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use std::{
        fmt,
        sync::{Mutex as SyncMutex, PoisonError},
    };

    use futures::stream::BoxStream;
    use object_store::{
        CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, PutMultipartOptions,
        PutOptions, PutPayload, memory::InMemory,
    };

    use super::*;

    const KEY: &str = "a/.virtualize-b.lock";

    fn runtime() -> tokio::runtime::Runtime {
        tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
    }

    fn object(store: &Arc<dyn ObjectStore>, id: &str) -> LockObject {
        LockObject { store: Arc::clone(store), key: Key::from(KEY), id: id.to_owned() }
    }

    fn lock(held: Lease) -> OutputLock {
        OutputLock { name: "b".to_owned(), held: Held::Object(held) }
    }

    #[test]
    fn lease_has_one_holder_until_it_expires() {
        let store: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
        runtime().block_on(async {
            let first = object(&store, "first");
            let state = first.take("b").await.unwrap().unwrap();
            let first = lock(first.hold(state));
            let second = object(&store, "second").take("b").await;
            assert!(matches!(second, Err(StoreError::Locked { .. })), "renewed by its holder");
            let Held::Object(lease) = &first.held else { panic!("no lease") };
            lease.task.as_ref().unwrap().abort();
            let second = object(&store, "second");
            let state = second.take("b").await.unwrap().unwrap();
            let second = lock(second.hold(state));
            // The first process wakes up.
            assert!(first.check().await.is_err());
            first.release().await;
            assert!(second.check().await.is_ok());
            second.release().await;
            let third = object(&store, "third");
            let before = Instant::now();
            let state = third.take("b").await.unwrap();
            assert!(state.is_some() && before.elapsed() < SILENCE, "deleted");
        });
    }

    #[test]
    fn lock_survives_a_lost_response() {
        let store: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
        let key = Key::from(KEY);
        runtime().block_on(async {
            // Written by attempts whose response did not arrive.
            store.put(&key, "first 0\n".into()).await.unwrap();
            let first = object(&store, "first");
            let version = first.put(PutMode::Create, "0").await.unwrap();
            assert!(object(&store, "second").put(PutMode::Create, "0").await.is_err());
            for late in ["first 1\n", "first 0\n"] {
                store.put(&key, late.into()).await.unwrap();
                first.put(PutMode::Update(version.clone()), "1").await.unwrap();
                assert_eq!(store.get(&key).await.unwrap().bytes().await.unwrap(), "first 1\n");
            }
            store.put(&key, "second 0\n".into()).await.unwrap();
            let taken = first.put(PutMode::Update(version), "2").await;
            assert!(matches!(taken, Err(object_store::Error::Precondition { .. })));
        });
    }

    /// A store in which each request and each response is delayed, sometimes for longer than a lease is valid: as of a
    /// process that is suspended. Records who wrote the lock object, and when.
    #[derive(Debug)]
    struct Slow {
        store: Arc<InMemory>,
        random: SyncMutex<fastrand::Rng>,
        last: SyncMutex<Option<(String, Instant)>>,
        takeovers: SyncMutex<u32>,
    }

    impl fmt::Display for Slow {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("slow")
        }
    }

    fn locked<T>(value: &SyncMutex<T>) -> std::sync::MutexGuard<'_, T> {
        value.lock().unwrap_or_else(PoisonError::into_inner)
    }

    impl Slow {
        async fn pause(&self) {
            let (kind, share) = {
                let mut random = locked(&self.random);
                (random.u8(..10), random.f64())
            };
            let longest = if kind == 0 { SILENCE * 3 } else { LOOK };
            tokio::time::sleep(longest.mul_f64(share)).await;
        }
    }

    #[async_trait::async_trait]
    impl ObjectStore for Slow {
        async fn put_opts(
            &self,
            key: &Key,
            payload: PutPayload,
            options: PutOptions,
        ) -> object_store::Result<PutResult> {
            self.pause().await;
            let text = payload.iter().flat_map(|part| part.to_vec()).collect();
            let text = String::from_utf8(text).unwrap();
            let written = self.store.put_opts(key, payload, options).await;
            if written.is_ok() {
                let mut last = locked(&self.last);
                let holder = |text: &str| text.split(' ').next().unwrap().to_owned();
                if let Some((before, at)) = &*last
                    && holder(before) != holder(&text)
                {
                    assert!(at.elapsed() >= SILENCE, "{text:?} replaces {before:?} after {:?}", at.elapsed());
                    *locked(&self.takeovers) += 1;
                }
                *last = Some((text, Instant::now()));
            }
            self.pause().await;
            written
        }

        async fn get_opts(&self, key: &Key, options: GetOptions) -> object_store::Result<GetResult> {
            self.pause().await;
            let found = self.store.get_opts(key, options).await;
            self.pause().await;
            found
        }

        async fn put_multipart_opts(
            &self,
            _: &Key,
            _: PutMultipartOptions,
        ) -> object_store::Result<Box<dyn MultipartUpload>> {
            unreachable!()
        }

        fn delete_stream(
            &self,
            keys: BoxStream<'static, object_store::Result<Key>>,
        ) -> BoxStream<'static, object_store::Result<Key>> {
            let last = locked(&self.last).take();
            assert!(last.is_some_and(|(text, _)| text.contains("released")), "the lock of a successor");
            self.store.delete_stream(keys)
        }

        fn list(&self, _: Option<&Key>) -> BoxStream<'static, object_store::Result<ObjectMeta>> {
            unreachable!()
        }

        async fn list_with_delimiter(&self, _: Option<&Key>) -> object_store::Result<ListResult> {
            unreachable!()
        }

        async fn copy_opts(&self, _: &Key, _: &Key, _: CopyOptions) -> object_store::Result<()> {
            unreachable!()
        }
    }

    /// Acquires, checks and releases a lock a few times. Returns how often it was held, and how often it was lost.
    async fn process(slow: Arc<Slow>, id: String) -> [u32; 2] {
        let store: Arc<dyn ObjectStore> = Arc::<Slow>::clone(&slow);
        let mut counts = [0, 0];
        for round in 0..4 {
            let id = format!("{id}{round}");
            let object = object(&store, &id);
            let Ok(state) = object.take("b").await else { continue };
            let lock = lock(object.hold(state.unwrap()));
            for _ in 0..2 {
                slow.pause().await;
                if lock.check().await.is_err() {
                    counts[1] += 1;
                    break;
                }
                counts[0] += 1;
                let last = locked(&slow.last).clone().unwrap().0;
                assert!(last.starts_with(&id), "{id} holds the lock of {last:?}");
            }
            lock.release().await;
        }
        counts
    }

    /// Processes write an output while requests, responses and the processes themselves stall at random.
    #[test]
    fn stalled_processes_never_take_the_lock_of_another() {
        let fresh = fastrand::u64(..);
        let worlds = (0..60).chain([fresh]).map(|seed| async move {
            let slow = Arc::new(Slow {
                store: Arc::new(InMemory::new()),
                random: SyncMutex::new(fastrand::Rng::with_seed(seed)),
                last: SyncMutex::default(),
                takeovers: SyncMutex::default(),
            });
            let processes = ["a", "b", "c"].map(|id| process(Arc::clone(&slow), id.to_owned()));
            let counts = futures::future::join_all(processes).await;
            let takeovers = *locked(&slow.takeovers);
            counts.into_iter().fold([0, 0, takeovers], |[a, b, c], [held, lost]| [a + held, b + lost, c])
        });
        let worlds = runtime().block_on(futures::future::join_all(worlds));
        let [held, lost, takeovers] =
            worlds.into_iter().fold([0; 3], |[a, b, c], [x, y, z]| [a + x, b + y, c + z]);
        assert!(held > 100 && lost > 10 && takeovers > 10, "{held} held, {lost} lost, {takeovers} takeovers");
    }
}
