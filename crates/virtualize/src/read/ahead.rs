//! The cache of decoded chunks, and reading ahead. If the selections of an array follow each other at a constant distance along one axis, other threads read
//! the next ones while the caller works on the current one.
//!
//! The next selections are read in blocks, as one selection: while the caller takes values from one block, the next one is
//! read. A block has at most as many selections as were read before, so at most half of what is read is never used.

use std::{
    collections::{HashMap, VecDeque},
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    thread,
};

use futures::{
    channel::oneshot,
    executor::block_on,
    future::{FutureExt, Shared},
};
use tokio::runtime::Handle;
use virtualize_zarr::Array;

use super::{ArrayReader, AxisSelection, Plan, Selection, Stored};
use crate::{chunks::interruptible, error::ArrayError, sources::lock};

/// Selections with longer lists of indices are not remembered.
const MAX_INDICES: usize = 1 << 12;

/// How arrays are being read, by path, and the number of reads of all.
#[derive(Default)]
pub(super) struct Walks(Mutex<(HashMap<String, Walk>, u64)>);

/// Selections of an array that follow each other.
#[derive(Default)]
struct Walk {
    last: Vec<AxisSelection>,
    /// From the last but one to the last.
    stride: Option<Stride>,
    /// Number of consecutive strides that are equal.
    count: u64,
    /// Number of the last read.
    read: u64,
    /// Number of threads that read the array.
    readers: usize,
    /// What is read ahead, in order: at most two blocks.
    blocks: VecDeque<Block>,
}

/// Distance between two selections that are otherwise equal.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Stride {
    axis: usize,
    distance: i64,
}

/// Selections that are read ahead together. Dropping it stops the thread that reads them.
#[derive(Clone)]
struct Block {
    first: Vec<AxisSelection>,
    stride: Stride,
    /// Number of selections.
    count: u64,
    /// Bytes that are reserved.
    bytes: u64,
    values: Shared<oneshot::Receiver<Arc<Values>>>,
}

/// Elements of a block.
struct Values {
    elements: Vec<u8>,
    _reserved: Reserved,
}

impl ArrayReader {
    /// Copies a selection that was read ahead into `out`; waits if it is being read. Returns `false` if it is not among
    /// them, or could not be read.
    pub(super) fn take_ahead(
        &self,
        path: &str,
        selection: &Selection,
        out: &mut [u8],
    ) -> Result<bool, ArrayError> {
        let Some(Walks(walks)) = &self.walks else { return Ok(false) };
        let found = {
            let (walks, _) = &mut *lock(walks);
            let walk = walks.entry(path.to_owned()).or_default();
            walk.readers += 1;
            let Selection::Axes(axes) = selection else { return Ok(false) };
            walk.blocks.iter().find_map(|block| Some((block.index_of(axes)?, block.clone())))
        };
        let Some((index, block)) = found else { return Ok(false) };
        let interrupt = self.interrupt.as_deref().map(|interrupt| interrupt as &dyn Fn() -> bool);
        let values = block_on(interruptible(block.values.clone(), interrupt));
        match values.ok_or(ArrayError::Interrupted)? {
            Ok(values) => Ok(block.copy(index, &values.elements, out).is_some()),
            Err(_) => {
                if let Some(walk) = lock(walks).0.get_mut(path) {
                    walk.reset();
                }
                Ok(false)
            }
        }
    }

    /// Ends a read, before or after which nothing is read ahead.
    pub(super) fn forget(&self, path: &str) {
        let Some(Walks(walks)) = &self.walks else { return };
        let (walks, _) = &mut *lock(walks);
        if let Some(walk) = walks.get_mut(path) {
            walk.reset();
            walk.readers = walk.readers.saturating_sub(1);
            if walk.readers == 0 {
                walks.remove(path);
            }
        }
    }

    /// Ends a read of a remote array, and starts to read the selections that are expected to follow.
    pub(super) fn read_ahead(&self, path: &str, selection: &Selection) {
        let (Some(Walks(walks)), Selection::Axes(axes)) = (&self.walks, selection) else {
            return self.forget(path);
        };
        if axes.iter().any(|axis| matches!(axis, AxisSelection::Indices(list) if list.len() > MAX_INDICES)) {
            return self.forget(path);
        }
        let (walks, reads) = &mut *lock(walks);
        *reads += 1;
        let mut walk = walks.remove(path).unwrap_or_default();
        walk.readers = walk.readers.saturating_sub(1);
        if walk.last != *axes {
            walk.advance(axes);
            // Several threads would request what is read ahead. One block at a time is read, since the next one may need
            // chunks that it decodes.
            if walk.count > 1
                && walk.readers == 0
                && walk.blocks.len() < 2
                && walk.blocks.back().is_none_or(Block::is_read)
            {
                let block = self.next_block(path, &walk, walks);
                walk.blocks.extend(block);
            }
        }
        walk.read = *reads;
        walks.insert(path.to_owned(), walk);
    }

    /// Starts to read the next block of a walk. Those of arrays that were not read since the walk's previous selection give
    /// way to it.
    fn next_block(&self, path: &str, walk: &Walk, others: &mut HashMap<String, Walk>) -> Option<Block> {
        let (cache, stride) = (self.cache.as_ref()?, walk.stride?);
        let array = self.store.metadata().hierarchy.array(path)?;
        let first = match walk.blocks.back() {
            Some(block) => stride.times(block.count)?.of(&block.first)?,
            None => stride.of(&walk.last)?,
        };
        let is_active = |other: &&Walk| other.count > 1 && other.read > walk.read;
        let share = cache.reservable() / (1 + others.values().filter(is_active).count() as u64);
        let free = share.saturating_sub(walk.blocks.iter().map(|block| block.bytes).sum());
        let mut count = walk.count.min(stride.fitting(&first, *array.shape.get(stride.axis)?)?);
        let (selection, length, bytes) = loop {
            let most = if count == 1 { free } else { free.min(share / 2) };
            match block_of(array, &first, stride, count, most) {
                Some(found) => break found,
                None if count <= 1 => return None,
                None => count /= 2,
            }
        };
        let reserved = cache.reserve(bytes).or_else(|| {
            let idle = others.values_mut().filter(|other| other.read < walk.read);
            idle.for_each(|other| other.blocks.clear());
            cache.reserve(bytes)
        });
        let values = self.start(path, selection, length, reserved?)?;
        Some(Block { first, stride, count, bytes, values: values.shared() })
    }

    /// Reads a selection of so many bytes on another thread, until nobody waits for it.
    fn start(
        &self,
        path: &str,
        selection: Selection,
        length: usize,
        reserved: Reserved,
    ) -> Option<oneshot::Receiver<Arc<Values>>> {
        let (runtime, path) = (Handle::try_current().ok()?, path.to_owned());
        let (sender, receiver) = oneshot::channel();
        let sender = Arc::new(sender);
        let watched = Arc::clone(&sender);
        let reader = Self {
            store: Arc::clone(&self.store),
            options: self.options.clone(),
            files: Arc::clone(&self.files),
            foreign: self.foreign.clone(),
            most: self.most,
            cache: self.cache.clone(),
            walks: None,
            interrupt: Some(Arc::new(move || watched.is_canceled())),
            missing: None,
        };
        let read = move || {
            let _context = runtime.enter();
            let elements = reader.read_now(&path, &selection, length);
            drop(reader);
            // Errors are those of the caller's read, which follows.
            if let (Some(elements), Some(sender)) = (elements, Arc::into_inner(sender)) {
                drop(sender.send(Arc::new(Values { elements, _reserved: reserved })));
            }
        };
        thread::Builder::new().spawn(read).ok()?;
        Some(receiver)
    }

    fn read_now(&self, path: &str, selection: &Selection, length: usize) -> Option<Vec<u8>> {
        let store = self.with_chunks(path, selection).ok()?;
        if self.store.is_native() {
            let plan = Plan::new(store.hierarchy.array(path)?, selection).ok()?;
            // Missing chunks may be written until the caller asks for them.
            if plan.whole_parts().any(|part| part.is_ok_and(|part| matches!(part.bytes, Stored::Missing))) {
                return None;
            }
        }
        let mut elements = vec![0; length];
        self.read_into(&store, path, selection, &mut elements).ok()?;
        Some(elements)
    }
}

impl Walk {
    fn reset(&mut self) {
        *self = Self { readers: self.readers, ..Self::default() };
    }

    /// Moves on to a selection, and drops the block of which it is the last.
    fn advance(&mut self, selection: &[AxisSelection]) {
        let stride = Stride::between(&self.last, selection);
        if stride.is_none() || stride != self.stride {
            (self.stride, self.count) = (stride, 0);
            self.blocks.clear();
        }
        self.last = selection.to_vec();
        self.count += u64::from(stride.is_some());
        if let Some(block) = self.blocks.front() {
            match block.index_of(selection) {
                Some(index) if index + 1 < block.count => {}
                Some(_) => drop(self.blocks.pop_front()),
                None => self.blocks.clear(),
            }
        }
    }
}

impl Stride {
    /// Returns the stride from one selection to another.
    fn between(one: &[AxisSelection], other: &[AxisSelection]) -> Option<Self> {
        let mut differing = one.iter().zip(other).enumerate().filter(|(_, (one, other))| one != other);
        let (axis, pair) = differing.next().filter(|_| differing.next().is_none())?;
        match pair {
            (
                AxisSelection::Range { start: from, step, count },
                AxisSelection::Range { start: to, step: other_step, count: other_count },
            ) if (step, count) == (other_step, other_count) => {
                let distance = i64::try_from(i128::from(*to) - i128::from(*from)).ok()?;
                Some(Self { axis, distance })
            }
            _ => None,
        }
    }

    fn times(self, count: u64) -> Option<Self> {
        let distance = self.distance.checked_mul(i64::try_from(count).ok()?)?;
        Some(Self { distance, ..self })
    }

    /// Returns the selection one stride after another, unless it begins before the array.
    fn of(self, selection: &[AxisSelection]) -> Option<Vec<AxisSelection>> {
        let mut selection = selection.to_vec();
        if let AxisSelection::Range { start, .. } = selection.get_mut(self.axis)? {
            *start = start.checked_add_signed(self.distance)?;
        }
        Some(selection)
    }

    /// Returns how many selections, from `first` on, are within an axis.
    fn fitting(self, first: &[AxisSelection], size: u64) -> Option<u64> {
        let AxisSelection::Range { start, step, count } = first.get(self.axis)? else { return None };
        let last = start.checked_add(step.checked_mul(count.checked_sub(1)?)?)?;
        let room = if self.distance < 0 { *start } else { size.checked_sub(last)?.checked_sub(1)? };
        Some(room / self.distance.unsigned_abs() + 1)
    }

    /// Returns all indices of `count` selections from `first` on, those at the start of the axis first.
    fn joined(self, first: &[AxisSelection], count: u64) -> Option<Vec<AxisSelection>> {
        let mut joined = match self.distance < 0 {
            true => self.times(count - 1)?.of(first)?,
            false => first.to_vec(),
        };
        let along = joined.get_mut(self.axis)?;
        let AxisSelection::Range { start, step, count: length } = *along else { return None };
        let distance = self.distance.unsigned_abs();
        let total = length.checked_mul(count)?;
        *along = if length == 1 {
            AxisSelection::Range { start, step: distance, count }
        } else if distance == step.saturating_mul(length) {
            AxisSelection::Range { start, step, count: total }
        } else {
            let indices = (0..total).map(|n| start + n / length * distance + n % length * step);
            AxisSelection::Indices(indices.collect())
        };
        Some(joined)
    }
}

/// Returns `count` selections as one, its length in bytes, and how much memory reading it takes besides that of other reads:
/// for the elements, and for compressed chunks, which are smaller than the decoded ones. Returns `None` if that exceeds
/// `most`.
fn block_of(
    array: &Array,
    first: &[AxisSelection],
    stride: Stride,
    count: u64,
    most: u64,
) -> Option<(Selection, usize, u64)> {
    let elements = first.iter().map(AxisSelection::count).try_fold(count, u64::checked_mul)?;
    let length = elements.checked_mul(array.data_type.size()?).filter(|length| *length <= most)?;
    let selection = Selection::Axes(stride.joined(first, count)?);
    let plan = Plan::new(array, &selection).ok()?;
    let chunks = if plan.is_plain() { 0 } else { plan.extent(false).bytes };
    let bytes = length.checked_add(chunks).filter(|bytes| *bytes <= most)?;
    Some((selection, usize::try_from(length).ok()?, bytes))
}

impl Block {
    /// Returns which selection of the block one is.
    fn index_of(&self, selection: &[AxisSelection]) -> Option<u64> {
        if selection == self.first {
            return Some(0);
        }
        let Stride { axis, distance } = Stride::between(&self.first, selection)?;
        let is_multiple = axis == self.stride.axis && distance.checked_rem(self.stride.distance)? == 0;
        let index = u64::try_from(distance.checked_div(self.stride.distance)?).ok()?;
        (is_multiple && index < self.count).then_some(index)
    }

    fn is_read(&self) -> bool {
        matches!(self.values.clone().now_or_never(), Some(Ok(_)))
    }

    /// Copies a selection of the block from the elements of all.
    fn copy(&self, index: u64, elements: &[u8], out: &mut [u8]) -> Option<()> {
        let at = if self.stride.distance < 0 { self.count - 1 - index } else { index };
        let (at, count) = (usize::try_from(at).ok()?, usize::try_from(self.count).ok()?);
        let before: u64 = self.first.iter().take(self.stride.axis).map(AxisSelection::count).product();
        let row = out.len().checked_div(usize::try_from(before).ok()?)?;
        if row == 0 || out.len().checked_mul(count)? != elements.len() {
            return None;
        }
        for (out, elements) in out.chunks_exact_mut(row).zip(elements.chunks_exact(row * count)) {
            out.copy_from_slice(elements.get(at * row..(at + 1) * row)?);
        }
        Some(())
    }
}

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

    /// Indices along the axis that is walked, between two others.
    fn selection(start: u64, step: u64, count: u64) -> Vec<AxisSelection> {
        let ends = AxisSelection::Indices(vec![4, 0]);
        vec![ends.clone(), AxisSelection::Range { start, step, count }, ends]
    }

    fn indices(axis: &AxisSelection) -> Vec<u64> {
        match axis {
            AxisSelection::Range { start, step, count } => (0..*count).map(|n| start + n * step).collect(),
            AxisSelection::Indices(indices) => indices.clone(),
        }
    }

    /// Returns the elements of a selection, each of which is its three indices.
    fn elements(selection: &[AxisSelection]) -> Vec<u8> {
        let [x, y, z] = selection else { panic!() };
        let mut elements = Vec::new();
        for x in indices(x) {
            for y in indices(y) {
                let row = indices(z).into_iter().flat_map(|z| [x, y, z]);
                elements.extend(row.map(|n| u8::try_from(n).unwrap()));
            }
        }
        elements
    }

    #[test]
    fn each_selection_of_a_block_is_found() {
        let size = 30;
        for (start, step, length) in [(12, 1, 1), (12, 3, 1), (9, 1, 4), (9, 2, 3), (0, 1, 2), (29, 1, 1)] {
            for distance in [-9, -4, -2, -1, 1, 2, 3, 4, 6, 7] {
                let (first, stride) = (selection(start, step, length), Stride { axis: 1, distance });
                let count = stride.fitting(&first, size).unwrap();
                let last = stride.times(count - 1).unwrap().of(&first).unwrap();
                assert!(Selection::Axes(last.clone()).check(&[5, size, 5]).is_ok());
                let next = stride.of(&last);
                assert!(next.is_none_or(|next| Selection::Axes(next).check(&[5, size, 5]).is_err()));
                let joined = elements(&stride.joined(&first, count).unwrap());
                let (_, values) = oneshot::channel();
                let block = Block { first: first.clone(), stride, count, bytes: 0, values: values.shared() };
                for index in 0..count {
                    let one = stride.times(index).unwrap().of(&first).unwrap();
                    assert_eq!(block.index_of(&one), Some(index));
                    let mut out = vec![0; elements(&one).len()];
                    block.copy(index, &joined, &mut out).unwrap();
                    assert_eq!(out, elements(&one), "{first:?} {distance} {index}");
                }
                let after = stride.times(count).unwrap().of(&first);
                assert!(after.is_none_or(|after| block.index_of(&after).is_none()));
                assert_eq!(block.index_of(&selection(start + 1, step + 1, length)), None);
            }
        }
    }

    #[test]
    fn strides_are_along_one_axis() {
        let one = selection(5, 1, 2);
        assert_eq!(Stride::between(&one, &selection(3, 1, 2)).map(|stride| stride.distance), Some(-2));
        let mut both = selection(6, 1, 2);
        *both.last_mut().unwrap() = AxisSelection::Indices(vec![0, 4]);
        let others = [both, selection(6, 2, 2), selection(6, 1, 3), one.clone()];
        assert!(others.iter().all(|other| Stride::between(&one, other).is_none()));
        assert!(Stride::between(&selection(0, 1, 1), &selection(u64::MAX, 1, 1)).is_none());
    }

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
