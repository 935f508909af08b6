//! HDF5's filter pipelines as codecs.

use virtualize_hdf5::model::Filter;
use virtualize_zarr::{Codec, ZarrFormat};

use super::{lzo::LZO, zfp, zfp::ZFP};
use crate::hdf5::describe::describe_filter;
use crate::{Error, Result};

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
    /// Maps filters to codecs that released clients may know.
    ///
    /// # Errors
    /// A filter has no codec, or impossible parameters.
    pub(super) fn new(filters: &[Filter]) -> Result<Self> {
        let steps = filters.iter().map(codec).collect::<Result<_>>()?;
        Ok(Self { steps, own: None })
    }

    /// Maps filters to codecs with our own names where zarr-python and numcodecs have none. Chunks decode to `bytes` bytes.
    ///
    /// # Errors
    /// A filter has no codec, or impossible parameters.
    pub(super) fn own(filters: &[Filter], bytes: u64) -> Result<Self> {
        let own = |filter: &Filter| match filter.id {
            ZFP => zfp::codec(&filter.parameters).map(Some),
            LZO => Ok(Some(Codec::Lzo { configuration: serde_json::Map::new() })),
            _ => codec(filter),
        };
        let steps = filters.iter().map(own).collect::<Result<_>>()?;
        Ok(Self { steps, own: Some(bytes) })
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
fn splits_elements(length: Option<u64>, element_size: u32) -> bool {
    length.is_none_or(|length| !length.is_multiple_of(u64::from(element_size.max(1))))
}

/// Checks that released clients decode chunks of `bytes` decoded bytes.
///
/// # Errors
/// The Zarr format has no name for a codec, or a shuffle may get a number of bytes that is no multiple of its element size,
/// which numcodecs refuses. Only uncompressed lengths are known here.
pub(super) fn clients_decode(codecs: &[Codec], bytes: u64, format: ZarrFormat) -> Result<()> {
    let mut length = Some(bytes);
    for codec in codecs {
        check_name(codec, format)?;
        if let Codec::Shuffle { element_size } = codec
            && splits_elements(length, *element_size)
        {
            return Err(Error::undecodable(
                format!("shuffle of {element_size}-byte elements"),
                "numcodecs undoes it on whole elements only",
            ));
        }
        length = length.and_then(|length| codec.encoded_length(length));
    }
    Ok(())
}

/// Refuses a codec that the Zarr format has no name for.
fn check_name(codec: &Codec, format: ZarrFormat) -> Result<()> {
    let (spelled, other) = match format {
        ZarrFormat::V2 => (codec.to_v2(), None),
        ZarrFormat::V3 => (codec.to_v3(), codec.to_v2().ok()),
    };
    spelled.map(drop).map_err(|error| Error::Codec { error, in_v2: other.is_some() })
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
        32001 => return blosc(filter).map(Some),
        32004 => Codec::Hdf5Lz4,
        32008 => Codec::Hdf5Bitshuffle(filter.parameters.clone()),
        32015 => Codec::Zstd { level: i32::from(level(parameter(0).unwrap_or(3), 22)), checksum: false },
        32018 => Codec::JpegLs { by_pixel: false },
        BLOSC2 => return check_blosc2(filter).map(|()| Some(Codec::Blosc2)),
        32017 | 32024 => return sz(filter),
        32028 => Codec::sperr(&filter.parameters)
            .ok_or_else(|| Error::malformed("SPERR filter", format!("parameters {:?}", filter.parameters)))?,
        _ => {
            let filter = format!("filter {}", describe_filter(filter));
            return Err(Error::undecodable(filter, "no released Zarr client decodes it"));
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
    match filter.parameters.len() == count {
        true => Ok(()),
        false => Err(Error::malformed(structure, format!("parameters {:?}", filter.parameters))),
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
        || Error::undecodable(format!("filter {}", describe_filter(filter)), "only floats are decoded here");
    codec.map(Some).ok_or_else(undecodable)
}

/// Returns the codec of the Blosc filter. Its client data are filter version, format version, element size, chunk size,
/// level, shuffle, compressor.
fn blosc(filter: &Filter) -> Result<Codec> {
    let parameter = |n: usize| filter.parameters.get(n).copied();
    let names = ["blosclz", "lz4", "lz4hc", "snappy", "zlib", "zstd"];
    let compressor = usize::try_from(parameter(6).unwrap_or(0)).ok().and_then(|n| names.get(n));
    let malformed = || Error::malformed("Blosc filter", format!("parameters {:?}", filter.parameters));
    Ok(Codec::Blosc {
        cname: compressor.copied().ok_or_else(malformed)?,
        clevel: u8::try_from(parameter(4).unwrap_or(5).min(9)).unwrap_or(5),
        shuffle: u8::try_from(parameter(5).unwrap_or(1).min(2)).unwrap_or(1),
        typesize: parameter(2).unwrap_or(1).clamp(1, 255),
        blocksize: 0,
    })
}

/// Checks the client data of Blosc2: those of Blosc, of which the filter always reads four, then the number of axes and the
/// chunk shape, which must be a part of the chunk size.
fn check_blosc2(filter: &Filter) -> Result<()> {
    let is_valid = match filter.parameters.as_slice() {
        [_, _, element, size, _, _, _, axes, shape @ ..] => {
            let elements = shape.iter().fold(1, |product: u64, n| product.saturating_mul((*n).into()));
            let is_part = u64::from(*size).is_multiple_of(elements);
            *element > 0 && usize::try_from(*axes) == Ok(shape.len()) && is_part
        }
        parameters => parameters.len() >= 4,
    };
    match is_valid {
        true => Ok(()),
        false => Err(Error::malformed("Blosc2 filter", format!("parameters {:?}", filter.parameters))),
    }
}

#[cfg(test)]
mod tests {
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
