//! Interprets the values of a directory.

use bytes::Bytes;
use tiff::tags::Type;
use virtualize_bytes::{Endian, Limits};

use super::{
    Directory, Entry,
    directory::{self, Fields},
    gdal, geo,
    image::{self, Geometry},
    tag::{self, GDAL_METADATA, GDAL_NODATA, GEO_ASCII_PARAMS},
};
use crate::{
    Error, Structure,
    model::{Ifd, Image, SampleFormat},
};

/// Bytes of an entry's value, or the error of fetching it.
pub(crate) type RawValue = Result<Bytes, Error>;

/// Returns the number of strips or tiles, if the values within the directory determine it: `None` if one of them is elsewhere.
/// The tables can declare a much larger one.
pub(crate) fn pieces(directory: &Directory, endian: Endian, limits: &Limits) -> Option<u64> {
    let mut fields = Fields::empty(directory.offset);
    for entry in directory.entries.iter().filter(|entry| image::TAGS.contains(&entry.tag)) {
        fields.values.insert(entry.tag, directory::decode(entry.kind, entry.inline()?, endian));
    }
    Geometry::of(&fields).ok()?.pieces(&fields, limits.chunks).ok().map(|pieces| pieces as u64)
}

/// Builds the directory at `path`, in a file of `size` bytes. `raw` contains the values of its entries, in their order.
pub(crate) fn build(
    path: Vec<usize>,
    directory: Directory,
    raw: Vec<RawValue>,
    endian: Endian,
    size: u64,
    limits: &Limits,
) -> Ifd {
    let ascii = directory.entries.iter().zip(&raw).find(|(entry, _)| entry.tag == GEO_ASCII_PARAMS);
    let ascii = ascii.and_then(|(_, bytes)| bytes.as_ref().ok()).cloned().unwrap_or_default();
    let mut fields = decode(&directory, raw, endian);
    let unreadable_sub_ifds = fields.unreadable.remove(&tag::SUB_IFDS).into_iter().collect();
    let mut problems = directory.skipped;
    let geo = geo::parse(&fields, &ascii, &mut problems);
    let items =
        fields.text(GDAL_METADATA).map(|xml| gdal::parse_metadata(&xml, fields.offset, limits.attributes));
    let gdal_metadata = items.unwrap_or(Ok(Vec::new())).unwrap_or_else(|problem| {
        problems.push(problem);
        Vec::new()
    });
    let image = image::parse(&mut fields, size, limits.chunks, &mut problems)
        .and_then(|image| check_order(image, &directory.entries, directory.offset, endian));
    problems.extend(std::mem::take(&mut fields.unreadable).into_values());
    Ifd {
        path,
        offset: directory.offset,
        image,
        // As C reads the text: up to its first NUL.
        declared_nodata: None,
        gdal_nodata: fields
            .text(GDAL_NODATA)
            .and_then(|text| text.split('\0').next().filter(|text| !text.is_empty()).map(str::to_owned)),
        gdal_metadata,
        geo,
        second_description: fields.second_description,
        tags: fields.values.into_iter().filter(|(tag, _)| !tag::is_table(*tag)).collect(),
        unreadable_tags: problems,
        unreadable_sub_ifds,
        sub_ifds: Vec::new(),
    }
}

/// Decodes the values. Large tables are not kept as they were read.
fn decode(directory: &Directory, raw: Vec<RawValue>, endian: Endian) -> Fields {
    let mut fields = Fields::empty(directory.offset);
    for (entry, value) in directory.entries.iter().zip(raw) {
        let value = value.and_then(|bytes| check_type(entry, directory.offset).map(|()| bytes));
        match value {
            Ok(bytes) if entry.tag == tag::IMAGE_DESCRIPTION && fields.values.contains_key(&entry.tag) => {
                fields.second_description = directory::decode(entry.kind, &bytes, endian).into_text();
            }
            Ok(bytes) => {
                fields.values.insert(entry.tag, directory::decode(entry.kind, &bytes, endian));
            }
            Err(error) => {
                fields.unreadable.insert(entry.tag, error);
            }
        }
    }
    fields
}

/// Rejects tables of other types than those of TIFF 6.0 and BigTIFF, except one BYTE: GDAL rejects them, or takes them for
/// zeros. Likewise for SubIFDs. libtiff ignores other tags of the type IFD, whose values tifffile uses, and text of wide
/// numbers.
fn check_type(entry: &Entry, offset: u64) -> Result<(), Error> {
    let (is_known, expected) = match (entry.tag, entry.kind) {
        (GDAL_METADATA | GDAL_NODATA, kind) => {
            (matches!(kind, Type::ASCII | Type::BYTE | Type::SBYTE | Type::UNDEFINED), "ASCII")
        }
        (tag, Type::IFD | Type::IFD8) if tag::is_a_number(tag) => (false, "SHORT, LONG or LONG8"),
        (tag::SUB_IFDS, kind) => {
            (matches!(kind, Type::LONG | Type::LONG8 | Type::IFD | Type::IFD8), "LONG, LONG8, IFD or IFD8")
        }
        (tag, kind) => {
            let is_short = matches!(kind, Type::SHORT | Type::LONG | Type::LONG8);
            let is_byte = (kind, entry.count) == (Type::BYTE, 1);
            (is_short || is_byte || !tag::is_table(tag), "SHORT, LONG or LONG8")
        }
    };
    if is_known {
        return Ok(());
    }
    let problem = format!("values of type {:?}, expected {expected}", entry.kind);
    Err(Error::malformed(Structure::Tag(entry.tag), offset, problem))
}

/// Rejects complex numbers of big-endian files whose SampleFormat stands before BitsPerSample: libtiff then swaps the bytes
/// of both parts as one number, which exchanges real and imaginary part.
fn check_order(image: Image, entries: &[Entry], offset: u64, endian: Endian) -> Result<Image, Error> {
    let complex = [SampleFormat::ComplexInteger, SampleFormat::ComplexFloat];
    let place = |tag| entries.iter().position(|entry| entry.tag == tag);
    let is_before = place(tag::SAMPLE_FORMAT) < place(tag::BITS_PER_SAMPLE);
    if endian == Endian::Big && is_before && image.sample_format.iter().any(|format| complex.contains(format))
    {
        let problem = "complex numbers, expected after BitsPerSample";
        return Err(Error::malformed(Structure::Tag(tag::SAMPLE_FORMAT), offset, problem));
    }
    Ok(image)
}
