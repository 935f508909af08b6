use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
};

use super::run::lock;

/// Decoded chunks of which only a part was selected, so that the next selection may need them again. They are in two
/// generations: when the younger one has half of the bytes, it becomes the older one, which is dropped.
pub(super) struct Cache {
    half: u64,
    chunks: Mutex<[Generation; 2]>,
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
        Self { half: most / 2, chunks: Mutex::default() }
    }

    /// Returns a decoded chunk.
    pub(super) fn get(&self, path: &str, position: u64) -> Option<Arc<[u8]>> {
        let [young, old] = &mut *lock(&self.chunks);
        if let Some(found) = young.chunks.get(path).and_then(|array| array.get(&position)) {
            return Some(Arc::clone(found));
        }
        let found = old.chunks.get_mut(path)?.remove(&position)?;
        young.add(path, position, Arc::clone(&found));
        Some(found)
    }

    /// Keeps a decoded chunk, unless it is larger than a quarter of the cache.
    pub(super) fn keep(&self, path: &str, position: u64, elements: &[u8]) {
        if elements.len() as u64 > self.half / 2 {
            return;
        }
        let mut chunks = lock(&self.chunks);
        let [young, old] = &mut *chunks;
        if young.bytes.saturating_add(elements.len() as u64) > self.half {
            *old = std::mem::take(young);
        }
        young.add(path, position, elements.into());
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
}
