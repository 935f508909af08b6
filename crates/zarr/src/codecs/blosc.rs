//! `blosc`, version 1. <https://zarr-specs.readthedocs.io/en/latest/v3/codecs/blosc/index.html>
//!
//! v2 takes the element size from the array, and writes `shuffle` as a number: -1 shuffles bits of one-byte elements
//! and bytes of all others.

use serde_json::json;

use super::{Codec, Definition, Registry, definition::Encoded};
use crate::{ZarrFormat, chunk_reader::Reader};

const COMPRESSORS: [&str; 6] = ["blosclz", "lz4", "lz4hc", "snappy", "zlib", "zstd"];
/// v3's names of the values 0, 1 and 2 of `shuffle`.
const SHUFFLES: [&str; 3] = ["noshuffle", "shuffle", "bitshuffle"];

pub(super) const DEFINITION: Definition = Definition {
    configuration: |codec, format| {
        let Codec::Blosc { cname, clevel, shuffle, typesize, blocksize } = codec else { return None };
        let mut configuration = json!({"cname": cname, "clevel": clevel, "blocksize": blocksize});
        let members = configuration.as_object_mut()?;
        match format {
            ZarrFormat::V2 => drop(members.insert("shuffle".to_owned(), (*shuffle).into())),
            ZarrFormat::V3 => {
                let shuffle = SHUFFLES.get(usize::from(*shuffle)).copied().unwrap_or("bitshuffle");
                members.insert("shuffle".to_owned(), shuffle.into());
                members.insert("typesize".to_owned(), (*typesize).into());
            }
        }
        Some(configuration)
    },
    parse: |encoded| {
        let cname = encoded.text("cname")?;
        let (shuffle, typesize) = shuffle_and_typesize(encoded)?;
        Some(Codec::Blosc {
            cname: COMPRESSORS.into_iter().find(|known| *known == cname)?,
            clevel: encoded.number("clevel")?,
            shuffle,
            typesize,
            blocksize: encoded.number("blocksize")?,
        })
    },
    unchecked_members: &["shuffle", "typesize"],
    is_self_describing: true,
    readers: &[Reader::Zarrs, Reader::Zarrita, Reader::Gdal],
    limitation: |used, _| {
        let is_snappy = used.configuration.get("cname").is_some_and(|cname| cname == "snappy");
        is_snappy.then(|| format!("{} with snappy", used.full_name))
    },
    examples: || {
        let blosc = |cname, shuffle| Codec::Blosc { cname, clevel: 5, shuffle, typesize: 2, blocksize: 0 };
        COMPRESSORS.into_iter().flat_map(|cname| (0..3).map(move |shuffle| blosc(cname, shuffle))).collect()
    },
    ..Definition::compressor(Registry::Core, &["blosc"])
};

fn shuffle_and_typesize(encoded: &Encoded<'_>) -> Option<(u8, u32)> {
    match encoded.format {
        ZarrFormat::V2 => {
            let size = u32::try_from(encoded.data_type.size().unwrap_or(1)).ok()?.max(1);
            let shuffle = match encoded.number("shuffle")? {
                -1 if size == 1 => 2,
                -1 => 1,
                shuffle => u8::try_from(shuffle).ok().filter(|shuffle| *shuffle <= 2)?,
            };
            Some((shuffle, size))
        }
        ZarrFormat::V3 => {
            let name = encoded.text("shuffle")?;
            let shuffle = SHUFFLES.iter().position(|known| *known == name)?;
            let typesize = encoded.number("typesize").filter(|size| *size > 0)?;
            Some((u8::try_from(shuffle).ok()?, typesize))
        }
    }
}
