//! ZFP chunks (filter 32013, H5Z-ZFP). The filter keeps the header of the stream, which clients need for decoding, in its
//! client data and stores only the rest. Such chunks are inlined with the header before the stored bytes.

use bytes::Bytes;
use virtualize_hdf5::model::{Chunked, Filter};
use virtualize_zarr::{Codec, DataType};

use super::planner::{ChunkPlan, ChunkPlanner};
use super::prefixed::PrefixedFilter;
use crate::{Error, Result};

/// Number of the filter in the registry of the HDF Group.
pub(super) const ZFP: u16 = 32013;

/// The filter in error messages.
const NAME: &str = "ZFP (32013)";

/// Newest version of the stream format that released decoders know.
const NEWEST_CODEC: u32 = 5;

/// The header of a ZFP stream: `zfp`, its version, 52 bits of type and shape, 12 or 64 bits of mode.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Head {
    bytes: Bytes,
    bits: u32,
    data_type: DataType,
    /// Slowest axis first.
    shape: Vec<u64>,
    /// Fewest and most bits of a block, and most bit planes.
    mode: [u32; 3],
    /// Least bit plane, as a power of two.
    min_exponent: i32,
}

impl ChunkPlanner<'_> {
    /// Plans chunks whose only filter is ZFP.
    pub(super) fn zfp(&self, chunked: &Chunked, filters: &[Filter]) -> Result<ChunkPlan> {
        let [filter] = filters else {
            return Err(Error::undecodable(NAME, "other filters beside it are not supported"));
        };
        let head = head(&filter.parameters)?;
        let chunk_shape = self.chunk_shape(chunked)?;
        self.fits(&head, &chunk_shape)?;
        let codecs = vec![Codec::Image { name: "imagecodecs_zfp", configuration: serde_json::Map::new() }];
        self.clients_decode(&codecs, &[], 0)?;
        let filter = PrefixedFilter {
            name: NAME,
            reason: "the headers of ZFP chunks are in the filter's client data",
            prefix: head.bytes,
            prefix_bits: head.bits,
            word: 8,
        };
        self.prefixed(chunked, chunk_shape, codecs, &filter)
    }

    /// Checks that the headers of ZFP among the filters describe chunks of this shape.
    pub(super) fn check_zfp(&self, filters: &[Filter], chunk_shape: &[u64]) -> Result<()> {
        let mut streams = filters.iter().filter(|filter| filter.id == ZFP);
        streams.try_for_each(|filter| self.fits(&head(&filter.parameters)?, chunk_shape))
    }

    /// Checks that a header describes chunks of this shape. ZFP omits axes of length 1, and stores unsigned integers as signed
    /// ones of the same bits.
    fn fits(&self, head: &Head, chunk_shape: &[u64]) -> Result<()> {
        let long = |shape: &[u64]| shape.iter().copied().filter(|n| *n != 1).collect::<Vec<_>>();
        let data_type = &self.element.data_type;
        let signed = match data_type {
            DataType::UInt32 => &DataType::Int32,
            DataType::UInt64 => &DataType::Int64,
            other => other,
        };
        match head.data_type == *signed && long(&head.shape) == long(chunk_shape) {
            true if self.element.is_stored_as_it_is() => Ok(()),
            _ => Err(Error::malformed(
                NAME,
                format!(
                    "streams are {:?} of {}, not {chunk_shape:?} of {data_type}",
                    head.shape, head.data_type
                ),
            )),
        }
    }
}

/// Returns the codec of streams without their header.
pub(super) fn codec(parameters: &[u32]) -> Result<Codec> {
    let Head { mode: [min_bits, max_bits, max_precision], min_exponent, data_type, shape, .. } =
        head(parameters)?;
    let dtype = match data_type {
        DataType::Int32 => "<i4",
        DataType::Int64 => "<i8",
        DataType::Float32 => "<f4",
        _ => "<f8",
    };
    Ok(Codec::Zfp { dtype, shape, min_bits, max_bits, max_precision, min_exponent })
}

/// Parses the client data: a word of versions, then the header as little-endian words.
fn head(parameters: &[u32]) -> Result<Head> {
    let (versions, words) =
        parameters.split_first().ok_or_else(|| Error::malformed(NAME, "no client data"))?;
    let codec = (versions >> 12) & 0xf;
    if codec > NEWEST_CODEC {
        return Err(Error::undecodable(NAME, format!("streams of version {codec} are unknown")));
    }
    let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    let first = bytes.first_chunk::<16>().copied().or_else(|| {
        let mut padded = [0; 16];
        padded.get_mut(..12)?.copy_from_slice(bytes.get(..12)?);
        Some(padded)
    });
    let first = u128::from_le_bytes(first.ok_or_else(|| too_short(parameters))?);
    if first & 0xff_ffff != 0x70_667a {
        let problem = format!("client data {parameters:x?} without the signature of a stream");
        return Err(Error::malformed(NAME, problem));
    }
    let bits = if first >> 84 & 0xfff == 0xfff { 148 } else { 96_u32 };
    let length = usize::try_from(bits.div_ceil(8)).unwrap_or(usize::MAX);
    if bytes.len() < length {
        return Err(too_short(parameters));
    }
    bytes.truncate(length);
    let (data_type, shape) = meaning((first >> 32) & 0xf_ffff_ffff_ffff);
    let long =
        bytes.get(8..).unwrap_or_default().iter().rev().fold(0, |n: u128, byte| n << 8 | u128::from(*byte));
    let (mode, min_exponent) = mode(long >> 20);
    Ok(Head { bytes: bytes.into(), bits, data_type, shape, mode, min_exponent })
}

fn too_short(parameters: &[u32]) -> Error {
    Error::malformed(NAME, format!("client data {parameters:x?} are too short"))
}

/// Bits and bit planes that limit nothing.
const UNLIMITED: (u32, u32) = (16_658, 64);
/// Least bit plane of binary64.
const LEAST: i32 = -1074;

/// Decodes the mode: 12 bits, or 64 bits of which the lowest 12 are set.
/// <https://github.com/LLNL/zfp/blob/develop/src/zfp.c> (`zfp_stream_set_mode`)
fn mode(bits: u128) -> ([u32; 3], i32) {
    let field = |shift: u32, width: u32| u32::try_from(bits >> shift & ((1 << width) - 1)).unwrap_or(0);
    let (most_bits, most_planes) = UNLIMITED;
    match field(0, 12) {
        0xfff => {
            let least = i32::try_from(field(49, 15)).unwrap_or(0) - 16_495;
            ([field(12, 15) + 1, field(27, 15) + 1, field(42, 7) + 1], least)
        }
        rate @ ..2048 => ([rate + 1, rate + 1, most_planes], LEAST),
        precision @ ..2176 => ([1, most_bits, precision - 2047], LEAST),
        2176 => ([1, most_bits, most_planes], LEAST - 1),
        accuracy => ([1, most_bits, most_planes], LEAST + i32::try_from(accuracy - 2177).unwrap_or(0)),
    }
}

/// Decodes type and shape: two bits each for type and rank - 1, then 48 bits for all lengths - 1, fastest axis first.
fn meaning(meta: u128) -> (DataType, Vec<u64>) {
    let data_type = match meta & 3 {
        0 => DataType::Int32,
        1 => DataType::Int64,
        2 => DataType::Float32,
        _ => DataType::Float64,
    };
    let rank = u32::try_from(meta >> 2 & 3).unwrap_or(0) + 1;
    let width = 48 / rank;
    let length = |axis: u32| u64::try_from(meta >> (4 + axis * width) & ((1 << width) - 1)).unwrap_or(0) + 1;
    (data_type, (0..rank).rev().map(length).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Client data as hdf5plugin 7.1 writes them for (10, 20) doubles at 16 bits a value.
    #[test]
    fn short_head() {
        let head = head(&[0x1010_5111, 0x0570_667a, 0x9000_0137, 0x0ff0_0000]).unwrap();
        assert_eq!((head.bits, head.bytes.len()), (96, 12));
        assert_eq!((head.data_type, head.shape), (DataType::Float64, vec![10, 20]));
    }

    /// In expert mode, which is also its default.
    #[test]
    fn long_head() {
        let words = [0x1010_5111, 0x0570_667a, 0x9000_0136, 0xfff0_0000, 0xe088_8000, 0x0007_87af];
        let head = head(&words).unwrap();
        assert_eq!((head.bits, head.bytes.len()), (148, 19));
        assert_eq!((head.data_type, head.shape), (DataType::Float32, vec![10, 20]));
    }

    /// Client data as hdf5plugin 7.1 writes them; expected values are what it was asked for. `zfp_stream_set_*` of zfp 1.0 makes them
    /// bits of a block of 4 elements along each axis, bit planes, and the power of two below the accuracy.
    #[test]
    fn modes_are_those_of_the_writer() {
        const WHOLE: u32 = 16_658;
        type Row<'a> = (&'a [u32], DataType, &'a [u64], [u32; 3], i32);
        let rows: [Row<'_>; 6] = [
            // rate=16; rate=8; precision=20; accuracy=0.01; reversible=True
            (&[0x9000_0137, 0x0ff0_0000], DataType::Float64, &[10, 20], [256, 256, 64], -1074),
            (&[0x270, 0x01f0_0000], DataType::Int32, &[40], [32, 32, 64], -1074),
            (&[0x62, 0x8130_0000], DataType::Float32, &[7], [1, WHOLE, 20], -1074),
            (&[0x0050_006b, 0xcac0_0040], DataType::Float64, &[5, 6, 7], [1, WHOLE, 64], -7),
            (&[0x3004_005c, 0x8800_0200], DataType::Int32, &[3, 4, 5, 6], [1, WHOLE, 64], -1075),
            // minbits=3, maxbits=16000, maxprec=50, minexp=-30
            (
                &[0x8000_0075, 0xfff0_0000, 0x5f3f_8002, 0x0008_0a2c],
                DataType::Int64,
                &[9, 8],
                [3, 16_000, 50],
                -30,
            ),
        ];
        for (words, data_type, shape, mode, min_exponent) in &rows {
            let found = head(&[&[0x1010_5111, 0x0570_667a], *words].concat()).unwrap();
            assert_eq!((&found.data_type, &found.shape[..]), (data_type, *shape));
            assert_eq!((&found.mode, &found.min_exponent), (mode, min_exponent), "{shape:?}");
        }
        let dtype = |words: &[u32]| match codec(&[&[0x1010_5111, 0x0570_667a], words].concat()) {
            Ok(Codec::Zfp { dtype, .. }) => dtype,
            other => panic!("{other:?}"),
        };
        let dtypes = rows.map(|(words, ..)| dtype(words));
        assert_eq!(dtypes, ["<f8", "<i4", "<f4", "<f8", "<i4", "<i8"]);
    }

    #[test]
    fn what_is_no_head_is_refused() {
        for words in [
            &[][..],
            &[0x1010_5111, 0x0570_667a],
            &[0x1000_7110, 0x0570_667a, 0xff3, 0x02f0_0000],
            &[0x1010_5111, 0x7a66_7005, 0xff3, 0x02f0_0000],
            &[0x1010_5111, 0x0570_667a, 0x9000_0136, 0xfff0_0000],
        ] {
            assert!(head(words).is_err(), "{words:x?}");
        }
    }
}
