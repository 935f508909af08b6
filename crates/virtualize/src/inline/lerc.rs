//! LERC chunks that Zarr readers would show otherwise than libtiff. Libtiff stores NaN as a mask, and alpha of 8 bits as
//! well; Zarr readers ignore masks, and put blobs that hold a sample each on the wrong axis. The header of each blob tells.
//! Such chunks are written again and inlined. Integers without alpha need none of this.

use bytes::Bytes;
use virtualize_bytes::{ByteRange, Limits, ReadError};
use virtualize_codec::lerc::{self, Head, Layout};
use virtualize_map::{ChunkContent, Diagnostic, InlineTask, MapOptions, Mapped, Severity};
use virtualize_remedy::{OptionName, Remedy};
use virtualize_zarr::{
    Array, ChunkGrid, Codec, DataType, FillValue, NodePath, Reference, SourceId, chunk_indices,
};

use super::{Context, Failure, remove};

/// Headers that are read of all arrays of a local file, and of a remote one, where each may cost a request.
pub(super) const MOST_LOCAL: u64 = 1 << 20;
pub(super) const MOST_REMOTE: u64 = 1 << 10;
/// Bytes that Deflate may need for its own tables.
const DEFLATED_HEAD: u64 = 1 << 10;

/// What is the matter with an array.
enum Verdict {
    /// These chunks have to be made again.
    Remake(Vec<(u64, Reference)>),
    /// It cannot be shown.
    LeaveOut { code: &'static str, why: String, remedy: Option<Remedy> },
    /// Nobody looked.
    Unknown,
}

/// Looks at the header of every chunk of arrays under LERC where masks count, as far as there are not too many.
pub(crate) async fn check(
    context: &Context<'_>,
    options: &MapOptions,
    mapped: &mut Mapped,
) -> Result<(), ReadError> {
    let is_local = mapped.hierarchy.sources.first().is_some_and(|source| source.url.starts_with("file:"));
    let mut left = if is_local { MOST_LOCAL } else { MOST_REMOTE };
    let mut verdicts = Vec::new();
    for (path, array) in mapped.hierarchy.arrays() {
        let Some(outer) = outer_codecs(array).filter(|_| masks_count(array)) else { continue };
        let chunks: Vec<(u64, Reference)> = array.chunks.references.iter().flat_map(|c| c.iter()).collect();
        let verdict = match left.checked_sub(chunks.len() as u64) {
            None => Verdict::Unknown,
            Some(rest) => {
                left = rest;
                match odd_chunks(context, array, outer, chunks).await {
                    Ok(odd) => Verdict::Remake(odd),
                    Err(Failure::Chunk(why)) => Verdict::LeaveOut { code: "tiff-lerc", why, remedy: None },
                    Err(Failure::Read(error)) => return Err(error),
                }
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

/// Whether libtiff shows masked numbers otherwise than Zarr readers.
fn masks_count(array: &Array) -> bool {
    stored_type(array).is_float() || has_alpha(array)
}

/// Whether the last of several samples is unassociated alpha of 8 bits.
fn has_alpha(array: &Array) -> bool {
    let extra =
        array.attributes.get("extra_samples").and_then(|samples| samples.as_array()?.last()?.as_str());
    extra == Some("unassociated alpha") && *stored_type(array) == DataType::UInt8
}

/// The type of what is stored, which a cast may make another one of.
fn stored_type(array: &Array) -> &DataType {
    let cast = array.codecs.iter().rev().find_map(|codec| match codec {
        Codec::CastValue { data_type, .. } => Some(data_type),
        _ => None,
    });
    cast.unwrap_or(&array.data_type)
}

/// The chunks whose headers say that Zarr readers do not show them as libtiff does.
async fn odd_chunks(
    context: &Context<'_>,
    array: &Array,
    outer: &[Codec],
    chunks: Vec<(u64, Reference)>,
) -> Result<Vec<(u64, Reference)>, Failure> {
    let mut odd = Vec::new();
    for batch in chunks.chunks(1 << 12) {
        let fronts: Vec<(SourceId, ByteRange)> =
            batch.iter().map(|(_, chunk)| (chunk.source, front(outer, chunk))).collect();
        let fetched = context.fetch(fronts.iter().copied()).await?;
        for ((position, chunk), (source, range)) in batch.iter().zip(fronts) {
            let Some(placed) = Placed::of(array, *position) else { continue };
            let head = lerc::unwrap(outer, fetched.range(source, range)?, Head::BYTES)
                .and_then(|front| Head::parse(&front)?.is_plain(stored_type(array), &placed.layout));
            match head {
                Ok(true) => {}
                Ok(false) => odd.push((*position, *chunk)),
                Err(why) => return Err(Failure::Chunk(format!("chunk at {:#x}: {why}", chunk.offset))),
            }
        }
    }
    without_padding(context, array, outer, odd).await
}

/// Those chunks of which a pixel inside the image is masked: GDAL fills tiles that stick out of it with NaN.
async fn without_padding(
    context: &Context<'_>,
    array: &Array,
    outer: &[Codec],
    chunks: Vec<(u64, Reference)>,
) -> Result<Vec<(u64, Reference)>, Failure> {
    let sticks_out = |position: u64| {
        Placed::of(array, position).is_some_and(|placed| {
            placed.inside != (placed.layout.rows, placed.layout.columns) && !placed.layout.has_alpha
        })
    };
    let (at_the_edge, mut odd): (Vec<_>, Vec<_>) =
        chunks.into_iter().partition(|(position, _)| sticks_out(*position));
    for batch in at_the_edge.chunks(1 << 4) {
        let whole = |chunk: &Reference| (chunk.source, ByteRange::new(chunk.offset, chunk.length));
        let fetched = context.fetch(batch.iter().map(|(_, chunk)| whole(chunk))).await?;
        for (position, chunk) in batch {
            let Some(placed) = Placed::of(array, *position) else { continue };
            let (source, range) = whole(chunk);
            let bytes = fetched.range(source, range)?;
            let values = decoded(context.limits, stored_type(array), outer, bytes, &placed.layout);
            if !values.is_ok_and(|values| placed.is_valid_inside(stored_type(array), &values)) {
                odd.push((*position, *chunk));
            }
        }
    }
    odd.sort_unstable_by_key(|(position, _)| *position);
    Ok(odd)
}

/// A chunk as it is stored, and how much of it lies in the image.
struct Placed {
    layout: Layout,
    /// Rows and columns.
    inside: (u64, u64),
}

impl Placed {
    fn of(array: &Array, position: u64) -> Option<Self> {
        let indices = chunk_indices(position, &array.chunk_grid.counts(&array.shape))?;
        let extents: Vec<(u64, u64)> = indices
            .iter()
            .enumerate()
            .map(|(axis, index)| extent(array, axis, *index))
            .collect::<Option<_>>()?;
        let of_axis = |name: &str| {
            let is_it = |axis: &Option<String>| {
                axis.as_deref().is_some_and(|axis| axis.split('_').next() == Some(name))
            };
            array.dimension_names.iter().position(is_it).and_then(|at| extents.get(at)).copied()
        };
        let ((rows, rows_inside), (columns, columns_inside)) = (of_axis("y")?, of_axis("x")?);
        let all = extents.iter().try_fold(1_u64, |all, (chunk, _)| all.checked_mul(*chunk))?;
        let samples = all / rows.checked_mul(columns)?.max(1);
        let layout = Layout { rows, columns, samples, has_alpha: has_alpha(array) };
        Some(Self { layout, inside: (rows_inside, columns_inside) })
    }

    /// Whether none of the numbers inside the image is NaN.
    fn is_valid_inside(&self, data_type: &DataType, values: &[u8]) -> bool {
        let size = usize::try_from(data_type.number_size()).unwrap_or(1).max(1);
        let row = self.layout.columns.saturating_mul(self.layout.samples);
        let within = self.inside.1.saturating_mul(self.layout.samples);
        let numbers = values.chunks_exact(size).zip(0_u64..);
        let mut inside = numbers.filter(|(_, n)| n / row.max(1) < self.inside.0 && n % row.max(1) < within);
        inside.all(|(number, _)| !is_nan_bytes(number))
    }
}

fn is_nan_bytes(number: &[u8]) -> bool {
    match (<[u8; 4]>::try_from(number), <[u8; 8]>::try_from(number)) {
        (Ok(four), _) => f32::from_le_bytes(four).is_nan(),
        (_, Ok(eight)) => f64::from_le_bytes(eight).is_nan(),
        _ => false,
    }
}

/// How long a chunk at this index is along an axis, and how much of that lies in the array.
fn extent(array: &Array, axis: usize, index: u64) -> Option<(u64, u64)> {
    match &array.chunk_grid {
        ChunkGrid::Regular(chunk) => {
            let chunk = *chunk.get(axis)?;
            let start = index.checked_mul(chunk)?;
            Some((chunk, array.shape.get(axis)?.saturating_sub(start).min(chunk)))
        }
        ChunkGrid::Rectilinear(edges) => {
            let edge = *edges.get(axis)?.get(usize::try_from(index).ok()?)?;
            Some((edge, edge))
        }
    }
}

/// As much of a chunk as is needed for a header.
fn front(outer: &[Codec], chunk: &Reference) -> ByteRange {
    let needed = match outer {
        [] => Head::BYTES as u64,
        [Codec::Zlib { .. }] => (Head::BYTES as u64).saturating_add(DEFLATED_HEAD),
        _ => chunk.length,
    };
    ByteRange::new(chunk.offset, needed.min(chunk.length))
}

fn act(mapped: &mut Mapped, path: NodePath, verdict: Verdict, options: &MapOptions) {
    let Some(array) = mapped.hierarchy.array(&path) else { return };
    let nan_means_nothing = array.fill_value.as_ref().is_some_and(|value| is_nan(array, value));
    match verdict {
        Verdict::Remake(chunks) => {
            let size = stored_type(array).number_size();
            let layouts: Vec<_> =
                chunks.iter().filter_map(|(position, _)| Some(Placed::of(array, *position)?.layout)).collect();
            let bytes = layouts
                .iter()
                .filter_map(|layout| layout.elements()?.checked_mul(size))
                .fold(0, u64::saturating_add);
            if bytes > options.inline_limit {
                let why = format!(
                    "{} of its chunks have masks that Zarr readers do not see: {bytes} bytes would have to be inlined, the limit is {}",
                    chunks.len(),
                    options.inline_limit
                );
                return leave_out(mapped, path, "inline-limit", why, Some(Remedy::turn_on(OptionName::InlineLimit, "raise the limit")));
            }
            let task = |((position, chunk), layout): ((u64, Reference), Layout)| InlineTask {
                array: path.clone(),
                positions: vec![position],
                content: ChunkContent::Lerc {
                    source: chunk.source,
                    range: ByteRange::new(chunk.offset, chunk.length),
                    rows: layout.rows,
                    height: layout.rows,
                    columns: layout.columns,
                    samples: layout.samples,
                    has_alpha: layout.has_alpha,
                },
            };
            mapped.tasks.extend(chunks.into_iter().zip(layouts).map(task));
        }
        Verdict::LeaveOut { code, why, remedy } => leave_out(mapped, path, code, why, remedy),
        Verdict::Unknown if has_alpha(array) => {
            let why = "LERC stores alpha as a mask, which Zarr readers do not see; there are too many chunks to look at each";
            leave_out(mapped, path, "tiff-lerc-mask", why.into(), copy_remedy());
        }
        Verdict::Unknown if nan_means_nothing => {
            let why = "LERC stores NaN as a mask, which Zarr readers show as 0, and NaN is the nodata value; there are too many chunks to look at each";
            leave_out(mapped, path, "tiff-lerc-mask", why.into(), copy_remedy());
        }
        Verdict::Unknown => warn(
            mapped,
            &path,
            "tiff-lerc-mask",
            "LERC stores NaN as a mask, which Zarr readers show as 0; there are too many chunks to look at each: where the image has NaN, it reads as 0".into(),
            copy_remedy(),
        ),
    }
}

fn copy_remedy() -> Option<Remedy> {
    Some(Remedy::advice("read a local copy, which is examined whole"))
}

fn is_nan(array: &Array, value: &FillValue) -> bool {
    value.to_f64(&array.data_type).is_some_and(f64::is_nan)
}

pub(super) fn leave_out(
    mapped: &mut Mapped,
    path: NodePath,
    code: &'static str,
    why: String,
    remedy: Option<Remedy>,
) {
    remove_image(mapped, &path);
    warn(mapped, &path, code, format!("left out: {why}"), remedy);
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

fn warn(mapped: &mut Mapped, path: &str, code: &'static str, message: String, remedy: Option<Remedy>) {
    mapped.report.diagnostics.push(Diagnostic {
        severity: Severity::Warning,
        code,
        path: format!("/{path}"),
        message,
        remedy,
    });
}

/// A chunk without its mask, and with all rows.
pub(super) fn made_anew(
    limits: &Limits,
    array: &Array,
    bytes: &Bytes,
    layout: Layout,
    height: u64,
) -> Result<Bytes, Failure> {
    let fail = |why: &dyn ToString| Failure::Chunk(why.to_string());
    let outer = outer_codecs(array).ok_or_else(|| fail(&"the array has no LERC codec"))?;
    let data_type = stored_type(array);
    let whole = Layout { rows: height, ..layout };
    let size = size_of(limits, data_type, &whole)?;
    let mut values = decoded(limits, data_type, outer, bytes, &layout)?;
    values.resize(size, 0);
    let blob = lerc::encode(data_type, &whole, &values).map_err(|error| fail(&error))?;
    virtualize_codec::encode(outer, &blob).map(Into::into).map_err(|error| fail(&error))
}

/// The numbers of a strip or tile, as libtiff shows them.
fn decoded(
    limits: &Limits,
    data_type: &DataType,
    outer: &[Codec],
    bytes: &[u8],
    layout: &Layout,
) -> Result<Vec<u8>, Failure> {
    // A blob is not much longer than its values: header, mask and flags of blocks come on top.
    let most = size_of(limits, data_type, layout)?.saturating_mul(2).saturating_add(1 << 16);
    let blobs = lerc::unwrap(outer, bytes, most).map_err(|error| Failure::Chunk(error.to_string()))?;
    lerc::decode(&blobs, data_type, layout).map_err(|error| Failure::Chunk(error.to_string()))
}

/// Bytes of a strip or tile that may be held in memory.
fn size_of(limits: &Limits, data_type: &DataType, layout: &Layout) -> Result<usize, Failure> {
    let size = layout.elements().and_then(|elements| elements.checked_mul(data_type.number_size()));
    size.filter(|size| *size <= limits.structure_bytes)
        .and_then(|size| usize::try_from(size).ok())
        .ok_or_else(|| Failure::Chunk(format!("a chunk of {layout:?} is too large to be inlined")))
}
