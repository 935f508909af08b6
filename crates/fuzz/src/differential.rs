//! Compares every value that `virtualize` reads from a file with what a reference library reads.
//!
//! The verdict is "equal" or "refused". Anything else is a finding, and panics. Fill values are compared as the values of
//! missing chunks.

use std::{collections::BTreeMap, path::PathBuf, sync::Mutex};

use futures::executor::block_on;
use virtualize::{ArrayValues, Code, Format, MapOptions, Options, VirtualStore, read_array_within};
use virtualize_zarr::{Codec, DataType};

use crate::{
    LIMITS, mutate,
    oracle::{Answer, Oracle, Theirs},
};

/// Maximum number of bytes of an array that is compared.
const MAX_BYTES: u64 = 1 << 23;

/// Where the documented semantics differ from those of the library.
pub struct Rules {
    /// Source format that the library reads; files that were mutated to others are skipped.
    pub format: &'static str,
    /// Returns the path under which `virtualize` shows an array of the library; `None` if it hides the array.
    pub path: fn(&Theirs) -> Option<String>,
    /// Whether a difference follows a documented rule.
    pub allows: fn(&Difference<'_>) -> bool,
}

/// A difference between the two.
pub struct Difference<'a> {
    pub file: &'a [u8],
    pub store: &'a VirtualStore,
    pub path: &'a str,
    pub kind: Kind,
    /// What the library reads, if it shows the array.
    pub theirs: Option<&'a Theirs>,
    pub ours: Option<&'a ArrayValues>,
    /// Why the library does not read the array or the file.
    pub error: &'a str,
}

impl Difference<'_> {
    /// Whether there is a diagnostic with this code for the array.
    pub fn has(&self, code: Code) -> bool {
        let mut diagnostics = self.store.report.diagnostics.iter();
        diagnostics
            .any(|diagnostic| diagnostic.code == code && diagnostic.path.trim_matches('/') == self.path)
    }
}

impl Difference<'_> {
    /// Returns the codecs of the array.
    pub fn codecs(&self) -> &[Codec] {
        self.store.hierarchy.array(self.path).map_or(&[], |array| &array.codecs)
    }

    /// Whether ours are zero from the first different byte on.
    pub fn ends_in_zeros(&self) -> bool {
        let (Some(ours), Some(theirs)) = (self.ours, self.theirs) else { return false };
        let same = ours.bytes.iter().zip(&theirs.values).take_while(|(a, b)| a == b).count();
        ours.bytes.len() == theirs.values.len() && ours.bytes.iter().skip(same).all(|byte| *byte == 0)
    }

    /// Whether the values are the same numbers, with other NaNs, after a conversion by the library.
    pub fn differs_in_nans(&self) -> bool {
        let (Some(ours), Some(theirs)) = (self.ours, self.theirs) else { return false };
        let is_nan = |bytes: &[u8]| match *bytes {
            [a, b] => u16::from_le_bytes([a, b]) << 1 > 0xf800,
            [a, b, c, d] => f32::from_le_bytes([a, b, c, d]).is_nan(),
            [a, b, c, d, e, f, g, h] => f64::from_le_bytes([a, b, c, d, e, f, g, h]).is_nan(),
            _ => false,
        };
        let size = ours.data_type.size().unwrap_or(1).max(1) as usize;
        let mut pairs = ours.bytes.chunks(size).zip(theirs.values.chunks(size));
        theirs.is_converted
            && ours.data_type.is_float()
            && pairs.all(|(a, b)| a == b || is_nan(a) && is_nan(b))
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
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
pub fn compare(data: &[u8], oracle: &mut Oracle, rules: &Rules) {
    // Both formats take the same path to the values of the source; the choice depends on the file alone.
    let format = if data.len() % 4 == 1 { Format::KERCHUNK_JSON } else { Format::ZARR3_JSON };
    let Some((store, options)) = opened(data, format) else { return };
    if store.source_format != rules.format {
        return;
    }
    let paths: Vec<String> = store.hierarchy.arrays().iter().map(|(path, _)| path.to_string()).collect();
    let Some(answer) = oracle.read(data, &paths) else { return };
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
        if let Some(path) = (rules.path)(array) {
            expected.entry(path).or_default().push(array);
        }
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
        let (ours, their_type) = same_width(ours, &theirs.data_type);
        if type_name(&ours.data_type) != their_type {
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
        (!(self.rules.allows)(&difference)).then(|| describe(&difference))
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

/// Converts our floats to float64 where the library shows them as float64.
fn same_width(ours: ArrayValues, theirs: &str) -> (ArrayValues, String) {
    let widened: Option<Vec<u8>> = match (&ours.data_type, theirs) {
        (DataType::Float32, "float64") => Some(
            ours.bytes
                .as_chunks::<4>()
                .0
                .iter()
                .flat_map(|x| f64::from(f32::from_le_bytes(*x)).to_le_bytes())
                .collect(),
        ),
        _ => None,
    };
    match widened {
        Some(bytes) => {
            (ArrayValues { data_type: DataType::Float64, bytes: bytes.into(), ..ours }, theirs.to_owned())
        }
        None => (ours, theirs.to_owned()),
    }
}

fn describe(difference: &Difference<'_>) -> String {
    let Difference { kind, path, theirs, ours, error, .. } = difference;
    let theirs = theirs.map(|theirs| summary(&theirs.data_type, &theirs.shape, &theirs.values));
    let ours = ours.map(|ours| summary(&type_name(&ours.data_type), &ours.shape, &ours.bytes));
    let none = || "nothing".to_owned();
    format!(
        "{kind:?} /{path}: ours {}; theirs {} {error}",
        ours.unwrap_or_else(none),
        theirs.unwrap_or_else(none)
    )
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
