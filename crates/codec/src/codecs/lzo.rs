//! LZO1X streams (HDF5 filter 305, PyTables), by the crate `lzokay`. imagecodecs expects 0xF0 and the decoded size (4
//! bytes, big-endian) before the stream.

use serde_json::{Map, Value};

use crate::{CodecFailure, corrupt};

const NAME: &str = "lzo";

/// Greatest expansion: a run takes one byte for each 255 bytes.
const MAX_EXPANSION: usize = 256;

/// Decodes a stream to at most `limit` bytes. Its decoded size is not stored without the header, so that the buffer grows
/// until the stream fits.
pub(super) fn decode(
    bytes: &[u8],
    configuration: &Map<String, Value>,
    limit: usize,
) -> Result<Vec<u8>, CodecFailure> {
    let stream = match (configuration.get("header").and_then(Value::as_bool), bytes) {
        (Some(true), [0xF0, _, _, _, _, stream @ ..]) => stream,
        (Some(true), _) => return Err(corrupt(NAME, "no header")),
        _ => bytes,
    };
    let most = limit.saturating_add(1).min(stream.len().saturating_mul(MAX_EXPANSION));
    let mut size = stream.len().saturating_mul(4).clamp(1 << 12, most.max(1 << 12));
    loop {
        let mut out = vec![0; size];
        match lzokay::decompress::decompress(stream, &mut out) {
            Ok(length) => {
                out.truncate(length);
                return Ok(out);
            }
            Err(lzokay::Error::OutputOverrun) if size < most => size = size.saturating_mul(4).min(most),
            Err(lzokay::Error::OutputOverrun) => {
                return Err(CodecFailure::TooLong { codec: NAME.to_owned(), limit });
            }
            Err(why) => return Err(corrupt(NAME, why)),
        }
    }
}
