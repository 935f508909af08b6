//! LERC chunks with masks. libtiff stores NaN as a mask, and alpha of 8 bits as well; Zarr readers ignore masks, and put
//! blobs that hold one sample each on the wrong axis. Such chunks are re-encoded without a mask and inlined. The header
//! of each blob shows which; integers without alpha need no examination.

use std::collections::BTreeMap;

use virtualize_bytes::ByteRange;
use virtualize_remedy::{Code, OptionName, Remedy};
use virtualize_zarr::{Array, Codec, DataType, NodePath, Reference};

use crate::probe::chunk_extents;
use crate::{ChunkContent, InlineTask, LercLayout, MapOptions, Mapped, Omitted, StoredChange};

/// Maximum number of chunks examined in all arrays of a local file, and of a remote one, where each may cost a request.
const MAX_LOCAL: u64 = 1 << 20;
const MAX_REMOTE: u64 = 1 << 10;

/// Returns the chunks that may have masks: row-major position and stored bytes.
pub fn lerc_to_examine(mapped: &Mapped) -> BTreeMap<NodePath, Vec<(u64, Reference)>> {
    let is_local = mapped.hierarchy.sources.first().is_some_and(|source| source.url.starts_with("file:"));
    let mut left = if is_local { MAX_LOCAL } else { MAX_REMOTE };
    let mut probes = BTreeMap::new();
    for (path, array) in mapped.hierarchy.arrays() {
        let chunks = array.chunks.references.iter().map(|column| column.len() as u64).sum();
        if masks_matter(array)
            && let Some(rest) = left.checked_sub(chunks)
        {
            left = rest;
            probes.insert(path, array.chunks.references.iter().flat_map(|column| column.iter()).collect());
        }
    }
    probes
}

/// Adds tasks for the chunks whose masks change values that are not padding, and leaves out the arrays that cannot be
/// shown. An error is the reason why a chunk of the array could not be examined.
pub fn settle_lerc(
    mapped: &mut Mapped,
    mut answers: BTreeMap<NodePath, Result<Vec<(u64, Reference)>, String>>,
    options: &MapOptions,
) {
    let arrays = mapped.hierarchy.arrays().into_iter().filter(|(_, array)| masks_matter(array));
    let decided: Vec<_> = arrays
        .map(|(path, array)| {
            let decision = match answers.remove(&path) {
                Some(Ok(chunks)) => remake(&path, array, &chunks, options).map(|tasks| (tasks, None)),
                Some(Err(why)) => Err(Omitted::image(Code::TiffLerc, why, None)),
                None => unexamined(array).map(|warning| (Vec::new(), Some(warning))),
            };
            (path, decision)
        })
        .collect();
    let mut refused = Vec::new();
    for (path, decision) in decided {
        match decision {
            Ok((tasks, warning)) => {
                mapped.tasks.extend(tasks);
                if let Some(message) = warning {
                    mapped.warn(&path, Code::TiffLercMask, message, Some(copy_remedy()));
                }
            }
            Err(why) => refused.push((path, why)),
        }
    }
    mapped.omit(refused);
}

/// Returns tasks that re-encode chunks, unless they exceed the limit of what is inlined.
fn remake(
    path: &str,
    array: &Array,
    chunks: &[(u64, Reference)],
    options: &MapOptions,
) -> Result<Vec<InlineTask>, Omitted> {
    let layouts: Vec<_> = chunks
        .iter()
        .filter_map(|(position, chunk)| Some((*position, chunk, LercChunk::of(array, *position)?.layout)))
        .collect();
    let size = stored_type(array).number_size();
    let sizes = layouts.iter().filter_map(|(.., layout)| layout.elements()?.checked_mul(size));
    let bytes = sizes.fold(0, u64::saturating_add);
    if bytes > options.inline_limit {
        let why = format!(
            "{} of its chunks have masks that Zarr readers ignore: {bytes} bytes would have to be inlined, the limit is {}",
            chunks.len(),
            options.inline_limit
        );
        let remedy = Remedy::turn_on(OptionName::InlineLimit, "raise the limit");
        return Err(Omitted::image(Code::InlineLimit, why, Some(remedy)));
    }
    let tasks = layouts.into_iter().map(|(position, chunk, layout)| InlineTask {
        array: path.to_owned(),
        positions: vec![position],
        content: ChunkContent::Stored {
            source: chunk.source,
            range: ByteRange::new(chunk.offset, chunk.length),
            change: StoredChange::Lerc { layout, height: layout.rows },
        },
    });
    Ok(tasks.collect())
}

/// Returns a warning for an array with too many chunks to examine, or the reason to omit it.
fn unexamined(array: &Array) -> Result<String, Omitted> {
    let is_nan_nodata = || {
        let value = array.fill_value.as_ref().and_then(|value| value.to_f64(&array.data_type));
        value.is_some_and(f64::is_nan)
    };
    let omit = |why: &str| {
        let why = format!("{why}; there are too many chunks to examine each");
        Err(Omitted::image(Code::TiffLercMask, why, Some(copy_remedy())))
    };
    if has_alpha(array) {
        return omit("LERC stores alpha as a mask, which Zarr readers ignore");
    }
    if is_nan_nodata() {
        return omit("LERC stores NaN as a mask, which Zarr readers show as 0, and NaN is the nodata value");
    }
    let message = "LERC stores NaN as a mask, which Zarr readers show as 0; there are too many chunks to examine each: \
                   where the image has NaN, it reads as 0";
    Ok(message.to_owned())
}

fn copy_remedy() -> Remedy {
    Remedy::advice("read a local copy, which is examined whole")
}

/// Returns the codecs around LERC, or `None` for an array without LERC.
pub fn lerc_outer_codecs(codecs: &[Codec]) -> Option<&[Codec]> {
    let is_lerc = |codec: &Codec| matches!(codec, Codec::Image { name: "imagecodecs_lerc", .. });
    let at = codecs.iter().position(is_lerc)?;
    codecs.get(at + 1..)
}

/// Returns whether Zarr readers show masked numbers of the array otherwise than libtiff.
fn masks_matter(array: &Array) -> bool {
    lerc_outer_codecs(&array.codecs).is_some() && (stored_type(array).is_float() || has_alpha(array))
}

/// Returns whether the last of several samples is unassociated alpha of 8 bits.
fn has_alpha(array: &Array) -> bool {
    let extra =
        array.attributes.get("extra_samples").and_then(|samples| samples.as_array()?.last()?.as_str());
    extra == Some("unassociated alpha") && *stored_type(array) == DataType::UInt8
}

/// Returns the type of the stored elements, which differs from the array's behind a cast.
pub fn stored_type(array: &Array) -> &DataType {
    let cast = array.codecs.iter().rev().find_map(|codec| match codec {
        Codec::CastValue { data_type, .. } => Some(data_type),
        _ => None,
    });
    cast.unwrap_or(&array.data_type)
}

impl LercLayout {
    /// Returns the number of elements, or `None` on overflow.
    pub fn elements(&self) -> Option<u64> {
        self.rows.checked_mul(self.columns)?.checked_mul(self.samples)
    }
}

/// A LERC chunk in its array.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LercChunk {
    /// Extent of the whole chunk.
    pub layout: LercLayout,
    /// Rows and columns of the chunk inside the image.
    pub inside: (u64, u64),
}

impl LercChunk {
    /// Returns the chunk at a row-major position, or `None` outside the grid and for arrays that are not images.
    pub fn of(array: &Array, position: u64) -> Option<Self> {
        let extents = chunk_extents(array, position)?;
        let of_axis = |name: &str| {
            let is_it = |axis: &Option<String>| {
                axis.as_deref().is_some_and(|axis| axis.split('_').next() == Some(name))
            };
            array.dimension_names.iter().position(is_it).and_then(|at| extents.get(at)).copied()
        };
        let ((rows, rows_inside), (columns, columns_inside)) = (of_axis("y")?, of_axis("x")?);
        let all = extents.iter().try_fold(1_u64, |all, (chunk, _)| all.checked_mul(*chunk))?;
        let samples = all / rows.checked_mul(columns)?.max(1);
        let layout = LercLayout { rows, columns, samples, has_alpha: has_alpha(array) };
        Some(Self { layout, inside: (rows_inside, columns_inside) })
    }

    /// Returns whether part of the chunk is outside the image.
    pub fn sticks_out(&self) -> bool {
        self.inside != (self.layout.rows, self.layout.columns)
    }
}
