//! Datasets whose elements point into the global heap, and whose shape or type depends on what lies there: structures with
//! text of variable length, and sequences.
//!
//! [`heap_tasks`] lists what has to be read before the file is mapped. From the values, [`flatten`] makes datasets of
//! elements of fixed size, which are mapped like any other dataset that is stored in its object header.

mod mapping;
mod ragged;
mod structures;
mod tasks;
#[cfg(test)]
mod tests;

use std::any::Any;
use std::sync::Arc;

use bytes::Bytes;
use virtualize_bytes::{Address, Budget};
use virtualize_hdf5::model::{Dataset, Datatype, FillMessage, FillTime, FillValue, Layout};
use virtualize_zarr::SourceId;

pub(super) use self::mapping::SAMPLE_DIMENSION;
pub(super) use self::structures::holds_pointers;
pub use self::tasks::heap_tasks;
use super::plan::item_type;
use crate::{ChunkContent, Error, ReferenceText, Result};

/// A dataset: the url of its file, and its address there.
pub type DatasetKey = (String, Address);

/// What has to be read before a dataset can be mapped.
#[derive(Clone, Debug)]
pub struct HeapTask {
    /// Urls of the files; a [`SourceId`] is a place in this list.
    pub sources: Vec<String>,
    /// Recipe of all elements, pointers included, in one chunk.
    pub content: ChunkContent,
    /// The fill value, an element that follows the others.
    pub fill: Bytes,
    /// File of the heap.
    pub heap: SourceId,
    /// Pointers of an element, in the order of their offsets.
    pub pointers: Vec<HeapPointer>,
    /// The dataset, without its chunks.
    dataset: Dataset,
    /// Most bytes of values.
    limit: u64,
}

/// A pointer of each element.
#[derive(Clone, Debug)]
pub struct HeapPointer {
    /// Offset in the element, in bytes.
    pub offset: usize,
    /// Size in bytes.
    pub size: usize,
    /// What the reader needs to follow the pointer; pointers that are followed alike share it.
    pub context: Arc<dyn Any + Send + Sync>,
    /// Text of a reference to an object.
    pub references: Option<ReferenceText>,
}

/// The elements of a dataset, and what they point at.
#[derive(Clone, Debug)]
pub struct HeapValues {
    /// Elements with their pointers, the fill value last.
    pub elements: Vec<u8>,
    /// For each pointer of [`HeapTask::pointers`], the value in each element.
    pub values: Vec<Vec<Bytes>>,
}

/// Datasets with elements of fixed size that represent one with elements of variable length.
#[derive(Clone, Debug)]
pub enum Flattened {
    /// Structures with text of fixed length.
    Structures(Box<Dataset>),
    /// Sequences, as contiguous ragged array.
    Ragged {
        /// Items of all sequences, one sequence after the other.
        values: Box<Dataset>,
        /// Number of items of each sequence, in the shape of the dataset.
        row_sizes: Box<Dataset>,
    },
}

/// Returns the datasets that represent the dataset of a task.
///
/// # Errors
/// The values are too large, or contradict the type.
pub fn flatten(task: &HeapTask, values: &HeapValues, budget: &Budget<'_>) -> Result<Flattened> {
    match item_type(&task.dataset.datatype) {
        Datatype::Sequence { base, .. } => ragged::ragged(task, base, values, budget),
        _ => structures::structures(task, values, budget),
    }
}

impl HeapTask {
    /// Returns the dataset with other elements, stored in its object header.
    fn stored_as(&self, item: Datatype, elements: Vec<u8>, fill: FillValue) -> Dataset {
        let datatype = match &self.dataset.datatype {
            Datatype::Array { .. } => with_item(&self.dataset.datatype, item),
            _ => item,
        };
        Dataset {
            datatype,
            committed_datatype: None,
            fill: FillMessage { value: fill, ..self.dataset.fill.clone() },
            filters: Vec::new(),
            layout: Layout::Compact(elements.into()),
            ..self.dataset.clone()
        }
    }

    /// Takes memory for values that are put inline.
    fn take(&self, bytes: Option<u64>, why: &'static str, budget: &Budget<'_>) -> Result<()> {
        match bytes {
            Some(bytes) if bytes <= self.limit => Ok(budget.take("values of variable length", bytes)?),
            _ => Err(Error::InlineLimit {
                reason: why.into(),
                content: bytes.map_or("its values".to_owned(), |bytes| format!("{bytes} bytes")),
                limit: self.limit,
            }),
        }
    }
}

/// Returns a (nested) array type with other items.
fn with_item(datatype: &Datatype, item: Datatype) -> Datatype {
    match datatype {
        Datatype::Array { base, shape } => {
            Datatype::Array { base: Box::new(with_item(base, item)), shape: shape.clone() }
        }
        _ => item,
    }
}

/// A dataset that is never filled.
const NO_FILL: FillMessage =
    FillMessage { version: None, write_time: FillTime::IfSet, allocation_time: 0, value: FillValue::Default };
