use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
};

use super::run::lock;

/// Decoded chunks of which only a part was selected, so that the next selection may need them again. They are in two
/// generations: when the younger one has half of the bytes, it becomes the older one, which is dropped.
pub(super) struct Cache {
    /// Maximum number of bytes, including the reserved ones.
    most: u64,
    /// Bytes that are reserved for selections that are read ahead.
    reserved: AtomicU64,
    chunks: Mutex<[Generation; 2]>,
}

/// Bytes of a cache that chunks cannot use until this is dropped.
pub(super) struct Reserved {
    cache: Arc<Cache>,
    bytes: u64,
}

impl Drop for Reserved {
    fn drop(&mut self) {
        self.cache.reserved.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

#[derive(Default)]
struct Generation {
    bytes: u64,
    /// Elements in stored order, by path of the array and position of the chunk.
    chunks: HashMap<String, HashMap<u64, Arc<[u8]>>>,
}

impl Cache {
    /// Creates a cache of at most `most` bytes.
    pub(super) fn new(most: u64) -> Self {
        Self { most, reserved: AtomicU64::new(0), chunks: Mutex::default() }
    }

    /// Returns how many bytes can be reserved together: a quarter.
    pub(super) fn reservable(&self) -> u64 {
        self.most / 4
    }

    /// Reserves bytes, for which chunks are dropped if necessary. Returns `None` if too many are reserved.
    pub(super) fn reserve(self: &Arc<Self>, bytes: u64) -> Option<Reserved> {
        let add = |reserved: u64| reserved.checked_add(bytes).filter(|sum| *sum <= self.reservable());
        self.reserved.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add).ok()?;
        self.trim(&mut lock(&self.chunks));
        Some(Reserved { cache: Arc::clone(self), bytes })
    }

    /// Returns how many bytes chunks may have.
    fn limit(&self) -> u64 {
        self.most.saturating_sub(self.reserved.load(Ordering::Relaxed))
    }

    /// Drops a generation, or both, if they exceed the limit.
    fn trim(&self, [young, old]: &mut [Generation; 2]) {
        let limit = self.limit();
        if young.bytes.saturating_add(old.bytes) > limit {
            *old = Generation::default();
        }
        if young.bytes > limit {
            *young = Generation::default();
        }
    }

    /// Returns a decoded chunk.
    pub(super) fn get(&self, path: &str, position: u64) -> Option<Arc<[u8]>> {
        let [young, old] = &mut *lock(&self.chunks);
        if let Some(found) = young.chunks.get(path).and_then(|array| array.get(&position)) {
            return Some(Arc::clone(found));
        }
        let found = old.chunks.get_mut(path)?.remove(&position)?;
        old.bytes -= found.len() as u64;
        young.add(path, position, Arc::clone(&found));
        Some(found)
    }

    /// Keeps a decoded chunk, unless it is larger than a quarter of the cache.
    pub(super) fn keep(&self, path: &str, position: u64, elements: &[u8]) {
        if elements.len() as u64 > self.most / 4 {
            return;
        }
        let elements: Arc<[u8]> = elements.into();
        let mut chunks = lock(&self.chunks);
        let [young, old] = &mut *chunks;
        if young.bytes.saturating_add(elements.len() as u64) > self.limit() / 2 {
            *old = std::mem::take(young);
        }
        young.add(path, position, elements);
        self.trim(&mut chunks);
    }
}

impl Generation {
    fn add(&mut self, path: &str, position: u64, elements: Arc<[u8]>) {
        if !self.chunks.contains_key(path) {
            self.chunks.insert(path.to_owned(), HashMap::new());
        }
        let Some(array) = self.chunks.get_mut(path) else { return };
        self.bytes += elements.len() as u64;
        if let Some(before) = array.insert(position, elements) {
            self.bytes -= before.len() as u64;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_used_stays() {
        let cache = Cache::new(64);
        for position in 0..100 {
            cache.keep("a", position, &[u8::try_from(position).unwrap(); 8]);
            assert_eq!(cache.get("a", 0).as_deref(), Some(&[0; 8][..]), "{position}");
            let bytes: u64 = lock(&cache.chunks).iter().map(|generation| generation.bytes).sum();
            assert!(bytes <= 64, "{bytes}");
        }
        assert_eq!(cache.get("a", 99).as_deref(), Some(&[99; 8][..]));
        assert_eq!((cache.get("a", 50), cache.get("b", 99)), (None, None));
        cache.keep("a", 7, &[7; 32]);
        assert_eq!(cache.get("a", 7), None, "larger than a quarter");
    }

    #[test]
    fn chunks_make_way_for_reserved_bytes() {
        let cache = Arc::new(Cache::new(64));
        let bytes = || lock(&cache.chunks).iter().map(|generation| generation.bytes).sum::<u64>();
        let fill = || {
            for position in 0..100 {
                cache.keep("a", position, &[0; 8]);
                // All of the older generation is used again.
                for before in 0..position {
                    cache.get("a", before);
                }
                assert!(bytes() <= cache.limit(), "{} of {}", bytes(), cache.limit());
            }
        };
        fill();
        let reserved = cache.reserve(10);
        assert!(reserved.is_some() && cache.reserve(7).is_none() && bytes() <= 54);
        fill();
        drop(reserved);
        assert_eq!(
            (cache.limit(), cache.reserve(17).is_none(), cache.reserve(16).is_some()),
            (64, true, true)
        );
    }
}
