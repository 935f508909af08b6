//! The changes that an update makes, and their execution.

use std::collections::BTreeSet;

use serde_json::Value;
use virtualize_zarr::ChunkReader;

use crate::{
    IcechunkError,
    comparison::{Comparison, Merge},
    metadata::Document,
    new_chunks::{NewChunks, Sources},
    write::Writer,
};

/// The changes of an update.
pub(crate) struct UpdatePlan<'a> {
    /// Paths of nodes to remove, children first.
    pub(crate) removed: Vec<String>,
    pub(crate) changes: Vec<Change<'a>>,
}

/// The changes to one node.
pub(crate) struct Change<'a> {
    pub(crate) document: &'a Document<'a>,
    /// Whether the existing node is removed first.
    pub(crate) recreate: bool,
    /// The document to write, if it changed.
    pub(crate) metadata: Option<Value>,
    /// What the chunks are compared with; `None` for groups, and for arrays whose chunks are all unchanged.
    pub(crate) chunks: Option<Comparison>,
}

impl<'a> Change<'a> {
    /// Writes the document and all chunks.
    pub(crate) fn create(document: &'a Document<'a>) -> Self {
        let chunks = document.array.map(|_| Comparison::default());
        Self { chunks, ..Self::metadata_only(document, Some(document.metadata.clone())) }
    }

    /// Writes the document, if there is one, and no chunks.
    pub(crate) fn metadata_only(document: &'a Document<'a>, metadata: Option<Value>) -> Self {
        Self { document, recreate: false, metadata, chunks: None }
    }

    /// Removes the chunks that are outside of the new grid, which is not possible once the array is resized. Returns whether
    /// there were any.
    async fn remove_outside(&self, writer: &mut Writer<'_>) -> Result<bool, IcechunkError> {
        let (Some(array), Some(comparison)) = (self.document.array, &self.chunks) else { return Ok(false) };
        let counts = array.chunk_grid.counts(&array.shape);
        let shrinks = comparison.base.as_ref().is_some_and(|base| {
            base.counts.len() == counts.len() && base.counts.iter().zip(&counts).any(|(old, new)| old > new)
        });
        if !shrinks {
            return Ok(false);
        }
        let path = &self.document.path;
        writer.changes(path, Merge::start((path, array), comparison, None).await?).await
    }
}

impl UpdatePlan<'_> {
    /// Executes the plan. Returns the paths of the arrays with changes to which others wrote chunks, too.
    pub(crate) async fn write(
        &self,
        writer: &mut Writer<'_>,
        reader: &mut dyn ChunkReader,
        sources: &mut Sources,
    ) -> Result<BTreeSet<String>, IcechunkError> {
        let mut touched = BTreeSet::new();
        let is_shared = |chunks: &Option<Comparison>| chunks.as_ref().is_some_and(|it| it.tip.is_some());
        for path in &self.removed {
            writer.remove(path).await?;
        }
        for change @ Change { document, recreate, metadata, chunks } in &self.changes {
            if *recreate {
                writer.remove(&document.path).await?;
            }
            if change.remove_outside(writer).await? && is_shared(chunks) {
                touched.insert(document.path.clone());
            }
            if let Some(metadata) = metadata {
                writer.document(&document.path, metadata).await?;
            }
        }
        for Change { document, chunks, .. } in &self.changes {
            let (Some(array), Some(comparison)) = (document.array, chunks) else { continue };
            let path = &document.path;
            let new = NewChunks::open(reader, sources, (document, array), comparison.retained)?;
            let merge = Merge::start((path, array), comparison, Some(new)).await?;
            if writer.changes(path, merge).await? && is_shared(chunks) {
                touched.insert(path.clone());
            }
        }
        Ok(touched)
    }
}
