//! JPEG of several samples that are no YCbCr, but have fewer samples of some colours: libtiff refuses it, and other readers
//! disagree whether its colours are to be converted. The frame header of each stream tells.

use virtualize_bytes::{ByteRange, ReadError};
use virtualize_codec::jpeg;
use virtualize_map::Mapped;
use virtualize_zarr::{Array, Codec, SourceId};

use super::lerc::{MOST_LOCAL, MOST_REMOTE, leave_out};
use super::{Context, Failure};

/// libjpeg's number of YCbCr.
const YCBCR: u64 = 3;
/// Bytes in which the frame header usually lies.
const FRONT: u64 = 1 << 11;

/// Leaves such arrays out. Of remote files no more than the first streams are looked at, since writers sample all alike.
pub(crate) async fn check(context: &Context<'_>, mapped: &mut Mapped) -> Result<(), ReadError> {
    let is_local = mapped.hierarchy.sources.first().is_some_and(|source| source.url.starts_with("file:"));
    let most = usize::try_from(if is_local { MOST_LOCAL } else { MOST_REMOTE }).unwrap_or(usize::MAX);
    let mut refused = Vec::new();
    for (path, array) in mapped.hierarchy.arrays() {
        if !is_doubtful(array) {
            continue;
        }
        let references = array.chunks.references.iter().flat_map(|column| column.iter());
        let stored = references.map(|(_, at)| (at.source, ByteRange::new(at.offset, at.length)));
        let of_tasks = mapped.tasks.iter().filter(|task| task.array == path);
        let streams: Vec<_> =
            stored.chain(of_tasks.flat_map(|task| task.content.ranges())).take(most).collect();
        match find_subsampled(context, &streams).await {
            Ok(None) => {}
            Ok(Some(at)) => refused.push((
                path,
                format!(
                    "the JPEG stream at {at:#x} has fewer samples of some colours, but PhotometricInterpretation is not \
                     YCbCr: libtiff refuses it, and other readers disagree on its colours"
                ),
            )),
            Err(Failure::Chunk(why)) => refused.push((path, why)),
            Err(Failure::Read(error)) => return Err(error),
        }
    }
    for (path, why) in refused {
        leave_out(mapped, path, "tiff-jpeg", why, None);
    }
    Ok(())
}

/// Whether it is JPEG of several samples that are not converted from YCbCr.
fn is_doubtful(array: &Array) -> bool {
    let configuration = array.codecs.iter().find_map(|codec| match codec {
        Codec::Image { name: "imagecodecs_jpeg", configuration } => Some(configuration),
        _ => None,
    });
    let converts = |said: &serde_json::Map<String, serde_json::Value>| {
        said.get("colorspace_jpeg").and_then(serde_json::Value::as_u64) == Some(YCBCR)
    };
    configuration.is_some_and(|said| !converts(said)) && samples(array) > 1
}

/// Samples of a pixel that are stored side by side.
fn samples(array: &Array) -> u64 {
    let virtualize_zarr::ChunkGrid::Regular(chunk) = &array.chunk_grid else { return u64::MAX };
    let band = array
        .dimension_names
        .iter()
        .position(|name| name.as_deref().is_some_and(|name| name.split('_').next() == Some("band")));
    band.and_then(|band| chunk.get(band)).copied().unwrap_or(1)
}

/// Where the first such stream lies.
async fn find_subsampled(
    context: &Context<'_>,
    streams: &[(SourceId, ByteRange)],
) -> Result<Option<u64>, Failure> {
    for batch in streams.chunks(1 << 12) {
        let fronts = batch.iter().map(|(source, range)| (*source, shortened(*range)));
        let fetched = context.fetch(fronts).await?;
        for (source, range) in batch {
            let front = fetched.range(*source, shortened(*range))?;
            let fail = |error: virtualize_codec::CodecFailure| {
                Failure::Chunk(format!("chunk at {:#x}: {error}", range.start))
            };
            let found = match jpeg::is_subsampled(front).map_err(fail)? {
                Some(found) => found,
                None => {
                    let whole = context.fetch(std::iter::once((*source, *range))).await?;
                    jpeg::is_subsampled(whole.range(*source, *range)?).map_err(fail)?.unwrap_or(true)
                }
            };
            if found {
                return Ok(Some(range.start));
            }
        }
    }
    Ok(None)
}

fn shortened(range: ByteRange) -> ByteRange {
    ByteRange::new(range.start, range.length.min(FRONT))
}
