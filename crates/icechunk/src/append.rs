//! Making arrays of a repository longer.

use std::{
    collections::{BTreeMap, BTreeSet},
    future::Future,
    pin::Pin,
};

use bytes::Bytes;
use icechunk::{
    format::{ByteRange, ChunkIndices, Path, manifest::ChunkPayload, snapshot::NodeData},
    session::{Session, get_chunk},
};
use serde_json::Value;
use virtualize_zarr::{Array, ChunkEntry, ChunkGrid, cf::attributes};

use crate::{
    IcechunkError,
    error::one_line,
    location::{Place, raw},
    metadata::{Document, node_error, node_path},
    write::{Grid, Writer},
};

/// Most stored bytes of an array without the dimension that are compared.
const COMPARED: u64 = 256 << 20;
/// Most chunks along the dimension in which the file that is appended is looked for.
const LOOKED_AT: u64 = 1 << 20;

/// Reads chunks where they lie.
pub trait ReadChunk: Sync {
    /// The bytes of a range of a file.
    fn read<'a>(
        &'a self,
        url: &'a str,
        offset: u64,
        length: u64,
    ) -> Pin<Box<dyn Future<Output = Result<Bytes, String>> + 'a>>;
}

/// What is appended, and along what.
pub(crate) struct Append<'a> {
    pub(crate) dimension: &'a str,
    pub(crate) group: &'a str,
    pub(crate) places: &'a [Place],
    pub(crate) read: &'a dyn ReadChunk,
}

/// An array that becomes longer.
struct Longer<'a> {
    document: &'a Document<'a>,
    array: &'a Array,
    metadata: Value,
    shift: Vec<u64>,
}

impl Append<'_> {
    /// Appends all arrays that have the dimension, after all of them and all others were found to fit.
    pub(crate) async fn write(
        &self,
        writer: &mut Writer<'_>,
        documents: &[Document<'_>],
    ) -> Result<(), IcechunkError> {
        let mut longer = Vec::new();
        {
            let session = writer.session().read().await;
            self.nothing_is_missing(&session, documents).await?;
            for document in documents {
                longer.extend(self.plan(&session, documents, document).await?);
            }
            self.is_new(&session, &longer).await?;
        }
        for array in &longer {
            writer.document(&array.document.path, &array.metadata).await?;
        }
        for Longer { document, array, shift, .. } in &longer {
            writer.chunks(&document.path, array, self.places, shift).await?;
        }
        Ok(())
    }

    fn refuse(&self, path: &str, reason: impl Into<String>) -> IcechunkError {
        IcechunkError::Append { path: path.to_owned(), reason: reason.into() }
    }

    /// Every array of the group that has the dimension is appended to.
    async fn nothing_is_missing(
        &self,
        session: &Session,
        documents: &[Document<'_>],
    ) -> Result<(), IcechunkError> {
        let nodes = session.list_nodes(&node_path(self.group)?).await;
        for node in nodes.map_err(IcechunkError::of("listing the group"))? {
            let node = node.map_err(IcechunkError::of("listing the group"))?;
            let path = node.path.as_str().trim_start_matches('/');
            let known: Value = serde_json::from_slice(&node.user_data).unwrap_or_default();
            let is_appended =
                documents.iter().any(|document| document.path == path && document.array.is_some());
            if self.axis(&known).is_some() && !is_appended {
                return Err(self.refuse(path, "what is appended has no such array"));
            }
        }
        Ok(())
    }

    fn axis(&self, metadata: &Value) -> Option<usize> {
        let names = metadata.get("dimension_names")?.as_array()?;
        names.iter().position(|name| name.as_str() == Some(self.dimension))
    }

    /// How an array becomes longer; nothing for groups and for arrays without the dimension, which must not differ.
    async fn plan<'a>(
        &self,
        session: &Session,
        documents: &[Document<'_>],
        document: &'a Document<'a>,
    ) -> Result<Option<Longer<'a>>, IcechunkError> {
        let path = &document.path;
        let node = session.get_node(&node_path(path)?).await;
        let node = node.map_err(|_| self.refuse(path, "the repository has no such node"))?;
        let is_array = matches!(node.node_data, NodeData::Array { .. });
        let array = match document.array {
            Some(array) if is_array => Some(array),
            None if !is_array => None,
            _ => return Err(self.refuse(path, "one is an array, the other a group")),
        };
        let known: Value = serde_json::from_slice(&node.user_data)
            .map_err(|error| node_error(path, format!("its metadata in the repository: {error}")))?;
        let moved = moves(documents, self.dimension);
        self.same_attributes(path, &known, &document.metadata, array, moved)?;
        let Some(array) = array else { return Ok(None) };
        self.same_parts(path, &known, &document.metadata)?;
        match self.axis(&known) {
            Some(axis) => {
                let (metadata, shift) = self.lengthen(path, known, array, axis)?;
                Ok(Some(Longer { document, array, metadata, shift }))
            }
            None if known.get("shape") != document.metadata.get("shape") => {
                Err(self
                    .refuse(path, format!("its shape differs, and it has no dimension {:?}", self.dimension)))
            }
            None => self.same_content(session, path, array).await.map(|()| None),
        }
    }

    /// All but shapes and attributes is equal.
    fn same_parts(&self, path: &str, known: &Value, new: &Value) -> Result<(), IcechunkError> {
        let parts =
            ["data_type", "chunk_grid", "chunk_key_encoding", "fill_value", "codecs", "dimension_names"];
        if let Some(part) = parts.iter().find(|part| known.get(**part) != new.get(**part)) {
            let say = |metadata: &Value| metadata.get(*part).map(ToString::to_string).unwrap_or_default();
            return Err(self.refuse(path, format!("{part} is {} there and {} here", say(known), say(new))));
        }
        Ok(())
    }

    /// Attributes on which it depends what values mean, or which quantity they are of, are equal.
    fn same_attributes(
        &self,
        path: &str,
        known: &Value,
        new: &Value,
        array: Option<&Array>,
        moved: bool,
    ) -> Result<(), IcechunkError> {
        let (known, new) = (meaning(known, array, moved), meaning(new, array, moved));
        let names: BTreeSet<&String> = known.keys().chain(new.keys()).collect();
        let Some(name) = names.into_iter().find(|name| known.get(*name) != new.get(*name)) else {
            return Ok(());
        };
        let say = |value: Option<&Value>| value.map_or_else(|| "absent".to_owned(), ToString::to_string);
        let (known, new) = (say(known.get(name)), say(new.get(name)));
        Err(self.refuse(path, format!("attribute {name} is {known} there and {new} here")))
    }

    /// The array's document with its new length, and by how many chunks the new ones are shifted.
    fn lengthen(
        &self,
        path: &str,
        mut known: Value,
        array: &Array,
        axis: usize,
    ) -> Result<(Value, Vec<u64>), IcechunkError> {
        let ChunkGrid::Regular(chunk) = &array.chunk_grid else {
            return Err(self.refuse(path, "its chunks are of several sizes"));
        };
        let sizes: Option<Vec<u64>> = known
            .get("shape")
            .and_then(Value::as_array)
            .map(|shape| shape.iter().filter_map(Value::as_u64).collect());
        let mut shape = sizes
            .filter(|shape| shape.len() == array.shape.len())
            .ok_or_else(|| self.refuse(path, "it has another number of dimensions there"))?;
        for (n, (there, here)) in shape.iter().zip(&array.shape).enumerate() {
            if n != axis && there != here {
                return Err(self.refuse(path, format!("axis {n} has {there} elements there and {here} here")));
            }
        }
        let (Some(length), Some(step), Some(more)) =
            (shape.get_mut(axis), chunk.get(axis), array.shape.get(axis))
        else {
            return Err(self.refuse(path, "it has another number of dimensions there"));
        };
        let step = (*step).max(1);
        if *length % step != 0 {
            let reason = format!(
                "it has {length} elements along {:?}, no multiple of its chunks' {step}",
                self.dimension
            );
            return Err(self.refuse(path, reason));
        }
        let mut shift = vec![0; array.shape.len()];
        if let Some(shift) = shift.get_mut(axis) {
            *shift = *length / step;
        }
        *length = length.checked_add(*more).ok_or_else(|| self.refuse(path, "it would be too long"))?;
        if let Some(known) = known.as_object_mut() {
            known.insert("shape".to_owned(), shape.into());
        }
        Ok((known, shift))
    }

    /// The chunks of an array that both have are equal byte by byte.
    async fn same_content(&self, session: &Session, path: &str, array: &Array) -> Result<(), IcechunkError> {
        let node = node_path(path)?;
        let counts = array.chunk_grid.counts(&array.shape);
        let total = counts.iter().try_fold(1_u64, |all, n| all.checked_mul(*n)).unwrap_or(u64::MAX);
        if total > LOOKED_AT {
            return Err(self.refuse(path, format!("its {total} chunks are too many to be compared")));
        }
        let grid = Grid { counts, shift: &[] };
        let mut budget = COMPARED;
        for position in 0..total {
            let Some(indices) = grid.indices(position) else { continue };
            let known = session.get_chunk_ref(&node, &indices).await;
            let known = known.map_err(|error| node_error(path, one_line(&error)))?;
            let equal = match (&known, array.chunks.get(position)) {
                (None, None) => true,
                (Some(known), Some(new)) if self.is_same_place(known, &new) => true,
                (Some(known), Some(new)) => {
                    let there = self.bytes_there(session, &node, &indices, known, &mut budget).await;
                    let here = self.bytes_here(&new, &mut budget).await;
                    there.map_err(|e| self.refuse(path, e))? == here.map_err(|e| self.refuse(path, e))?
                }
                _ => false,
            };
            if !equal {
                let reason = format!(
                    "it has no dimension {:?}, and its values differ (chunk {position})",
                    self.dimension
                );
                return Err(self.refuse(path, reason));
            }
        }
        Ok(())
    }

    fn is_same_place(&self, known: &ChunkPayload, new: &ChunkEntry<'_>) -> bool {
        match (known, new) {
            (ChunkPayload::Virtual(known), ChunkEntry::Reference(new)) => {
                let place = self.places.get(new.source.index());
                place.is_some_and(|place| place.location == known.location)
                    && (known.offset, known.length) == (new.offset, new.length)
            }
            _ => false,
        }
    }

    async fn bytes_there(
        &self,
        session: &Session,
        node: &Path,
        indices: &ChunkIndices,
        known: &ChunkPayload,
        budget: &mut u64,
    ) -> Result<Bytes, String> {
        spend(budget, known.length())?;
        match known {
            ChunkPayload::Virtual(part) => {
                self.read.read(&raw(part.location.url()), part.offset, part.length).await
            }
            _ => {
                let reader = session.get_chunk_reader(node, indices, &ByteRange::ALL).await;
                let bytes = get_chunk(reader.map_err(|error| one_line(&error))?).await;
                bytes.map_err(|error| one_line(&error))?.ok_or_else(|| "a chunk is not there".to_owned())
            }
        }
    }

    async fn bytes_here(&self, new: &ChunkEntry<'_>, budget: &mut u64) -> Result<Bytes, String> {
        match new {
            ChunkEntry::Inline(bytes) => Ok((*bytes).clone()),
            ChunkEntry::Reference(part) => {
                spend(budget, part.length)?;
                let place = self.places.get(part.source.index()).ok_or("a chunk lies in no known file")?;
                self.read.read(&raw(place.location.url()), part.offset, part.length).await
            }
        }
    }

    /// What is appended is not there already: none of the dimension's own chunks is one of those that are new.
    async fn is_new(&self, session: &Session, longer: &[Longer<'_>]) -> Result<(), IcechunkError> {
        let is_coordinate = |longer: &&Longer<'_>| {
            longer.shift.len() == 1 && longer.document.path.rsplit('/').next() == Some(self.dimension)
        };
        let Some(witness) = longer.iter().find(is_coordinate).or_else(|| longer.first()) else {
            return Err(self.refuse(self.group, format!("no array has a dimension {:?}", self.dimension)));
        };
        let path = &witness.document.path;
        let node = node_path(path)?;
        let axis = witness.shift.iter().position(|shift| *shift > 0).unwrap_or(0);
        let there = witness.shift.get(axis).copied().unwrap_or(0).min(LOOKED_AT);
        let urls: BTreeSet<&str> = self.places.iter().map(|place| place.location.url()).collect();
        let inline: BTreeSet<&[u8]> = witness.array.chunks.inline.values().map(Bytes::as_ref).collect();
        for index in 0..there {
            let mut indices = vec![0; witness.shift.len()];
            if let (Some(at), Ok(index)) = (indices.get_mut(axis), u32::try_from(index)) {
                *at = index;
            }
            let known = session.get_chunk_ref(&node, &ChunkIndices(indices)).await;
            let known = known.map_err(|error| node_error(path, one_line(&error)))?;
            let is_there = match &known {
                Some(ChunkPayload::Virtual(known)) => urls.contains(known.location.url()),
                Some(ChunkPayload::Inline(known)) => {
                    witness.shift.len() == 1 && inline.contains(known.as_ref())
                }
                _ => false,
            };
            if is_there {
                let reason = format!(
                    "its chunk {index} along {:?} is the same: it was appended before",
                    self.dimension
                );
                return Err(self.refuse(path, reason));
            }
        }
        Ok(())
    }
}

/// Attributes of a node that must be equal.
fn meaning(metadata: &Value, array: Option<&Array>, moved: bool) -> BTreeMap<String, Value> {
    let Some(all) = metadata.get("attributes").and_then(Value::as_object) else { return BTreeMap::new() };
    let Some(array) = array else { return attributes::of_group(all, moved) };
    if attributes::is_grid_mapping(all) {
        return attributes::of_grid_mapping(all, moved);
    }
    let mut said = attributes::of_array(all, array.data_type.is_float());
    let quantity = all.iter().filter(|(name, _)| attributes::names_quantity(name));
    said.extend(quantity.map(|(name, value)| (name.clone(), value.clone())));
    said
}

/// Whether images are appended that lie beside those which are there: then they begin elsewhere.
fn moves(documents: &[Document<'_>], dimension: &str) -> bool {
    let said = documents
        .iter()
        .find_map(|document| document.metadata.get("attributes")?.get("spatial:dimensions")?.as_array());
    match said {
        Some(names) => names.iter().any(|name| name.as_str() == Some(dimension)),
        None => matches!(dimension, "x" | "y" | "lon" | "lat"),
    }
}

fn spend(budget: &mut u64, length: u64) -> Result<(), String> {
    *budget = budget.checked_sub(length).ok_or("it is too big to be compared")?;
    Ok(())
}
