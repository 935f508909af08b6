//! The changes that an update makes, and their execution.

use icechunk::format::ChunkIndices;
use serde_json::Value;

use crate::{
    IcechunkError,
    location::ChunkSource,
    metadata::Document,
    write::{Selection, Writer},
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
    /// Chunks to write; `None` for groups and for arrays whose chunks are all unchanged.
    pub(crate) chunks: Option<Selection>,
    pub(crate) removed_chunks: Vec<ChunkIndices>,
}

impl<'a> Change<'a> {
    /// Writes the document and all chunks.
    pub(crate) fn create(document: &'a Document<'a>) -> Self {
        let chunks = document.array.map(|_| Selection::default());
        Self { chunks, ..Self::metadata_only(document, Some(document.metadata.clone())) }
    }

    /// Writes the document, if there is one, and no chunks.
    pub(crate) fn metadata_only(document: &'a Document<'a>, metadata: Option<Value>) -> Self {
        Self { document, recreate: false, metadata, chunks: None, removed_chunks: Vec::new() }
    }
}

impl UpdatePlan<'_> {
    /// Returns the number of chunks to write.
    pub(crate) fn chunks(&self) -> u64 {
        let selected = |change: &Change<'_>| Some(change.chunks.as_ref()?.count(change.document.array?));
        self.changes.iter().filter_map(selected).sum()
    }

    /// Executes the plan.
    pub(crate) async fn write(
        &self,
        writer: &mut Writer<'_>,
        sources: &[ChunkSource],
    ) -> Result<(), IcechunkError> {
        for path in &self.removed {
            writer.remove(path).await?;
        }
        for Change { document, recreate, metadata, removed_chunks, .. } in &self.changes {
            if *recreate {
                writer.remove(&document.path).await?;
            }
            // Before the resize, after which these chunks would be outside of the grid.
            writer.delete_chunks(&document.path, removed_chunks).await?;
            if let Some(metadata) = metadata {
                writer.document(&document.path, metadata).await?;
            }
        }
        for Change { document, chunks, .. } in &self.changes {
            if let (Some(array), Some(selection)) = (document.array, chunks) {
                writer.chunks(&document.path, array, sources, selection).await?;
            }
        }
        Ok(())
    }
}
