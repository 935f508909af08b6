//! Compares every value that `virtualize` reads from a file with what a reference library reads.
//!
//! The verdict is "equal" or "refused". Anything else is a finding, and panics. Fill values are compared as the values of
//! missing chunks.

use std::{cell::RefCell, collections::BTreeMap, path::PathBuf, sync::Mutex};

use futures::executor::block_on;
use virtualize::{ArrayValues, Code, Format, MapOptions, Options, VirtualStore, read_array_within};
use virtualize_codec::decode_variable;
use virtualize_zarr::{Array, ChunkGrid, Codec, DataType, FillValue, Reference, References};

use crate::{
    LIMITS, mutate,
    oracle::{Answer, Oracle, Theirs},
};

/// Compares an HDF5 file with libhdf5.
pub fn hdf5(data: &[u8]) {
    compare(data, &Rules { program: "hdf5.py", format: "HDF5", allows: hdf5_allows });
}

/// Compares a NetCDF classic file with netCDF-C.
pub fn netcdf3(data: &[u8]) {
    compare(data, &Rules { program: "netcdf3.py", format: "NetCDF-3", allows: netcdf3_allows });
}

/// Compares a TIFF file with GDAL.
pub fn tiff(data: &[u8]) {
    compare(data, &Rules { program: "tiff.py", format: "TIFF", allows: tiff_allows });
}

/// Maximum number of bytes of an array that is compared.
const MAX_BYTES: u64 = 1 << 23;

/// Where the documented semantics differ from those of the library.
struct Rules {
    /// Oracle of the library.
    program: &'static str,
    /// Source format that the library reads; files that were mutated to others are skipped.
    format: &'static str,
    /// Whether a difference follows a documented rule.
    allows: fn(&Difference<'_>) -> bool,
}

/// A difference between the two.
struct Difference<'a> {
    file: &'a [u8],
    store: &'a VirtualStore,
    path: &'a str,
    kind: Kind,
    /// What the library reads, if it shows the array.
    theirs: Option<&'a Theirs>,
    ours: Option<&'a ArrayValues>,
    /// Why the library does not read the array or the file.
    error: &'a str,
}

impl Difference<'_> {
    /// Whether there is a diagnostic with this code for the array.
    fn has(&self, code: Code) -> bool {
        let mut diagnostics = self.store.report.diagnostics.iter();
        diagnostics
            .any(|diagnostic| diagnostic.code == code && diagnostic.path.trim_matches('/') == self.path)
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    /// The library opens the array, and `virtualize` neither shows nor reports it.
    Unreported,
    /// `virtualize` shows an array that the library cannot open or read.
    Unreadable,
    /// `virtualize` shows an array that the library does not list.
    Unknown,
    Shape,
    DataType,
    Values,
}

/// Compares a file in one Zarr format.
///
/// # Panics
/// If there is a finding, unless `FINDINGS` is set.
fn compare(data: &[u8], rules: &Rules) {
    thread_local!(static ORACLE: RefCell<Option<Oracle>> = const { RefCell::new(None) });
    // Both formats take the same path to the values of the source; the choice depends on the file alone.
    let format = if data.len() % 4 == 1 { Format::KERCHUNK_JSON } else { Format::ZARR3_JSON };
    let Some((store, options)) = opened(data, format) else { return };
    if store.source_format != rules.format {
        return;
    }
    let paths: Vec<String> = store.hierarchy.arrays().iter().map(|(path, _)| path.to_string()).collect();
    let new = || Oracle::new(rules.program);
    let answer = ORACLE.with_borrow_mut(|oracle| oracle.get_or_insert_with(new).read(data, &paths));
    let Some(answer) = answer else { return };
    let findings = findings(data, &store, &options, &answer, rules);
    if !findings.is_empty() {
        report(data, &findings.join("\n"));
    }
}

/// Panics, or writes the file to the folder `FINDINGS` so that the run continues: up to five files of one kind.
fn report(data: &[u8], findings: &str) {
    static KNOWN: Mutex<BTreeMap<String, u32>> = Mutex::new(BTreeMap::new());
    let Some(folder) = std::env::var_os("FINDINGS").map(PathBuf::from) else {
        panic!("differs from the reference library:\n{findings}");
    };
    let kind: String = findings.split(['/', ';']).step_by(2).take(2).collect();
    let kind = kind.chars().filter(|c| c.is_ascii_alphabetic() || *c == ' ').take(60).collect();
    let mut known = KNOWN.lock().expect("no panic while it is held");
    let count: &mut u32 = known.entry(kind).or_default();
    *count += 1;
    if *count <= 5 {
        let name = format!("{:016x}", mutate::key(data));
        std::fs::write(folder.join(format!("{name}.txt")), findings).expect("a folder");
        std::fs::write(folder.join(name), data).expect("a folder");
    }
}

/// Opens a file in memory; `None` if it is refused.
fn opened(data: &[u8], format: Format) -> Option<(VirtualStore, Options)> {
    let map = MapOptions { format: format.zarr_format(), inline_limit: 1 << 20, ..MapOptions::default() };
    let options = Options { map, limits: LIMITS, ..Options::default() };
    let object = virtualize_store::Object::in_memory("memory:///fuzz", data.to_vec());
    let store = block_on(virtualize::open_object(object, &options)).ok()?;
    Some((store, options))
}

fn findings(
    file: &[u8],
    store: &VirtualStore,
    options: &Options,
    answer: &Answer,
    rules: &Rules,
) -> Vec<String> {
    let check = Check { file, store, options, rules };
    if let Some(error) = &answer.error {
        let arrays = store.hierarchy.arrays();
        return arrays.into_iter().filter_map(|(path, _)| check.shown(path.as_str(), None, error)).collect();
    }
    let mut expected: BTreeMap<String, Vec<&Theirs>> = BTreeMap::new();
    for array in &answer.arrays {
        let path = if rules.format == "HDF5" {
            // Where the oracle ends its walk, a number of nameless arrays stands for the others.
            if array.uncompared.as_deref() == Some("more") {
                continue;
            }
            // netCDF-C stores a variable that shares the name, but not the role, of a dimension under another name.
            let shown = |name: &'_ str| match name.strip_prefix("_nc4_non_coord_") {
                Some(rest) if !rest.is_empty() => rest.to_owned(),
                _ => name.to_owned(),
            };
            array.path.split('/').map(shown).collect::<Vec<_>>().join("/")
        } else {
            array.path.clone()
        };
        expected.entry(path).or_default().push(array);
    }
    // Of several arrays with one path, one is shown.
    let compare = |(path, arrays): (&String, &Vec<&Theirs>)| {
        let findings: Option<Vec<_>> = arrays.iter().map(|theirs| check.array(path, theirs)).collect();
        findings.and_then(|findings| findings.into_iter().next())
    };
    let mut found: Vec<String> = expected.iter().filter_map(compare).collect();
    if !answer.has_more {
        for (path, _) in store.hierarchy.arrays() {
            // The library does not open names that are not UTF-8.
            if !expected.contains_key(path.as_str()) && !path.as_str().contains(char::REPLACEMENT_CHARACTER) {
                found.extend(check.shown(path.as_str(), None, "it does not list the array"));
            }
        }
    }
    found
}

struct Check<'a> {
    file: &'a [u8],
    store: &'a VirtualStore,
    options: &'a Options,
    rules: &'a Rules,
}

impl Check<'_> {
    /// Compares an array that the library lists.
    fn array(&self, path: &str, theirs: &Theirs) -> Option<String> {
        if let Some(error) = &theirs.error {
            return self.shown(path, Some(theirs), error);
        }
        if self.store.hierarchy.array(path).is_none() {
            let is_silent = !is_reported(self.store, path) && !is_reported(self.store, &theirs.path);
            return is_silent.then(|| self.finding(Kind::Unreported, path, Some(theirs), None, ""))?;
        }
        let ours = self.read(path)?;
        if ours.shape != theirs.shape {
            return self.finding(Kind::Shape, path, Some(theirs), Some(&ours), "");
        }
        if theirs.uncompared.is_some() {
            return None;
        }
        // Our floats are converted to float64 where the library shows them as float64.
        let ours = if ours.data_type == DataType::Float32 && theirs.data_type == "float64" {
            let (floats, _) = ours.bytes.as_chunks::<4>();
            let widened = floats.iter().flat_map(|x| f64::from(f32::from_le_bytes(*x)).to_le_bytes());
            let bytes = widened.collect::<Vec<u8>>().into();
            ArrayValues { data_type: DataType::Float64, bytes, ..ours }
        } else {
            ours
        };
        if type_name(&ours.data_type) != theirs.data_type {
            return self.finding(Kind::DataType, path, Some(theirs), Some(&ours), "");
        }
        let differs = *ours.bytes != *theirs.values;
        differs.then(|| self.finding(Kind::Values, path, Some(theirs), Some(&ours), ""))?
    }

    /// An array that the library does not read must not be shown with values.
    fn shown(&self, path: &str, theirs: Option<&Theirs>, error: &str) -> Option<String> {
        self.store.hierarchy.array(path)?;
        let ours = self.read(path)?;
        let kind = if theirs.is_some() { Kind::Unreadable } else { Kind::Unknown };
        self.finding(kind, path, theirs, Some(&ours), error)
    }

    /// Returns the values of an array; `None` if the library refuses them.
    fn read(&self, path: &str) -> Option<ArrayValues> {
        block_on(read_array_within(self.store, path, MAX_BYTES, &self.options.store)).ok()
    }

    fn finding(
        &self,
        kind: Kind,
        path: &str,
        theirs: Option<&Theirs>,
        ours: Option<&ArrayValues>,
        error: &str,
    ) -> Option<String> {
        let Self { file, store, .. } = *self;
        let difference = Difference { file, store, path, kind, theirs, ours, error };
        if (self.rules.allows)(&difference) {
            return None;
        }
        let theirs = theirs.map(|theirs| summary(&theirs.data_type, &theirs.shape, &theirs.values));
        let ours = ours.map(|ours| summary(&type_name(&ours.data_type), &ours.shape, &ours.bytes));
        let none = || "nothing".to_owned();
        let (ours, theirs) = (ours.unwrap_or_else(none), theirs.unwrap_or_else(none));
        Some(format!("{kind:?} /{path}: ours {ours}; theirs {theirs} {error}"))
    }
}

/// Whether a diagnostic reports that an array, or a group above it, is omitted.
fn is_reported(store: &VirtualStore, path: &str) -> bool {
    let is_above = |node: &str| {
        let (node, path) = (node.trim_matches('/'), path.trim_matches('/'));
        node == path || node.is_empty() || path.strip_prefix(node).is_some_and(|rest| rest.starts_with('/'))
    };
    let says_so = |code: Code| {
        use Code::*;
        matches!(
            code,
            ArrayOmitted
                | LinkCycle
                | LinkOmitted
                | NameCollision
                | NodeOmitted
                | RootUnreadable
                | TooLarge
                | TooManyNodes
                | InlineFailed
                | InlineLimit
                | InlineTotal
                | FileMalformed
                | FileTruncated
                | FileUnsupported
                | DatatypeOmitted
                | TiffImage
                | TiffUnsupported
                | TiffMalformed
                | TiffChain
                | TiffTruncated
                | TiffJpeg
                | TiffLerc
                | TiffLercMask
        )
    };
    let mut diagnostics = store.report.diagnostics.iter();
    diagnostics.any(|diagnostic| says_so(diagnostic.code) && is_above(&diagnostic.path))
}

fn summary(data_type: &str, shape: &[u64], bytes: &[u8]) -> String {
    let first: String = bytes.iter().take(64).map(|byte| format!("{byte:02x}")).collect();
    format!("{data_type} {shape:?} {first}")
}

/// Returns the name of a type in answers.
fn type_name(data_type: &DataType) -> String {
    let DataType::Struct(fields) = data_type else { return data_type.to_string() };
    let field = |field: &virtualize_zarr::Field| {
        format!("{:?}: {} {:?}", field.name, type_name(&field.data_type), field.shape)
    };
    format!("struct {{{}}}", fields.iter().map(field).collect::<Vec<_>>().join(", "))
}

// The documented rules by which results differ.

fn hdf5_allows(difference: &Difference<'_>) -> bool {
    let Difference { kind, theirs, ours, .. } = *difference;
    let uncompared = theirs.and_then(|theirs| theirs.uncompared.as_deref());
    match kind {
        // Of a damaged file that libhdf5 refuses, any values that are in it will do.
        Kind::Unreadable => true,
        // Of two objects with one name, the last is shown.
        _ if difference.has(Code::NameCollision) => true,
        // Each library converts floats that are not IEEE 754, and chooses the bits of NaN.
        Kind::Values => ours.zip(theirs).is_some_and(|(ours, theirs)| {
            let is_nan = |bytes: &[u8]| match *bytes {
                [a, b] => u16::from_le_bytes([a, b]) << 1 > 0xf800,
                [a, b, c, d] => f32::from_le_bytes([a, b, c, d]).is_nan(),
                [a, b, c, d, e, f, g, h] => f64::from_le_bytes([a, b, c, d, e, f, g, h]).is_nan(),
                _ => false,
            };
            theirs.is_converted
                && ours.data_type.is_float()
                && pairs(ours, theirs).all(|(a, b)| a == b || is_nan(a) && is_nan(b))
        }),
        // R3 of docs/semantics-hdf5.md: parts of an array that the references of another one select.
        Kind::Unknown => {
            let base = difference.path.trim_end_matches('_').strip_suffix("_part");
            let is_text = ours.is_some_and(|ours| ours.data_type == DataType::String);
            is_text && base.is_some_and(|base| difference.store.hierarchy.array(base).is_some())
        }
        // Dimensions without a variable are not arrays.
        Kind::Unreported => uncompared == Some("dimension"),
        // D3 of docs/semantics-hdf5.md.
        Kind::Shape => difference.has(Code::ArrayPadded) || uncompared == Some("dimension"),
        Kind::DataType => false,
    }
}

fn netcdf3_allows(difference: &Difference<'_>) -> bool {
    let Difference { kind, theirs, ours, error, .. } = *difference;
    // T3 and T4 of docs/semantics-netcdf3.md: netCDF4-python, not netCDF-C, fails on names that are not UTF-8, and on two
    // dimensions of one name.
    if error.starts_with("UnicodeDecodeError") || error.starts_with("AttributeError") {
        return true;
    }
    let (Some(ours), Some(theirs)) = (ours, theirs) else { return false };
    match kind {
        // S1: netCDF-C repeats parts of its buffer of 8 KiB past the end of the file, where we show zeros.
        Kind::Values if difference.has(Code::FileTruncated) => {
            let same = ours.bytes.iter().zip(&theirs.values).take_while(|(a, b)| a == b).count();
            ours.bytes.len() == theirs.values.len() && ours.bytes.iter().skip(same).all(|byte| *byte == 0)
        }
        // R5: netCDF-C takes STREAMING as a number of records.
        Kind::Shape => theirs.shape.first() == Some(&u64::from(u32::MAX)),
        _ => false,
    }
}

fn tiff_allows(difference: &Difference<'_>) -> bool {
    let Difference { file, store, path, kind, theirs, ours, .. } = *difference;
    // Coordinates and the grid mapping are not images. O1: the planes of OME-TIFF are joined.
    let joins_planes = store.hierarchy.root.attributes.contains_key("ome_series");
    if path.rsplit('/').next() != Some("band_data") || joins_planes {
        return true;
    }
    let (Some(ours), Some(theirs), Some(array)) = (ours, theirs, store.hierarchy.array(path)) else {
        return false;
    };
    // I5: GDAL converts the colors of stored samples, which it does not where strips or tiles are missing. Image formats
    // convert colors themselves, and subsampled YCbCr is not referenced.
    let name = array.attributes.get("photometric_interpretation").and_then(|name| name.as_str());
    let has_colors = match name {
        Some("YCbCr") => !array.chunks.references.is_empty(),
        name => !matches!(name, Some("WhiteIsZero" | "BlackIsZero" | "RGB" | "RGB Palette")),
    };
    let is_image = |codec: &Codec| matches!(codec, Codec::Image { .. } | Codec::Tiff(_));
    if has_colors && !array.codecs.iter().any(is_image) {
        return true;
    }
    match kind {
        Kind::Unreadable | Kind::Values | Kind::Shape if has_long_chunks(file, array) => true,
        // GDAL reads a part of the tiles at the lower edge, and fails if the byte count is another one. tifffile reads them.
        // GDAL refuses directories for tags on which no value depends. It must be able to read what it opens.
        // Strips that a short table lacks read as missing, with a warning: GDAL refuses them, tifffile does not.
        Kind::Unreadable => {
            array.codecs.iter().all(|codec| *codec == Codec::PackBits || !codec.is_compressor())
                || theirs.error.as_ref().is_some_and(|error| error.contains("not opened: "))
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
        Kind::Values => {
            let zeros = |is_expected: &dyn Fn(usize, &[u8]) -> bool| {
                pairs(ours, theirs).enumerate().all(|(index, (ours, theirs))| {
                    ours == theirs || theirs.iter().all(|byte| *byte == 0) && is_expected(index, ours)
                })
            };
            // GDAL shows 0 in missing chunks although nodata is another number: NaN with a sign, or a number for integers of
            // 64 bits that are not declared as such.
            let is_fill = |_, ours: &[u8]| matches!(&array.fill_value, Some(FillValue::Fixed(bytes)) if **bytes == *ours);
            let has_nodata =
                array.data_type.is_float() || matches!(array.data_type, DataType::Int64 | DataType::UInt64);
            // GDAL shows 0 in the last rows if the last strip holds more rows than the image: libtiff's decoder of Deflate
            // leaves them empty, without an error.
            let omits_last_rows = match (&ours.shape[..], &array.chunk_grid) {
                (&[.., _, height, width], ChunkGrid::Regular(chunk)) if chunk.len() >= 3 => {
                    let rows = chunk[chunk.len() - 2];
                    let last = height.saturating_sub(1) / rows.max(1) * rows;
                    array.codecs.iter().any(|codec| matches!(codec, Codec::Zlib { .. }))
                        && zeros(&|index, _| index as u64 / width.max(1) % height.max(1) >= last)
                }
                _ => false,
            };
            // I4: GDAL shows masks of one bit as 0 and 255.
            let shown = ours.bytes.iter().map(|byte| byte.wrapping_mul(255));
            let is_mask = theirs.data_type == "uint8" && shown.eq(theirs.values.iter().copied());
            is_mask || omits_last_rows || has_nodata && zeros(&is_fill)
        }
        _ => false,
    }
}

/// Whether a chunk decodes to more bytes than its pixels need. Zarr clients refuse it, libtiff reads a part of it, or none.
fn has_long_chunks(file: &[u8], array: &Array) -> bool {
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
        file.get(range).is_some_and(|bytes| decode(bytes).map_or(true, |decoded| decoded.len() > size))
    };
    array.chunks.references.iter().flat_map(References::iter).any(|(_, reference)| is_long(reference))
}

/// Returns the bytes of each element.
fn pairs<'a>(ours: &'a ArrayValues, theirs: &'a Theirs) -> impl Iterator<Item = (&'a [u8], &'a [u8])> {
    let size = ours.data_type.size().unwrap_or(1).max(1) as usize;
    ours.bytes.chunks(size).zip(theirs.values.chunks(size))
}

/// Returns an array with its last axis first.
fn bands_first(ours: &ArrayValues) -> Option<(Vec<u64>, Vec<u8>)> {
    let (bands, pixels) = ours.shape.split_last()?;
    let size = usize::try_from(ours.data_type.size()?).ok()?;
    let count = usize::try_from(*bands).ok().filter(|count| *count > 0)?;
    let elements: Vec<&[u8]> = ours.bytes.chunks_exact(size).collect();
    let moved = (0..count).flat_map(|band| elements.iter().skip(band).step_by(count)).copied();
    Some(([&[*bands], pixels].concat(), moved.collect::<Vec<_>>().concat()))
}
