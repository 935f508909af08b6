//! `GET /v1/values/{source}`: the decoded elements of a selection of an array, for clients without the codecs.

use std::sync::Arc;

use axum::{
    Extension,
    body::Body,
    extract::{Path, State, rejection::PathRejection},
    http::{HeaderMap, Uri},
    response::Response,
};
use bytes::Bytes;
use tokio::sync::Semaphore;
use utoipa::IntoParams;
use virtualize::{
    ArrayReader, AxisSelection, Selection,
    options::value::parse_digits,
    zarr::{Array, ChunkGrid, Codec},
};

use super::{
    inspect::ArrayPath,
    zarr::{self, BINARY, StorePath},
};
use crate::{
    app::Service,
    auth::Client,
    budget::{Budget, on_thread},
    openapi::Binary,
    problem::Problem,
    query::Parameters,
    respond::{self, is_current},
    sources::Mapped,
};

/// Maximum size in bytes of the selected elements, and of a decoded chunk.
const MAX_BYTES: u64 = 64 << 20;
/// Maximum size in bytes of all decoded chunks that contain selected elements.
const MAX_DECODED: u64 = 1 << 30;
/// Maximum number of chunks that contain selected elements.
const MAX_CHUNKS: u64 = 1 << 16;
/// Memory in bytes that reading needs besides the elements and one chunk.
const WORKING: u64 = 32 << 20;
/// Hints.
const SYNTAX: &str =
    "select an index or start:stop:step for each axis, separated by commas, such as 0,0:1024:4,:";
const SMALLER: &str = "select fewer elements, or read the chunks through /v1/zarr";
/// Bytes counted for an element of variable size.
const VARIABLE: u64 = 16;
/// Selections that are read concurrently, for all clients together.
static READS: Semaphore = Semaphore::const_new(16);

/// Query parameter that selects elements.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "describes the query")]
pub(crate) struct Select {
    /// An index or `start:stop:step` for each axis, separated by commas. The three parts of a range are optional. The
    /// end of a range is clamped to the size of the axis. The default is all elements.
    #[param(example = "0,0:1024:4,:", pattern = "^[0-9:,]*$")]
    select: Option<String>,
}

/// Decoded elements of a selection of an array
///
/// At most 64 MiB, from at most 65,536 chunks that decode to at most 1 GiB. Missing chunks read as the fill value. Each
/// element of variable size, such as text, is preceded by its length in bytes, a 32-bit integer.
#[utoipa::path(get, path = "/v1/values/{source}", tag = "One file", params(StorePath, ArrayPath, Select), responses(
    (status = 200, description = "The elements, row-major and little-endian", body = inline(Binary), content_type = "application/octet-stream"),
    (status = 304, description = "Not modified"),
    Problem,
))]
pub(crate) async fn values(
    State(service): State<Arc<Service>>,
    Extension(client): Extension<Arc<Client>>,
    source: Result<Path<String>, PathRejection>,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let parameters = Parameters::read(&uri, &["array", "select"])?;
    let (path, select) = (parameters.array()?, parameters.get("select"));
    let mapped = zarr::open(&service, &client, &zarr::parameter(source)?).await?;
    let etag = mapped.tag(&["values", &mapped.version, &path, select.unwrap_or("all")]);
    let response = if is_current(&headers, &etag) {
        respond::content(&headers, BINARY, &etag, 0, Body::empty())
    } else {
        let bytes = read(&service.responses, &mapped, path, select).await?;
        respond::content(&headers, BINARY, &etag, bytes.len() as u64, bytes.into())
    };
    Ok(mapped.of_version(&service.config, response))
}

/// Reads the selected elements of an array. The budget share of their bytes is held until they are sent.
async fn read(
    responses: &Budget,
    mapped: &Mapped,
    path: String,
    select: Option<&str>,
) -> Result<Bytes, Problem> {
    let array = mapped.store.view().array(&path).ok_or_else(|| {
        Problem::not_found("array: the source has no such array").hint("/v1/inspect lists them")
    })?;
    let selection = selection(select, &array.shape)?;
    let cost = Cost::of(array, &selection)?;
    let most = MAX_BYTES.min(responses.size() / 2);
    cost.check(most)?;
    let permit = READS.acquire().await.map_err(|_| Problem::internal())?;
    let share = responses.take(cost.memory()).await?;
    let reader = ArrayReader::new(Arc::clone(&mapped.store), mapped.options.clone()).with_limit(most);
    let is_fixed = array.data_type.size().is_some();
    // The thread finishes the read even if the client disconnects, and holds permit and share until then.
    let work = move |_| async move {
        let bytes = if is_fixed {
            fixed(&reader, &path, &selection, cost.bytes)
        } else {
            variable(&reader, &path, &selection, most)
        };
        bytes.map(|bytes| (bytes, share))
    };
    let (bytes, share) = on_thread(work, permit).await??;
    Ok(share.attach(responses, bytes))
}

/// Reads elements of fixed size.
fn fixed(reader: &ArrayReader, path: &str, selection: &Selection, length: u64) -> Result<Bytes, Problem> {
    let mut bytes = vec![0; usize::try_from(length).map_err(|_| Problem::internal())?];
    reader.read(path, selection, &mut bytes)?;
    Ok(bytes.into())
}

/// Reads elements of variable size, each preceded by its length in bytes, a little-endian 32-bit integer.
fn variable(reader: &ArrayReader, path: &str, selection: &Selection, most: u64) -> Result<Bytes, Problem> {
    let elements = reader.read_variable(path, selection)?;
    let length =
        elements.iter().fold(0_u64, |all, each| all.saturating_add(each.len() as u64).saturating_add(4));
    if length > most {
        return Err(too_large("the selection", length, most));
    }
    let mut bytes = Vec::with_capacity(usize::try_from(length).unwrap_or_default());
    for element in elements {
        bytes.extend(u32::try_from(element.len()).map_err(|_| Problem::internal())?.to_le_bytes());
        bytes.extend_from_slice(&element);
    }
    Ok(bytes.into())
}

/// Parses a selection: an index or `start:stop:step` for each axis, separated by commas. All three parts of a range are
/// optional. Without a selection, all elements are selected.
fn selection(text: Option<&str>, shape: &[u64]) -> Result<Selection, Problem> {
    let wrong = |reason: String| Problem::parameter("select", reason).hint(SYNTAX);
    let Some(text) = text.filter(|text| !text.is_empty()) else { return Ok(Selection::all(shape)) };
    let axes: Vec<&str> = text.split(',').collect();
    if axes.len() != shape.len() {
        return Err(wrong(format!("selects along {} axes, and the array has {}", axes.len(), shape.len())));
    }
    let axes = axes.iter().zip(shape).map(|(text, size)| axis(text, *size));
    let axes = axes.collect::<Option<Vec<_>>>().ok_or_else(|| wrong("is malformed".to_owned()))?;
    let selection = Selection::Axes(axes);
    selection.check(shape).map_err(|error| wrong(error.to_string()))?;
    Ok(selection)
}

/// Parses the selection along one axis. The end of a range is clamped to the size of the axis, as in NumPy.
fn axis(text: &str, size: u64) -> Option<AxisSelection> {
    let number = |text: &str, default: u64| match text {
        "" => Some(default),
        digits => parse_digits(digits),
    };
    let mut parts = text.split(':');
    let (first, stop, step, rest) = (parts.next()?, parts.next(), parts.next(), parts.next());
    if rest.is_some() {
        return None;
    }
    let Some(stop) = stop else {
        return Some(AxisSelection::Range {
            start: number(first, u64::MAX).filter(|_| !first.is_empty())?,
            step: 1,
            count: 1,
        });
    };
    let (start, stop) = (number(first, 0)?, number(stop, size)?.min(size));
    let step = number(step.unwrap_or_default(), 1)?;
    let count = stop.saturating_sub(start).div_ceil(step.max(1));
    Some(AxisSelection::Range { start, step, count })
}

/// What reading a selection takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Cost {
    /// Bytes of the selected elements.
    bytes: u64,
    /// Bytes of the largest decoded chunk; 0 if parts of chunks can be read.
    chunk: u64,
    /// Number of chunks that contain selected elements.
    chunks: u64,
    /// Bytes of all chunks, or parts of chunks, that contain selected elements.
    decoded: u64,
}

impl Cost {
    fn of(array: &Array, selection: &Selection) -> Result<Self, Problem> {
        let Selection::Axes(axes) = selection else { return Err(Problem::internal()) };
        let size = array.data_type.size().unwrap_or(VARIABLE);
        let product = |factors: &[u64]| factors.iter().fold(size, |all, factor| all.saturating_mul(*factor));
        let counts = selection.shape();
        let touched: Vec<Touched> = axes
            .iter()
            .enumerate()
            .map(|(number, axis)| Touched::of(axis, &array.chunk_grid, number))
            .collect();
        let edges: Vec<u64> = touched.iter().map(|axis| axis.edge).collect();
        let is_plain = array.data_type.size().is_some()
            && array
                .codecs
                .iter()
                .all(|codec| matches!(codec, Codec::Transpose { .. } | Codec::Bytes { .. }));
        let chunks = touched.iter().fold(1_u64, |all, axis| all.saturating_mul(axis.chunks));
        let decoded = match is_plain {
            // A row is read from its first selected element to its last.
            true => axes
                .iter()
                .rev()
                .enumerate()
                .map(|(n, axis)| if n == 0 { extent(axis) } else { axis.count() })
                .fold(size, u64::saturating_mul),
            false => product(&edges).saturating_mul(chunks),
        };
        Ok(Self {
            bytes: product(&counts),
            chunk: if is_plain { 0 } else { product(&edges) },
            chunks,
            decoded,
        })
    }

    /// Checks the limits.
    fn check(self, most: u64) -> Result<(), Problem> {
        if self.bytes > most {
            return Err(too_large("the selection", self.bytes, most));
        }
        if self.bytes > 0 && self.chunk > most {
            return Err(too_large("a chunk", self.chunk, most));
        }
        if self.bytes > 0 && self.decoded > MAX_DECODED {
            return Err(too_large("the data to decode", self.decoded, MAX_DECODED));
        }
        if self.bytes > 0 && self.chunks > MAX_CHUNKS {
            let detail =
                format!("the selection touches {} chunks, and at most {MAX_CHUNKS} are read", self.chunks);
            return Err(Problem::chunk_size(detail).hint(SMALLER));
        }
        Ok(())
    }

    /// Estimates the memory in bytes that reading takes.
    fn memory(self) -> u64 {
        let working = self.chunk.saturating_mul(2).saturating_add(WORKING);
        self.bytes.saturating_add(self.decoded.saturating_mul(2).min(working))
    }
}

/// The chunks along one axis that contain selected elements: their number, and the size of the largest.
struct Touched {
    chunks: u64,
    edge: u64,
}

impl Touched {
    fn of(axis: &AxisSelection, grid: &ChunkGrid, number: usize) -> Self {
        let (AxisSelection::Range { start, step, count }, extent) = (axis, extent(axis)) else {
            return Self { chunks: axis.count(), edge: u64::MAX };
        };
        match grid {
            ChunkGrid::Regular(shape) => {
                let edge = shape.get(number).copied().unwrap_or(1).max(1);
                let last = start.saturating_add(extent.saturating_sub(1));
                let all = (last / edge).saturating_sub(start / edge).saturating_add(1);
                Self { chunks: if *step >= edge { *count } else { all.min(*count) }, edge }
            }
            ChunkGrid::Rectilinear(edges) => {
                let edges = edges.get(number).map(Vec::as_slice).unwrap_or_default();
                Self {
                    chunks: (*count).min(edges.len() as u64),
                    edge: edges.iter().copied().max().unwrap_or(1),
                }
            }
        }
    }
}

/// Returns the distance from the first selected index to the one after the last.
fn extent(axis: &AxisSelection) -> u64 {
    match axis {
        AxisSelection::Range { step, count, .. } if *count > 0 => {
            count.saturating_sub(1).saturating_mul(*step).saturating_add(1)
        }
        _ => axis.count(),
    }
}

fn too_large(what: &str, bytes: u64, most: u64) -> Problem {
    let detail = format!("{what} has {bytes} bytes, and at most {most} are read at once");
    Problem::chunk_size(detail).hint(SMALLER)
}
