//! Filters: their codecs, and streams whose header the filter stores in its client data or omits.

use bytes::Bytes;
use virtualize_hdf5::model::{Chunked, Filter};
use virtualize_zarr::{ChunkGrid, Codec, DataType, SourceId};

use super::chunks::{ChunkPlan, ChunkPlanner, INLINE_CHUNKS, check_table, entries, furthest_end};
use super::dataset::describe_filter;
use crate::{ChunkContent, Error, Result, StoredChange};

/// Number of the Blosc 2 filter in the registry of the HDF Group.
pub(super) const BLOSC2: u16 = 32026;

/// A filter pipeline: one codec for each filter, in the order of encoding; `None` for filters that change nothing.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Pipeline {
    steps: Vec<Option<Codec>>,
    /// Decoded bytes of a chunk, if codecs have their own names.
    own: Option<u64>,
}

impl Pipeline {
    /// Maps filters to codecs. If `own` has the decoded bytes of a chunk, those that zarr-python and numcodecs lack have our own
    /// names.
    ///
    /// # Errors
    /// A filter has no codec, or impossible parameters.
    pub(super) fn new(filters: &[Filter], own: Option<u64>) -> Result<Self> {
        let codec = |filter: &Filter| match filter.id {
            ZFP if own.is_some() => {
                let Head {
                    mode: [min_bits, max_bits, max_precision], min_exponent, data_type, shape, ..
                } = head(&filter.parameters)?;
                let dtype = match data_type {
                    DataType::Int32 => "<i4",
                    DataType::Int64 => "<i8",
                    DataType::Float32 => "<f4",
                    _ => "<f8",
                };
                Ok(Some(Codec::Zfp { dtype, shape, min_bits, max_bits, max_precision, min_exponent }))
            }
            LZO if own.is_some() => Ok(Some(Codec::Lzo { configuration: serde_json::Map::new() })),
            _ => codec(filter),
        };
        Ok(Self { steps: filters.iter().map(codec).collect::<Result<_>>()?, own })
    }

    /// Returns the codecs of a chunk with this filter mask: bit *n* is set if filter *n* was skipped.
    pub(super) fn applied(&self, mask: u32) -> Vec<Codec> {
        let codecs = self.kept(mask);
        match self.own {
            None => codecs,
            Some(bytes) => own_chain(codecs, Some(bytes)),
        }
    }

    fn kept(&self, mask: u32) -> Vec<Codec> {
        let kept = self.steps.iter().enumerate().filter(|(n, _)| bit(*n) & mask == 0);
        kept.filter_map(|(_, step)| step.clone()).collect()
    }

    /// Returns the bits of filters that change chunks.
    pub(super) fn relevant(&self) -> u32 {
        let steps = self.steps.iter().enumerate().filter(|(_, step)| step.is_some());
        steps.fold(0, |bits, (n, _)| bits | bit(n))
    }

    /// Returns codecs with our own names, where all chunks skip the filters `base`, and some skip the filters `varying` as
    /// well, and the stored length of the latter; `None` if lengths do not tell them apart.
    pub(super) fn optional(&self, base: u32, varying: u32) -> Option<(Vec<Codec>, u64)> {
        let (first, last) = (varying.trailing_zeros(), varying.checked_ilog2()?);
        let before = 1_u32.checked_shl(first)? - 1;
        let after = u32::MAX.checked_shl(last + 1).unwrap_or(0);
        if self.relevant() & !(base | varying | before | after) != 0 {
            return None;
        }
        let mut codecs = own_chain(self.kept(base | !before), self.own);
        let size = encoded_length(&codecs, self.own?)?;
        let optional = own_chain(self.kept(base | !varying), Some(size));
        codecs.push(Codec::Optional { size, codecs: optional }.own()?);
        let rest = own_chain(self.kept(base | !after), None);
        let skipped_length = encoded_length(&rest, size)?;
        codecs.extend(rest);
        Some((codecs, skipped_length))
    }
}

/// Returns the bit of a filter in masks.
fn bit(n: usize) -> u32 {
    u32::try_from(n).ok().and_then(|n| 1_u32.checked_shl(n)).unwrap_or(0)
}

fn encoded_length(codecs: &[Codec], bytes: u64) -> Option<u64> {
    codecs.iter().try_fold(bytes, |length, codec| codec.encoded_length(length))
}

/// Returns a chain with our own names for what zarr-python and numcodecs do not decode, and for shuffles that numcodecs
/// refuses. `length` is that of a chunk before the first codec, if it is known.
fn own_chain(codecs: Vec<Codec>, mut length: Option<u64>) -> Vec<Codec> {
    let mut codecs = Codec::own_chain(codecs);
    for codec in &mut codecs {
        let before = length;
        length = length.and_then(|length| codec.encoded_length(length));
        if let Codec::Shuffle { element_size } = codec
            && splits_elements(before, *element_size)
            && let Some(own) = codec.own()
        {
            *codec = own;
        }
    }
    codecs
}

/// Whether so many bytes may be no whole number of elements.
pub(super) fn splits_elements(length: Option<u64>, element_size: u32) -> bool {
    length.is_none_or(|length| !length.is_multiple_of(u64::from(element_size.max(1))))
}

/// Maps a filter to a codec; `None` if it changes nothing. Numbers are those of the HDF Group's registry.
fn codec(filter: &Filter) -> Result<Option<Codec>> {
    check_count(filter)?;
    let parameter = |n: usize| filter.parameters.get(n).copied();
    let level = |n: u32, highest: u32| u8::try_from(n.clamp(1, highest)).unwrap_or(1);
    Ok(Some(match filter.id {
        1 => match *filter.parameters.as_slice() {
            [level @ 0..=9] => Codec::Zlib { level: u8::try_from(level).unwrap_or(9) },
            ref other => return Err(Error::malformed("deflate filter", format!("parameters {other:?}"))),
        },
        2 => match filter.parameters.as_slice() {
            [1] => return Ok(None),
            // libhdf5 gives types of variable length no element size, and so skips the filter in every chunk.
            [] if filter.optional => return Ok(None),
            [element_size] if *element_size > 1 => Codec::Shuffle { element_size: *element_size },
            other => return Err(Error::malformed("shuffle filter", format!("parameters {other:?}"))),
        },
        3 => Codec::Fletcher32,
        4 => Codec::Hdf5Szip(filter.parameters.clone()),
        5 => match filter.parameters.as_slice() {
            [_, as_is, ..] if *as_is != 0 => return Ok(None), // "no need to compress": the library stores chunks unchanged
            _ => Codec::Hdf5Nbit(filter.parameters.clone()),
        },
        6 => match *filter.parameters.as_slice() {
            // Integers with all their bits: the library stores chunks unchanged.
            [2, bits, _, 0, size, ..] if bits == size.saturating_mul(8) => return Ok(None),
            _ => Codec::Hdf5ScaleOffset(filter.parameters.clone()),
        },
        307 => Codec::Bz2 { level: level(parameter(0).unwrap_or(9), 9) },
        32000 => Codec::Lzf,
        // Client data: filter version, format version, element size, chunk size, level, shuffle, compressor.
        32001 => {
            let names = ["blosclz", "lz4", "lz4hc", "snappy", "zlib", "zstd"];
            let compressor = usize::try_from(parameter(6).unwrap_or(0)).ok().and_then(|n| names.get(n));
            let malformed =
                || Error::malformed("Blosc filter", format!("parameters {:?}", filter.parameters));
            Codec::Blosc {
                cname: compressor.copied().ok_or_else(malformed)?,
                clevel: u8::try_from(parameter(4).unwrap_or(5).min(9)).unwrap_or(5),
                shuffle: u8::try_from(parameter(5).unwrap_or(1).min(2)).unwrap_or(1),
                typesize: parameter(2).unwrap_or(1).clamp(1, 255),
                blocksize: 0,
            }
        }
        32004 => Codec::Hdf5Lz4,
        32008 => Codec::Hdf5Bitshuffle(filter.parameters.clone()),
        32015 => Codec::Zstd { level: i32::from(level(parameter(0).unwrap_or(3), 22)), checksum: false },
        32018 => Codec::JpegLs { by_pixel: false },
        BLOSC2 => blosc2(filter)?,
        32017 | 32024 => return sz(filter),
        32028 => Codec::sperr(&filter.parameters)
            .ok_or_else(|| Error::malformed("SPERR filter", format!("parameters {:?}", filter.parameters)))?,
        _ => {
            let filter = format!("filter {}", describe_filter(filter));
            return Err(Error::unsupported(filter, "no released Zarr client decodes it"));
        }
    }))
}

/// Checks the number of parameters of the filters that the library refuses with another.
fn check_count(filter: &Filter) -> Result<()> {
    let (structure, count) = match (filter.id, filter.parameters.as_slice()) {
        (4, _) => ("szip filter", 4),
        (5, [count, ..]) => ("nbit filter", *count as usize),
        (6, _) => ("scale-offset filter", 20),
        _ => return Ok(()),
    };
    if filter.parameters.len() == count {
        Ok(())
    } else {
        Err(Error::malformed(structure, format!("parameters {:?}", filter.parameters)))
    }
}

/// Returns the codec of the filters SZ and SZ3; `None` for chunks of fewer than 20 numbers, which they store unchanged. Their
/// client data are the number of axes, the type, the size of each axis from the fastest on (a single one in two words), and
/// the error bounds.
fn sz(filter: &Filter) -> Result<Option<Codec>> {
    let malformed = || Error::malformed("SZ filter", format!("parameters {:?}", filter.parameters));
    let (axes, kind, sizes) = match filter.parameters.as_slice() {
        [] => return Ok(None),
        [axes @ 1..=4, kind, sizes @ ..] => (*axes, usize::try_from(*kind).unwrap_or(usize::MAX), sizes),
        _ => return Err(malformed()),
    };
    let sizes = sizes.get(..usize::try_from(axes.max(2)).unwrap_or(0)).ok_or_else(malformed)?;
    let shape: Vec<u64> = match (axes, sizes) {
        (1, [high, low]) => vec![u64::from(*high) << 32 | u64::from(*low)],
        _ => sizes.iter().rev().map(|size| u64::from(*size)).collect(),
    };
    if shape.iter().fold(1, |count: u64, size| count.saturating_mul(*size)) < 20 {
        return Ok(None);
    }
    let codec = if filter.id == 32024 { Codec::sz3(kind) } else { Codec::sz(kind, shape) };
    let undecodable =
        || Error::unsupported(format!("filter {}", describe_filter(filter)), "only floats are decoded here");
    codec.map(Some).ok_or_else(undecodable)
}

/// Checks the client data of Blosc2: those of Blosc, of which the filter always reads four, then the number of axes and the
/// chunk shape, which must be a part of the chunk size.
fn blosc2(filter: &Filter) -> Result<Codec> {
    let is_valid = match filter.parameters.as_slice() {
        [_, _, element, size, _, _, _, axes, shape @ ..] => {
            let elements = shape.iter().fold(1, |product: u64, n| product.saturating_mul((*n).into()));
            let is_part = u64::from(*size).is_multiple_of(elements);
            *element > 0 && usize::try_from(*axes) == Ok(shape.len()) && is_part
        }
        parameters => parameters.len() >= 4,
    };
    if is_valid {
        return Ok(Codec::Blosc2);
    }
    Err(Error::malformed("Blosc2 filter", format!("parameters {:?}", filter.parameters)))
}

/// A filter, and the header of its chunks.
struct PrefixedFilter {
    /// The filter in error messages.
    name: &'static str,
    /// Why its chunks are inlined.
    reason: &'static str,
    /// The header.
    change: StoredChange,
}

/// Number of the filter in the registry of the HDF Group.
pub(super) const LZO: u16 = 305;

/// The filter in error messages.
const LZO_NAME: &str = "LZO (305)";

/// Number of the filter in the registry of the HDF Group.
pub(super) const ZFP: u16 = 32013;

/// The filter in error messages.
const ZFP_NAME: &str = "ZFP (32013)";

/// Newest version of the stream format that released decoders know.
const NEWEST_CODEC: u32 = 5;

/// The header of a ZFP stream: `zfp`, its version, 52 bits of type and shape, 12 or 64 bits of mode.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Head {
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
    /// Plans chunks that all went through the filter, the last one of `codecs`.
    ///
    /// # Errors
    /// Some chunks skipped the filter, or the stored chunks exceed the inline limit.
    fn prefixed(
        &self,
        chunked: &Chunked,
        chunk_shape: Vec<u64>,
        codecs: Vec<Codec>,
        filter: &PrefixedFilter,
    ) -> Result<ChunkPlan> {
        let table = &chunked.chunks;
        check_table(table, &ChunkGrid::Regular(chunk_shape.clone()).counts(self.shape))?;
        self.check_end(furthest_end(table))?;
        if chunked.unfiltered_edges || !table.filter_masks.is_empty() {
            return Err(Error::unsupported(filter.name, "some chunks skipped the filter"));
        }
        let bytes = entries(table).fold(0, |sum: u64, (_, range)| sum.saturating_add(range.length));
        let limit = self.options.inline_limit;
        if bytes > limit || table.addresses.len() as u64 > INLINE_CHUNKS {
            let content = format!("{bytes} bytes");
            return Err(Error::inline_limit(filter.reason, &content, limit));
        }
        let content = |(position, range)| {
            let change = filter.change.clone();
            (position, ChunkContent::Stored { source: SourceId(0), range, change })
        };
        Ok(ChunkPlan {
            chunk_shape,
            codecs,
            inline: entries(table).map(content).collect(),
            inline_reason: Some(filter.reason.to_owned()),
            ..self.one_missing_chunk()
        })
    }

    /// Plans chunks whose last filter is LZO; `before` are the filters before it.
    pub(super) fn lzo(&self, chunked: &Chunked, before: &[Filter]) -> Result<ChunkPlan> {
        let chunk_shape = self.chunk_shape(chunked)?;
        if self.is_empty() || chunked.chunks.addresses.is_empty() {
            return Ok(ChunkPlan { chunk_shape, ..self.one_missing_chunk() });
        }
        let mut applied = Pipeline::new(before, None)?.applied(0);
        let changed = applied.iter().any(|codec| !matches!(codec, Codec::Shuffle { .. }));
        if changed || !self.element.is_stored_as_it_is() || self.must_be_made().is_some() {
            return Err(Error::unsupported(
                LZO_NAME,
                "only shuffle may come before it, and elements must not be converted",
            ));
        }
        let bytes = self.stored_bytes(&chunk_shape).ok_or_else(|| Error::overflow("a chunk"))?;
        let length = u32::try_from(bytes)
            .map_err(|_| Error::unsupported(LZO_NAME, format!("chunks of {bytes} bytes")))?;
        let configuration = serde_json::Map::from_iter([("header".to_owned(), true.into())]);
        applied.push(Codec::Lzo { configuration });
        self.clients_decode(&applied, &chunk_shape, bytes)?;
        let filter = PrefixedFilter {
            name: LZO_NAME,
            reason: "clients need the decoded length before LZO chunks",
            change: StoredChange::Prefix {
                bytes: [0xF0].into_iter().chain(length.to_be_bytes()).collect(),
                bits: 40,
                word: 1,
            },
        };
        self.prefixed(chunked, chunk_shape, self.chain(applied), &filter)
    }

    /// Plans chunks whose only filter is ZFP.
    pub(super) fn zfp(&self, chunked: &Chunked, filters: &[Filter]) -> Result<ChunkPlan> {
        let [filter] = filters else {
            return Err(Error::unsupported(ZFP_NAME, "it is supported only as the only filter"));
        };
        let head = head(&filter.parameters)?;
        let chunk_shape = self.chunk_shape(chunked)?;
        self.fits(&head, &chunk_shape)?;
        let codecs = vec![Codec::Image { name: "imagecodecs_zfp", configuration: serde_json::Map::new() }];
        self.clients_decode(&codecs, &[], 0)?;
        let filter = PrefixedFilter {
            name: ZFP_NAME,
            reason: "the headers of ZFP chunks are in the filter's client data",
            change: StoredChange::Prefix { bytes: head.bytes, bits: head.bits, word: 8 },
        };
        self.prefixed(chunked, chunk_shape, codecs, &filter)
    }

    /// Checks that a header describes chunks of this shape. ZFP omits axes of length 1, and stores unsigned integers as signed
    /// ones of the same bits.
    pub(super) fn fits(&self, head: &Head, chunk_shape: &[u64]) -> Result<()> {
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
                ZFP_NAME,
                format!(
                    "streams are {:?} of {}, not {chunk_shape:?} of {data_type}",
                    head.shape, head.data_type
                ),
            )),
        }
    }
}

/// Parses the client data: a word of versions, then the header as little-endian words.
pub(super) fn head(parameters: &[u32]) -> Result<Head> {
    let (versions, words) =
        parameters.split_first().ok_or_else(|| Error::malformed(ZFP_NAME, "no client data"))?;
    let codec = (versions >> 12) & 0xf;
    if codec > NEWEST_CODEC {
        return Err(Error::unsupported(ZFP_NAME, format!("streams of version {codec} are unknown")));
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
        return Err(Error::malformed(ZFP_NAME, problem));
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
    Error::malformed(ZFP_NAME, format!("client data {parameters:x?} are too short"))
}

/// Bits and bit planes that limit nothing.
const UNLIMITED: (u32, u32) = (16_658, 64);
/// Lowest bit plane of binary64.
const MIN_BIT_PLANE: i32 = -1074;

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
        rate @ ..2048 => ([rate + 1, rate + 1, most_planes], MIN_BIT_PLANE),
        precision @ ..2176 => ([1, most_bits, precision - 2047], MIN_BIT_PLANE),
        2176 => ([1, most_bits, most_planes], MIN_BIT_PLANE - 1),
        accuracy => {
            ([1, most_bits, most_planes], MIN_BIT_PLANE + i32::try_from(accuracy - 2177).unwrap_or(0))
        }
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
mod filters_tests {
    use super::*;

    /// The filters of libhdf5 fail on the others, whatever the chunk.
    #[test]
    fn filters_have_as_many_parameters_as_the_library_expects() {
        let is_known = |id, parameters: &[u32]| {
            let parameters = parameters.to_vec();
            codec(&Filter { id, name: None, optional: true, parameters }).is_ok()
        };
        assert!(is_known(5, &[8, 0, 60, 1, 4, 0, 20, 0]) && is_known(5, &[5, 2, 60, 1, 4]));
        assert!(!is_known(5, &[9, 0, 60, 1, 4, 0, 20, 0]), "nbit");
        assert!(is_known(4, &[0; 4]) && !is_known(4, &[0; 3]), "szip");
        assert!(is_known(6, &[0; 20]) && !is_known(6, &[0; 8]), "scale-offset");
        let blosc2 = [1, 0, 4, 240, 5, 1, 1, 2, 5, 12];
        assert!(is_known(32026, &blosc2) && is_known(32026, &blosc2[..7]), "Blosc2");
        assert!(is_known(32026, &blosc2[..4]) && !is_known(32026, &blosc2[..3]), "Blosc2");
        assert!(!is_known(32026, &[&blosc2[..7], &[0, 5, 12]].concat()), "Blosc2");
        assert!(!is_known(32026, &[&[1, 0, 0], &blosc2[3..]].concat()), "Blosc2");
        assert!(!is_known(32026, &[&blosc2[..8], &[5, 13]].concat()), "Blosc2");
        assert!(
            is_known(32001, &[2, 2, 4, 240, 5, 1, 1]) && !is_known(32001, &[2, 2, 4, 240, 5, 1, 9]),
            "Blosc"
        );
        assert!(!is_known(1, &[6, 0]) && !is_known(1, &[10]), "deflate");
        assert!(!is_known(2, &[0]) && !is_known(2, &[4, 4]), "shuffle");
        let required = Filter { id: 2, name: None, optional: false, parameters: Vec::new() };
        assert!(codec(&required).is_err() && codec(&Filter { optional: true, ..required }).is_ok());
    }

    /// The client data and the shortcuts are those of the sources of libhdf5 (`H5Zshuffle.c`, `H5Znbit.c`, `H5Zscaleoffset.c`)
    /// and of H5Z-SZ: a single axis is in two words, the most significant first, and the fastest of several axes comes first.
    #[test]
    fn filters_that_store_chunks_unchanged_have_no_codec() {
        let found = |id, parameters: &[u32]| {
            codec(&Filter { id, name: None, optional: true, parameters: parameters.to_vec() }).unwrap()
        };
        assert_eq!(found(2, &[1]), None);
        assert_eq!(found(2, &[2]), Some(Codec::Shuffle { element_size: 2 }));
        assert_eq!(found(5, &[5, 1, 60, 1, 4]), None);
        assert!(found(5, &[5, 0, 60, 1, 4]).is_some());
        assert_eq!(found(32017, &[]), None);
        assert_eq!(found(32017, &[1, 0, 0, 19]), None);
        assert_eq!(found(32017, &[1, 0, 0, 20]), Codec::sz(0, vec![20]));
        assert_eq!(found(32017, &[1, 0, 1, 2]), Codec::sz(0, vec![(1 << 32) + 2]));
        assert_eq!(found(32017, &[2, 0, 4, 5]), Codec::sz(0, vec![5, 4]));
        assert_eq!(found(32017, &[2, 0, 4, 4]), None);
    }
}

#[cfg(test)]
mod zfp_tests {
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

    /// Client data as hdf5plugin 7.1 writes them; expected values are the parameters of the call. `zfp_stream_set_*` of zfp 1.0 makes them
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
        let dtype = |words: &[u32]| {
            let filter = crate::hdf5::tests::filter(ZFP, &[&[0x1010_5111, 0x0570_667a], words].concat());
            match Pipeline::new(&[filter], Some(0)).unwrap().steps.as_slice() {
                [Some(Codec::Zfp { dtype, .. })] => *dtype,
                other => panic!("{other:?}"),
            }
        };
        let dtypes = rows.map(|(words, ..)| dtype(words));
        assert_eq!(dtypes, ["<f8", "<i4", "<f4", "<f8", "<i4", "<i8"]);
    }

    #[test]
    fn invalid_heads_are_refused() {
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
