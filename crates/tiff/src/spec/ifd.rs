//! A directory with its values, interpreted.

use std::collections::BTreeMap;

use bytes::Bytes;
use virtualize_bytes::{Endian, Limits};

use super::{
    Directory, Entry,
    fields::Fields,
    gdal_metadata, geo, image,
    tag::{self, GDAL_METADATA, GDAL_NODATA, GEO_ASCII_PARAMS},
    value,
};
use crate::{
    Error,
    model::{GdalItem, Ifd, Value},
};

/// The bytes of an entry's value, or why they could not be had.
pub(crate) type RawValue = Result<Bytes, Error>;

/// The directory `path` of a file of `size` bytes. `raw` holds the values of its entries, in their order.
pub(crate) fn build(
    path: Vec<usize>,
    directory: Directory,
    raw: &[RawValue],
    endian: Endian,
    size: u64,
    limits: &Limits,
) -> Ifd {
    let mut fields = decode(&directory, raw, endian);
    let mut problems = directory.skipped;
    let ascii = raw_value(&directory.entries, raw, GEO_ASCII_PARAMS);
    let geo = geo::parse(&fields, ascii, &mut problems);
    let gdal_metadata = gdal_items(&fields, limits, &mut problems);
    let image = image::parse(&fields, size, limits.chunks);
    problems.extend(image.iter().filter_map(|image| image::note_on_offsets(&fields, image)));
    problems.extend(std::mem::take(&mut fields.unreadable).into_values());
    Ifd {
        path,
        offset: directory.offset,
        image,
        gdal_nodata: fields.text(GDAL_NODATA),
        gdal_metadata,
        geo,
        tags: without_tables(fields.values),
        unreadable_tags: problems,
        sub_ifds: Vec::new(),
    }
}

fn decode(directory: &Directory, raw: &[RawValue], endian: Endian) -> Fields {
    let mut fields =
        Fields { offset: directory.offset, values: BTreeMap::new(), unreadable: BTreeMap::new() };
    for (entry, value) in directory.entries.iter().zip(raw) {
        match value {
            Ok(bytes) => {
                fields.values.insert(entry.tag, value::decode(entry.kind, bytes, endian));
            }
            Err(error) => {
                fields.unreadable.insert(entry.tag, error.clone());
            }
        }
    }
    fields
}

fn raw_value<'a>(entries: &[Entry], raw: &'a [RawValue], tag: u16) -> &'a [u8] {
    let mut pairs = entries.iter().zip(raw);
    match pairs.find(|(entry, _)| entry.tag == tag) {
        Some((_, Ok(bytes))) => bytes,
        _ => &[],
    }
}

fn gdal_items(fields: &Fields, limits: &Limits, problems: &mut Vec<Error>) -> Vec<GdalItem> {
    let Some(xml) = fields.text(GDAL_METADATA) else { return Vec::new() };
    match gdal_metadata::parse(&xml, limits.attributes) {
        Ok(items) => items,
        Err(problem) => {
            problems.push(fields.malformed(GDAL_METADATA, problem));
            Vec::new()
        }
    }
}

fn without_tables(mut values: BTreeMap<u16, Value>) -> BTreeMap<u16, Value> {
    values.retain(|&tag, _| !tag::is_table(tag));
    values
}
