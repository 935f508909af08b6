//! JPEG of several samples that is not YCbCr, but stores fewer samples of some colors: libtiff refuses it, and other
//! readers disagree on whether to convert its colors. The frame header of each stream shows it.

use std::collections::BTreeMap;

use serde_json::{Map, Value};
use virtualize_bytes::ByteRange;
use virtualize_remedy::Code;
use virtualize_zarr::{Array, ChunkGrid, Codec, NodePath, SourceId};

use crate::{LeftOut, Mapped};

/// libjpeg's number of the color space YCbCr.
const YCBCR: u64 = 3;

/// Returns the first `most` streams of each array of such JPEG. Writers sample all streams of an image alike.
pub(super) fn probes(mapped: &Mapped, most: u64) -> BTreeMap<NodePath, Vec<(SourceId, ByteRange)>> {
    let most = usize::try_from(most).unwrap_or(usize::MAX);
    let arrays = mapped.hierarchy.arrays().into_iter().filter(|(_, array)| is_doubtful(array));
    let mut streams: BTreeMap<NodePath, Vec<(SourceId, ByteRange)>> = arrays
        .map(|(path, array)| {
            let references = array.chunks.references.iter().flat_map(|column| column.iter());
            let stored = references.map(|(_, at)| (at.source, ByteRange::new(at.offset, at.length)));
            (path, stored.take(most).collect())
        })
        .collect();
    for task in &mapped.tasks {
        if let Some(streams) = streams.get_mut(&task.array) {
            streams.extend(task.content.ranges().take(most.saturating_sub(streams.len())));
        }
    }
    streams
}

/// Leaves out the arrays with a subsampled stream.
pub(super) fn decide(mapped: &mut Mapped, answers: BTreeMap<NodePath, Result<Option<u64>, String>>) {
    let refused = answers.into_iter().filter_map(|(path, answer)| {
        let why = match answer {
            Ok(None) => return None,
            Ok(Some(at)) => format!(
                "the JPEG stream at {at:#x} has fewer samples of some colors, but PhotometricInterpretation is not \
                 YCbCr: libtiff refuses it, and other readers disagree on its colors"
            ),
            Err(why) => why,
        };
        Some((path, LeftOut::image(Code::TiffJpeg, why, None)))
    });
    mapped.leave_out(refused);
}

/// Returns whether the array is JPEG of several samples that readers do not convert from YCbCr.
fn is_doubtful(array: &Array) -> bool {
    let configuration = array.codecs.iter().find_map(|codec| match codec {
        Codec::Image { name: "imagecodecs_jpeg", configuration } => Some(configuration),
        _ => None,
    });
    let converts = |configuration: &Map<String, Value>| {
        configuration.get("colorspace_jpeg").and_then(Value::as_u64) == Some(YCBCR)
    };
    configuration.is_some_and(|configuration| !converts(configuration)) && samples(array) > 1
}

/// Returns the samples of a pixel that are stored side by side.
fn samples(array: &Array) -> u64 {
    let ChunkGrid::Regular(chunk) = &array.chunk_grid else { return u64::MAX };
    let is_band =
        |name: &Option<String>| name.as_deref().is_some_and(|name| name.split('_').next() == Some("band"));
    let band = array.dimension_names.iter().position(is_band);
    band.and_then(|band| chunk.get(band)).copied().unwrap_or(1)
}
