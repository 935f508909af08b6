//! Masks within LERC data. Libtiff stores NaN as a mask, and shows masked pixels as NaN; Zarr readers show them as 0. The
//! header of each blob says whether it has one, and whether there is one blob a sample, which Zarr readers put on the
//! wrong axis. Such chunks are written again and inlined. Integers have no NaN: of them all readers show the same.

use bytes::Bytes;
use virtualize_bytes::{ByteRange, Limits, ReadError};
use virtualize_codec::lerc::{self, Head};
use virtualize_map::{ChunkContent, Diagnostic, InlineTask, MapOptions, Mapped, Severity};
use virtualize_zarr::{Array, ChunkGrid, Codec, FillValue, NodePath, Reference, chunk_indices};

use super::{Context, Failure, remove};

/// Headers that are read of all arrays of a local file, and of a remote one, where each may cost a request.
const MOST_LOCAL: u64 = 1 << 20;
const MOST_REMOTE: u64 = 1 << 10;
/// Bytes that Deflate may need for its own tables.
const DEFLATED_HEAD: u64 = 1 << 10;
/// Bytes that are read of a chunk for its mask.
const MASK: u64 = 1 << 15;

/// What is the matter with an array.
enum Verdict {
    /// These chunks have to be made again.
    Remake(Vec<(u64, Reference)>),
    /// It cannot be shown.
    LeaveOut { code: &'static str, why: String, hint: Option<String> },
    /// Nobody looked.
    Unknown,
}

/// Looks at the header of every chunk of arrays of floating-point numbers under LERC, as far as there are not too many.
pub(crate) async fn check(
    context: &Context<'_>,
    options: &MapOptions,
    mapped: &mut Mapped,
) -> Result<(), ReadError> {
    let is_local = mapped.hierarchy.sources.first().is_some_and(|source| source.url.starts_with("file:"));
    let mut left = if is_local { MOST_LOCAL } else { MOST_REMOTE };
    let mut verdicts = Vec::new();
    for (path, array) in mapped.hierarchy.arrays() {
        let Some(outer) = outer_codecs(array).filter(|_| array.data_type.is_float()) else { continue };
        let chunks: Vec<(u64, Reference)> = array.chunks.references.iter().flat_map(|c| c.iter()).collect();
        let verdict = match left.checked_sub(chunks.len() as u64) {
            None => Verdict::Unknown,
            Some(rest) => {
                left = rest;
                masked(context, array, outer, chunks).await?
            }
        };
        verdicts.push((path, verdict));
    }
    for (path, verdict) in verdicts {
        act(mapped, path, verdict, options);
    }
    Ok(())
}

/// The codecs around LERC.
fn outer_codecs(array: &Array) -> Option<&[Codec]> {
    let is_lerc = |codec: &Codec| matches!(codec, Codec::Image { name: "imagecodecs_lerc", .. });
    let at = array.codecs.iter().position(is_lerc)?;
    array.codecs.get(at + 1..)
}

/// The chunks whose headers say that Zarr readers do not show them as libtiff does.
async fn masked(
    context: &Context<'_>,
    array: &Array,
    outer: &[Codec],
    chunks: Vec<(u64, Reference)>,
) -> Result<Verdict, ReadError> {
    let (size, elements) = (size(array), elements(array));
    let mut remake = Vec::new();
    for batch in chunks.chunks(1 << 12) {
        let ranges: Vec<ByteRange> =
            batch.iter().map(|(_, chunk)| front(outer, chunk, Head::BYTES as u64)).collect();
        for ((position, chunk), bytes) in batch.iter().zip(context.source.read_ranges(&ranges).await?) {
            let head = lerc::unwrap(outer, &bytes, Head::BYTES).and_then(|front| Head::parse(&front));
            match head {
                Ok(head) if head.is_plain(elements, size) => {}
                Ok(_) => remake.push((*position, *chunk)),
                Err(why) => {
                    let why = format!("chunk at {:#x}: {why}", chunk.offset);
                    return Ok(Verdict::LeaveOut { code: "tiff-lerc", why, hint: None });
                }
            }
        }
    }
    let remake = without_padding(context, array, outer, remake).await?;
    Ok(Verdict::Remake(remake))
}

/// Those chunks of which a pixel inside the image is masked: GDAL fills tiles that stick out of it with NaN.
async fn without_padding(
    context: &Context<'_>,
    array: &Array,
    outer: &[Codec],
    chunks: Vec<(u64, Reference)>,
) -> Result<Vec<(u64, Reference)>, ReadError> {
    let (inside, at_the_edge): (Vec<_>, Vec<_>) =
        chunks.into_iter().partition(|(position, _)| extent_inside(array, *position).is_none());
    let mut remake = inside;
    for batch in at_the_edge.chunks(1 << 8) {
        let ranges: Vec<ByteRange> = batch.iter().map(|(_, chunk)| front(outer, chunk, MASK)).collect();
        for ((position, chunk), bytes) in batch.iter().zip(context.source.read_ranges(&ranges).await?) {
            let front =
                lerc::unwrap(outer, &bytes, usize::try_from(4 * MASK).unwrap_or(0)).unwrap_or_default();
            let fits = Head::parse(&front).is_ok_and(|head| head.holds(elements(array), size(array)));
            let is_plain = extent_inside(array, *position).is_some_and(|(rows, columns)| {
                fits && lerc::is_valid_within(&front, rows, columns).unwrap_or(false)
            });
            if !is_plain {
                remake.push((*position, *chunk));
            }
        }
    }
    remake.sort_unstable_by_key(|(position, _)| *position);
    Ok(remake)
}

/// Rows and columns of a chunk that lie in the image, where some do not.
fn extent_inside(array: &Array, position: u64) -> Option<(u64, u64)> {
    let ChunkGrid::Regular(chunk) = &array.chunk_grid else { return None };
    let counts = array.chunk_grid.counts(&array.shape);
    let indices = chunk_indices(position, &counts)?;
    let starts = indices.iter().zip(chunk).map(|(index, chunk)| index.saturating_mul(*chunk));
    let inside: Vec<u64> = (array.shape.iter().zip(starts).zip(chunk))
        .map(|((shape, start), chunk)| shape.saturating_sub(start).min(*chunk))
        .collect();
    let is_whole = inside == *chunk;
    let extent_of = |axis: &str| {
        let at = array
            .dimension_names
            .iter()
            .position(|name| name.as_deref().is_some_and(|name| name.split('_').next() == Some(axis)))?;
        inside.get(at).copied()
    };
    if is_whole { None } else { Some((extent_of("y")?, extent_of("x")?)) }
}

/// As much of a chunk as is needed for so many decompressed bytes.
fn front(outer: &[Codec], chunk: &Reference, bytes: u64) -> ByteRange {
    let needed = match outer {
        [] => bytes,
        [Codec::Zlib { .. }] => bytes.saturating_add(DEFLATED_HEAD),
        _ => chunk.length,
    };
    ByteRange::new(chunk.offset, needed.min(chunk.length))
}

/// Bytes of a value: LERC knows two types of floating-point numbers.
fn size(array: &Array) -> usize {
    if array.data_type.number_size() == 8 { 8 } else { 4 }
}

fn elements(array: &Array) -> u64 {
    match &array.chunk_grid {
        ChunkGrid::Regular(shape) => shape.iter().fold(1, |n, extent| n.saturating_mul(*extent)),
        ChunkGrid::Rectilinear(_) => u64::MAX,
    }
}

/// Extent of the last axis as stored, where it is that of samples: chunks have rows and columns before it.
fn samples(array: &Array) -> u64 {
    let ChunkGrid::Regular(shape) = &array.chunk_grid else { return 1 };
    let order = array.codecs.iter().find_map(|codec| match codec {
        Codec::Transpose { order } => order.last().copied(),
        _ => None,
    });
    let last = order.or_else(|| shape.len().checked_sub(1));
    let name = last.and_then(|last| array.dimension_names.get(last)).and_then(Option::as_deref);
    let extent = last.and_then(|last| shape.get(last)).copied();
    extent.filter(|_| name.is_some_and(|name| name.starts_with("band"))).unwrap_or(1)
}

fn act(mapped: &mut Mapped, path: NodePath, verdict: Verdict, options: &MapOptions) {
    let Some(array) = mapped.hierarchy.array(&path) else { return };
    let nan_means_nothing = array.fill_value.as_ref().is_some_and(|value| is_nan(array, value));
    let (elements, samples) = (elements(array), samples(array));
    match verdict {
        Verdict::Remake(chunks) => {
            let bytes = elements
                .saturating_mul(size(array) as u64)
                .saturating_mul(chunks.len() as u64);
            if bytes > options.inline_limit {
                let why = format!(
                    "{} of its chunks have masks that Zarr readers do not see: {bytes} bytes would have to be inlined, the limit is {}",
                    chunks.len(),
                    options.inline_limit
                );
                return leave_out(mapped, path, "inline-limit", why, Some("raise `--inline-limit`".into()));
            }
            let task = |(position, chunk): (u64, Reference)| InlineTask {
                array: path.clone(),
                positions: vec![position],
                content: ChunkContent::UnmaskLerc {
                    source: chunk.source,
                    range: ByteRange::new(chunk.offset, chunk.length),
                    elements,
                    samples,
                },
            };
            mapped.tasks.extend(chunks.into_iter().map(task));
        }
        Verdict::LeaveOut { code, why, hint } => leave_out(mapped, path, code, why, hint),
        Verdict::Unknown if nan_means_nothing => {
            let why = "LERC stores NaN as a mask, which Zarr readers show as 0, and NaN is the nodata value; there are too many chunks to look at each";
            leave_out(mapped, path, "tiff-lerc-mask", why.into(), copy_hint());
        }
        Verdict::Unknown => warn(
            mapped,
            &path,
            "tiff-lerc-mask",
            "LERC stores NaN as a mask, which Zarr readers show as 0; there are too many chunks to look at each: where the image has NaN, it reads as 0".into(),
            copy_hint(),
        ),
    }
}

fn copy_hint() -> Option<String> {
    Some("a local copy of the file is looked at whole".into())
}

fn is_nan(array: &Array, value: &FillValue) -> bool {
    value.to_f64(&array.data_type).is_some_and(f64::is_nan)
}

fn leave_out(mapped: &mut Mapped, path: NodePath, code: &'static str, why: String, hint: Option<String>) {
    remove_image(mapped, &path);
    warn(mapped, &path, code, format!("left out: {why}"), hint);
    mapped.tasks.retain(|task| task.array != path);
    mapped.report.arrays.entry(path).or_default().left_out = Some(why);
}

/// Takes an image out with the variables that only serve it.
pub(super) fn remove_image(mapped: &mut Mapped, path: &str) {
    let (group, name) = path.rsplit_once('/').map_or(("", path), |(group, name)| (group, name));
    for variable in [name, "band", "band_name", "x", "y", "spatial_ref"] {
        let path = if group.is_empty() { variable.to_owned() } else { format!("{group}/{variable}") };
        remove(&mut mapped.hierarchy, &path);
    }
}

fn warn(mapped: &mut Mapped, path: &str, code: &'static str, message: String, hint: Option<String>) {
    mapped.report.diagnostics.push(Diagnostic {
        severity: Severity::Warning,
        code,
        path: format!("/{path}"),
        message,
        hint,
    });
}

/// A chunk without its mask.
pub(super) fn unmasked(
    limits: &Limits,
    array: &Array,
    bytes: &Bytes,
    elements: u64,
    samples: u64,
) -> Result<Bytes, Failure> {
    let fail = |why: &dyn ToString| Failure::Chunk(why.to_string());
    let outer = outer_codecs(array).ok_or_else(|| fail(&"the array has no LERC codec"))?;
    let size = size(array);
    let raw = elements.saturating_mul(size as u64);
    if raw > limits.structure_bytes {
        return Err(fail(&format!("a chunk of {raw} bytes is too large to be inlined")));
    }
    let count = usize::try_from(elements).map_err(|error| fail(&error))?;
    // A blob is not much longer than its values: header, mask and flags of blocks come on top.
    let most = count.saturating_mul(size).saturating_mul(2).saturating_add(1 << 16);
    let blobs = lerc::unwrap(outer, bytes, most).map_err(|error| fail(&error))?;
    let values = lerc::decode(&blobs, count).map_err(|error| fail(&error))?;
    let shape = shape(&blobs, elements, samples).ok_or_else(|| fail(&"its blobs do not fit the chunk"))?;
    let blob = lerc::encode(shape, size, &values).map_err(|error| fail(&error))?;
    if values.len() as u64 != raw {
        return Err(fail(&"its values have another type than the image"));
    }
    virtualize_codec::encode(outer, &blob).map(Into::into).map_err(|error| fail(&error))
}

/// Rows, columns and samples of a chunk.
fn shape(blobs: &[u8], elements: u64, samples: u64) -> Option<[u32; 3]> {
    let head = Head::parse(blobs).ok()?;
    let (rows, columns) = (u32::try_from(head.rows).ok()?, u32::try_from(head.columns).ok()?);
    let pixels = u64::from(rows).checked_mul(columns.into())?;
    let fits = pixels.checked_mul(samples)? == elements;
    Some([rows, columns, u32::try_from(samples).ok()?]).filter(|_| fits)
}
