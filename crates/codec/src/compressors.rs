//! Compressors that libraries provide. Decoders stop one byte past their limit; an error behind the last byte that is
//! needed (a missing checksum) is no error.

use std::io::{self, Read, Write};

use weezl::{BitOrder, LzwStatus};

use crate::{CodecFailure, corrupt, parameters};

/// Memory for a dictionary in KiB: the highest preset of xz takes 64 MiB.
const LZMA_MEMORY: u32 = 1 << 17;

pub(crate) fn zlib_decode(bytes: &[u8], limit: usize) -> Result<Vec<u8>, CodecFailure> {
    read("zlib", flate2::read::ZlibDecoder::new(bytes), limit)
}

pub(crate) fn zlib_encode(bytes: &[u8], level: u8) -> Result<Vec<u8>, CodecFailure> {
    let level = flate2::Compression::new(u32::from(level.min(9)));
    let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), level);
    encoder.write_all(bytes).and_then(|()| encoder.finish()).map_err(|e| corrupt("zlib", e))
}

pub(crate) fn gzip_decode(bytes: &[u8], limit: usize) -> Result<Vec<u8>, CodecFailure> {
    read("gzip", flate2::read::MultiGzDecoder::new(bytes), limit)
}

pub(crate) fn gzip_encode(bytes: &[u8], level: u8) -> Result<Vec<u8>, CodecFailure> {
    let level = flate2::Compression::new(u32::from(level.min(9)));
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), level);
    encoder.write_all(bytes).and_then(|()| encoder.finish()).map_err(|e| corrupt("gzip", e))
}

pub(crate) fn zstd_decode(bytes: &[u8], limit: usize) -> Result<Vec<u8>, CodecFailure> {
    let decoder = ruzstd::decoding::StreamingDecoder::new(bytes).map_err(|e| corrupt("zstd", e))?;
    read("zstd", decoder, limit)
}

pub(crate) fn zstd_encode(bytes: &[u8]) -> Vec<u8> {
    ruzstd::encoding::compress_to_vec(bytes, ruzstd::encoding::CompressionLevel::Fastest)
}

pub(crate) fn bz2_decode(bytes: &[u8], limit: usize) -> Result<Vec<u8>, CodecFailure> {
    read("bz2", bzip2::read::MultiBzDecoder::new(bytes), limit)
}

pub(crate) fn bz2_encode(bytes: &[u8], level: u8) -> Result<Vec<u8>, CodecFailure> {
    let level = bzip2::Compression::new(u32::from(level.clamp(1, 9)));
    let mut encoder = bzip2::write::BzEncoder::new(Vec::new(), level);
    encoder.write_all(bytes).and_then(|()| encoder.finish()).map_err(|e| corrupt("bz2", e))
}

/// The container is told apart by its first bytes, as liblzma does.
pub(crate) fn lzma_decode(bytes: &[u8], format: u8, limit: usize) -> Result<Vec<u8>, CodecFailure> {
    if format > 2 {
        return Err(CodecFailure::NoDecoder(format!("lzma format {format}")));
    }
    if bytes.starts_with(&[0xfd, b'7', b'z', b'X', b'Z', 0]) {
        return read("lzma", lzma_rust2::XzReader::new_mem_limit(bytes, true, LZMA_MEMORY), limit);
    }
    let reader =
        lzma_rust2::LzmaReader::new_mem_limit(bytes, LZMA_MEMORY, None).map_err(|e| corrupt("lzma", e))?;
    read("lzma", reader, limit)
}

pub(crate) fn lzma_encode(bytes: &[u8], format: u8) -> Result<Vec<u8>, CodecFailure> {
    if format != 1 {
        return Err(CodecFailure::NoEncoder(format!("lzma format {format}")));
    }
    let options = lzma_rust2::XzOptions::with_preset(1);
    let write = || {
        let mut writer = lzma_rust2::XzWriter::new(Vec::new(), options)?;
        writer.write_all(bytes)?;
        writer.finish()
    };
    write().map_err(|e: io::Error| parameters("lzma", e))
}

/// Old files have the least significant bit first and no early change: their first code, 256, starts with a zero byte.
pub(crate) fn lzw_decode(bytes: &[u8], limit: usize) -> Result<Vec<u8>, CodecFailure> {
    let old = matches!(bytes, [0, second, ..] if second & 1 == 1);
    let mut decoder = if old {
        weezl::decode::Decoder::new(BitOrder::Lsb, 8)
    } else {
        weezl::decode::Decoder::with_tiff_size_switch(BitOrder::Msb, 8)
    };
    let mut out = Vec::new();
    let mut rest = bytes;
    let mut block = vec![0; 1 << 14];
    while out.len() <= limit {
        let result = decoder.decode_bytes(rest, &mut block);
        out.extend_from_slice(block.get(..result.consumed_out).unwrap_or_default());
        rest = rest.get(result.consumed_in..).unwrap_or_default();
        match result.status {
            Ok(LzwStatus::Ok) if result.consumed_in + result.consumed_out > 0 => {}
            Ok(_) => break,
            Err(_) if out.len() >= limit => break,
            Err(error) => return Err(corrupt("lzw", error)),
        }
    }
    out.truncate(limit.saturating_add(1));
    Ok(out)
}

pub(crate) fn lzw_encode(bytes: &[u8]) -> Result<Vec<u8>, CodecFailure> {
    weezl::encode::Encoder::with_tiff_size_switch(BitOrder::Msb, 8)
        .encode(bytes)
        .map_err(|e| corrupt("lzw", e))
}

/// Reads at most `limit + 1` bytes.
fn read(codec: &'static str, mut decoder: impl Read, limit: usize) -> Result<Vec<u8>, CodecFailure> {
    let mut out = Vec::with_capacity(limit.min(1 << 20));
    let most = u64::try_from(limit).unwrap_or(u64::MAX).saturating_add(1);
    match decoder.by_ref().take(most).read_to_end(&mut out) {
        Err(error) if out.len() < limit => Err(corrupt(codec, error)),
        _ => Ok(out),
    }
}
