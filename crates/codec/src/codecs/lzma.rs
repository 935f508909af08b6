//! LZMA in the xz container (format 1, <https://tukaani.org/xz/xz-file-format.txt>) or the old "alone" container (2);
//! format 0 is either of them, as the first bytes tell.

use std::io::{self, Write};

use lzma_rust2::{LzmaOptions, LzmaReader, LzmaWriter, XzOptions, XzReader, XzWriter};

use super::stream;
use crate::{CodecFailure, corrupt, parameters};

const NAME: &str = "lzma";
/// Magic bytes of the xz container.
const XZ: &[u8] = b"\xfd7zXZ\0";
/// Memory for a dictionary, in KiB. The highest preset of xz takes 64 MiB.
const MEMORY: u32 = 1 << 17;
/// Compresses little, but fast.
const PRESET: u32 = 1;

pub(super) fn decode(bytes: &[u8], format: u8, limit: usize) -> Result<Vec<u8>, CodecFailure> {
    let is_xz = match format {
        0 => bytes.starts_with(XZ),
        1 => true,
        2 => false,
        _ => return Err(CodecFailure::NoDecoder(format!("lzma format {format}"))),
    };
    if is_xz {
        return stream::read(NAME, XzReader::new_mem_limit(bytes, true, MEMORY), limit);
    }
    let reader = LzmaReader::new_mem_limit(bytes, MEMORY, None).map_err(|error| corrupt(NAME, error))?;
    stream::read(NAME, reader, limit)
}

pub(super) fn encode(bytes: &[u8], format: u8) -> Result<Vec<u8>, CodecFailure> {
    let write = || match format {
        1 => {
            let mut writer = XzWriter::new(Vec::new(), XzOptions::with_preset(PRESET))?;
            writer.write_all(bytes)?;
            writer.finish().map(Some)
        }
        2 => {
            let (options, size) = (LzmaOptions::with_preset(PRESET), bytes.len() as u64);
            let mut writer = LzmaWriter::new_use_header(Vec::new(), &options, Some(size))?;
            writer.write_all(bytes)?;
            writer.finish().map(Some)
        }
        _ => Ok(None),
    };
    let written = write().map_err(|error: io::Error| parameters(NAME, error))?;
    written.ok_or_else(|| CodecFailure::NoEncoder(format!("lzma format {format}")))
}
