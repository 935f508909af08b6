//! The targets that compare with reference libraries, and the documented rules by which results differ.

use std::cell::RefCell;

use virtualize::Code;
use virtualize_codec::decode_variable;
use virtualize_zarr::{ChunkGrid, Codec, DataType, FillValue, Reference, References};

use crate::{
    differential::{Difference, Kind, Rules, compare},
    oracle::{Oracle, Theirs},
};

/// Compares an HDF5 file with libhdf5.
pub fn hdf5(data: &[u8]) {
    thread_local!(static ORACLE: RefCell<Oracle> = RefCell::new(Oracle::new("hdf5.py")));
    ORACLE.with_borrow_mut(|oracle| compare(data, oracle, &HDF5));
}

/// Compares a NetCDF classic file with netCDF-C.
pub fn netcdf3(data: &[u8]) {
    thread_local!(static ORACLE: RefCell<Oracle> = RefCell::new(Oracle::new("netcdf3.py")));
    ORACLE.with_borrow_mut(|oracle| compare(data, oracle, &NETCDF3));
}

/// Compares a TIFF file with GDAL.
pub fn tiff(data: &[u8]) {
    thread_local!(static ORACLE: RefCell<Oracle> = RefCell::new(Oracle::new("tiff.py")));
    ORACLE.with_borrow_mut(|oracle| compare(data, oracle, &TIFF));
}

const HDF5: Rules = Rules { format: "HDF5", path: hdf5_path, allows: hdf5_allows };
const TIFF: Rules = Rules { format: "TIFF", path: |theirs| Some(theirs.path.clone()), allows: tiff_allows };
const NETCDF3: Rules = Rules { format: "NetCDF-3", path: netcdf3_path, allows: netcdf3_allows };

/// netCDF-C stores a variable that shares the name, but not the role, of a dimension as `_nc4_non_coord_NAME`.
fn hdf5_path(theirs: &Theirs) -> Option<String> {
    // Where the oracle ends its walk, a number of nameless arrays stands for the others.
    if theirs.uncompared.as_deref() == Some("more") {
        return None;
    }
    let shown = |name: &str| match name.strip_prefix("_nc4_non_coord_") {
        Some(rest) if !rest.is_empty() => rest.to_owned(),
        _ => name.to_owned(),
    };
    Some(theirs.path.split('/').map(shown).collect::<Vec<_>>().join("/"))
}

/// Whether an array has the parts that the references of another one select.
fn is_part(difference: &Difference<'_>) -> bool {
    let base = difference.path.trim_end_matches('_').strip_suffix("_part");
    let is_text = difference.ours.is_some_and(|ours| ours.data_type == DataType::String);
    is_text && base.is_some_and(|base| difference.store.hierarchy.array(base).is_some())
}

fn hdf5_allows(difference: &Difference<'_>) -> bool {
    let Difference { kind, theirs, .. } = difference;
    let uncompared = theirs.and_then(|theirs| theirs.uncompared.as_deref());
    match kind {
        // Of a damaged file that libhdf5 refuses, any values that are in it will do.
        Kind::Unreadable => true,
        // Floats that are not IEEE 754 are converted, each library with NaNs of its own.
        Kind::Values if difference.differs_in_nans() => true,
        // Of two objects with one name, the last is shown.
        _ if difference.has(Code::NameCollision) => true,
        // R3 of docs/semantics-hdf5.md.
        Kind::Unknown if is_part(difference) => true,
        // Dimensions without a variable are not arrays.
        Kind::Unreported => uncompared == Some("dimension"),
        // D3 of docs/semantics-hdf5.md.
        Kind::Shape => difference.has(Code::ArrayPadded) || uncompared == Some("dimension"),
        _ => false,
    }
}

fn netcdf3_path(theirs: &Theirs) -> Option<String> {
    Some(theirs.path.clone())
}

fn netcdf3_allows(difference: &Difference<'_>) -> bool {
    // T3 and T4 of docs/semantics-netcdf3.md: netCDF4-python, not netCDF-C, fails on names that are not UTF-8, and on two
    // dimensions of one name.
    ["UnicodeDecodeError", "AttributeError"].iter().any(|error| difference.error.starts_with(error))
        // S1: netCDF-C repeats parts of its buffer of 8 KiB past the end of the file, where we show zeros.
        || difference.kind == Kind::Values && difference.has(Code::FileTruncated) && difference.ends_in_zeros()
        // R5: netCDF-C takes STREAMING as a number of records.
        || difference.kind == Kind::Shape && difference.theirs.is_some_and(|theirs| theirs.shape.first() == Some(&u64::from(u32::MAX)))
}

fn tiff_allows(difference: &Difference<'_>) -> bool {
    let Difference { kind, path, ours, theirs, store, .. } = difference;
    // Coordinates and the grid mapping are not images. O1: the planes of OME-TIFF are joined.
    let joins_planes = store.hierarchy.root.attributes.contains_key("ome_series");
    if path.rsplit('/').next() != Some("band_data") || joins_planes {
        return true;
    }
    let (Some(ours), Some(theirs)) = (ours, theirs) else { return false };
    match kind {
        Kind::Unreadable | Kind::Values | Kind::Shape if has_long_chunks(difference) => true,
        Kind::Values if fills_with_zero(difference) || omits_last_rows(difference) => true,
        _ if converts_colors(difference) => true,
        // GDAL reads a part of the tiles at the lower edge, and fails if the byte count is another one. tifffile reads them.
        Kind::Unreadable
            if difference
                .codecs()
                .iter()
                .all(|codec| *codec == Codec::PackBits || !codec.is_compressor()) =>
        {
            true
        }
        // GDAL refuses directories for tags on which no value depends. It must be able to read what it opens.
        // Strips that a short table lacks read as missing, with a warning: GDAL refuses them, tifffile does not.
        Kind::Unreadable => {
            theirs.error.as_ref().is_some_and(|error| error.contains("not opened: "))
                || difference.has(Code::TiffTag)
        }
        // I2 of docs/semantics-tiff.md: chunky bands are the last axis in Zarr v2.
        // GDAL shows the first plane of a volume.
        Kind::Shape if ours.shape.len() == 4 => true,
        Kind::Shape => bands_first(ours).is_some_and(|(shape, values)| {
            shape == theirs.shape && (theirs.uncompared.is_some() || values == theirs.values)
        }),
        // Three rows of three pixels with three bands.
        Kind::Values if bands_first(ours).is_some_and(|(_, values)| values == theirs.values) => true,
        // I4: GDAL shows masks of one bit as 0 and 255.
        Kind::Values => {
            let shown = ours.bytes.iter().map(|byte| byte.wrapping_mul(255));
            theirs.data_type == "uint8" && shown.eq(theirs.values.iter().copied())
        }
        _ => false,
    }
}

/// Whether a chunk decodes to more bytes than its pixels need. Zarr clients refuse it, libtiff reads a part of it, or none.
fn has_long_chunks(difference: &Difference<'_>) -> bool {
    let Some(array) = difference.store.hierarchy.array(difference.path) else { return false };
    let ChunkGrid::Regular(shape) = &array.chunk_grid else { return false };
    let pixels =
        shape.iter().try_fold(array.data_type.size().unwrap_or(1), |size, length| size.checked_mul(*length));
    // Complex integers become complex numbers of twice their size.
    let is_converted = array.codecs.iter().any(|codec| matches!(codec, Codec::ComplexIntegers { .. }));
    let stored =
        pixels.and_then(|size| usize::try_from(size).ok()).map(|size| size >> usize::from(is_converted));
    let Some(size) = stored else { return false };
    let is_long = |reference: Reference| {
        let range = reference.offset as usize..(reference.offset + reference.length) as usize;
        // Predictors drop incomplete rows at the limit.
        let decode = |bytes| decode_variable(&array.codecs, bytes, size * 2 + 0x10000);
        difference
            .file
            .get(range)
            .is_some_and(|bytes| decode(bytes).map_or(true, |decoded| decoded.len() > size))
    };
    array.chunks.references.iter().flat_map(References::iter).any(|(_, reference)| is_long(reference))
}

/// Whether GDAL shows 0 in missing chunks although nodata is another number: NaN with a sign, or a number for integers of 64
/// bits that are not declared as such.
fn fills_with_zero(difference: &Difference<'_>) -> bool {
    let Some(array) = difference.store.hierarchy.array(difference.path) else { return false };
    let is_fill =
        |ours: &[u8]| matches!(&array.fill_value, Some(FillValue::Fixed(bytes)) if **bytes == *ours);
    let is_known =
        array.data_type.is_float() || matches!(array.data_type, DataType::Int64 | DataType::UInt64);
    is_known && theirs_are_zero(difference, |_, ours| is_fill(ours))
}

/// Whether GDAL shows 0 in the last rows because the last strip holds more rows than the image. libtiff's decoder of
/// Deflate then leaves them empty, without an error.
fn omits_last_rows(difference: &Difference<'_>) -> bool {
    let (Some(array), Some(ours)) = (difference.store.hierarchy.array(difference.path), difference.ours)
    else {
        return false;
    };
    let ChunkGrid::Regular(chunk) = &array.chunk_grid else { return false };
    let (&[.., _, height, width], &[.., _, rows, _]) = (&ours.shape[..], &chunk[..]) else { return false };
    let last = height.saturating_sub(1) / rows.max(1) * rows;
    difference.codecs().iter().any(|codec| matches!(codec, Codec::Zlib { .. }))
        && theirs_are_zero(difference, |index, _| index as u64 / width.max(1) % height.max(1) >= last)
}

/// I5: whether GDAL converts the colors of stored samples, which it does not where strips or tiles are missing. Image formats
/// convert colors themselves, and subsampled YCbCr is not referenced.
fn converts_colors(difference: &Difference<'_>) -> bool {
    let Some(array) = difference.store.hierarchy.array(difference.path) else { return false };
    let name = array.attributes.get("photometric_interpretation").and_then(|name| name.as_str());
    let is_converted = match name {
        Some("YCbCr") => !array.chunks.references.is_empty(),
        name => !matches!(name, Some("WhiteIsZero" | "BlackIsZero" | "RGB" | "RGB Palette")),
    };
    is_converted && !array.codecs.iter().any(|codec| matches!(codec, Codec::Image { .. } | Codec::Tiff(_)))
}

/// Whether all elements of GDAL that differ are 0, and `is_expected` holds for the index and bytes of ours.
fn theirs_are_zero(difference: &Difference<'_>, is_expected: impl Fn(usize, &[u8]) -> bool) -> bool {
    let (Some(ours), Some(theirs)) = (difference.ours, difference.theirs) else { return false };
    let size = ours.data_type.size().unwrap_or(1).max(1) as usize;
    let mut pairs = ours.bytes.chunks(size).zip(theirs.values.chunks(size)).enumerate();
    pairs.all(|(index, (ours, theirs))| {
        ours == theirs || theirs.iter().all(|byte| *byte == 0) && is_expected(index, ours)
    })
}

/// Returns an array with its last axis first.
fn bands_first(ours: &virtualize::ArrayValues) -> Option<(Vec<u64>, Vec<u8>)> {
    let (bands, pixels) = ours.shape.split_last()?;
    let size = usize::try_from(ours.data_type.size()?).ok()?;
    let count = usize::try_from(*bands).ok().filter(|count| *count > 0)?;
    let elements: Vec<&[u8]> = ours.bytes.chunks_exact(size).collect();
    let moved = (0..count).flat_map(|band| elements.iter().skip(band).step_by(count)).copied();
    Some(([&[*bands], pixels].concat(), moved.collect::<Vec<_>>().concat()))
}
