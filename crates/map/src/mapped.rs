//! The mapped hierarchy, memory for it, names of its nodes, and the files that it refers to.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use virtualize_bytes::Budget;
use virtualize_remedy::{Code, OptionName, Remedy};
use virtualize_zarr::{Array, Hierarchy, NodePath, References, Source, ZarrFormat, node};

use crate::cf::packing::needs_v3;
use crate::{Diagnostic, Error, InlineTask, MapOptions, Piece, Report, Result, Severity};

/// A mapped file: the hierarchy, the chunks that still have to be made, and the decisions taken.
#[derive(Clone, Debug)]
pub struct Mapped {
    /// Complete but for the inline chunks of `tasks`.
    pub hierarchy: Hierarchy,
    /// Chunks to make before the hierarchy is emitted.
    pub tasks: Vec<InlineTask>,
    /// Decisions and diagnostics.
    pub report: Report,
    /// Names of the arrays that only describe the image in the same group, such as its coordinates.
    pub companions: &'static [&'static str],
}

/// The reason for leaving an array out.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Omitted {
    /// Stable code of the diagnostic.
    pub code: Code,
    /// Message of the diagnostic.
    pub message: String,
    /// Reason for the report of the array.
    pub reason: String,
    /// What the user can do.
    pub remedy: Option<Remedy>,
    /// Whether the array's companions ([`Mapped::companions`]) are omitted with it.
    pub with_companions: bool,
}

impl Omitted {
    /// Returns the reason for leaving out an image and its companions.
    pub(crate) fn image(code: Code, reason: String, remedy: Option<Remedy>) -> Self {
        let message = format!("omitted: {reason}");
        Self { code, message, reason, remedy, with_companions: true }
    }

    /// Returns the reason for leaving out an array with a chunk that could not be made.
    pub fn not_made(reason: String) -> Self {
        let message = format!("omitted: cannot create a chunk that must be inlined: {reason}");
        Self { code: Code::InlineFailed, message, reason, remedy: None, with_companions: true }
    }
}

impl Mapped {
    /// Returns an empty hierarchy.
    pub(crate) fn new(format: ZarrFormat, companions: &'static [&'static str]) -> Self {
        let hierarchy = Hierarchy::new(format);
        Self { hierarchy, tasks: Vec::new(), report: Report::default(), companions }
    }

    /// Reports a spent budget, and does what the options request for all arrays alike.
    pub(crate) fn finish(&mut self, options: &MapOptions, budget: &Budget<'_>) {
        report(budget, self);
        if options.unpack && options.format == ZarrFormat::V2 {
            self.report.diagnostics.push(needs_v3());
        }
        if options.missing_value_convention {
            declare(self);
        }
        const NAMES: usize = 5;
        let diagnostics = std::mem::take(&mut self.report.diagnostics);
        let (widened, others): (Vec<_>, Vec<_>) =
            diagnostics.into_iter().partition(|diagnostic| diagnostic.code == Code::PackingWidened);
        self.report.diagnostics = others;
        let mut paths: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for diagnostic in widened {
            paths.entry(diagnostic.message).or_default().push(diagnostic.path);
        }
        let open_the_file = Remedy::advice("open the file itself with xarray and engine=\"virtualize\"");
        let unpack = Remedy::turn_on(OptionName::Unpack, "decode with the codecs of a Zarr v3 format");
        let remedy = if options.unpack { open_the_file } else { Remedy::AnyOf(vec![unpack, open_the_file]) };
        // Python's readers see the types of the file.
        let severity = if options.source_attributes { Severity::Info } else { Severity::Warning };
        for (message, mut paths) in paths {
            let (path, message) = if paths.len() == 1 {
                (paths.swap_remove(0), message)
            } else {
                let names: Vec<_> = paths.iter().take(NAMES).map(String::as_str).collect();
                let more = if paths.len() > NAMES { ", …" } else { "" };
                ("/".to_owned(), format!("{message} ({} arrays: {}{more})", paths.len(), names.join(", ")))
            };
            let (code, remedy) = (Code::PackingWidened, Some(remedy.clone()));
            self.report.diagnostics.push(Diagnostic { severity, code, path, message, remedy });
        }
    }

    /// Removes arrays with their tasks, and reports why.
    pub fn omit(&mut self, arrays: impl IntoIterator<Item = (NodePath, Omitted)>) {
        let mut removed = BTreeSet::new();
        for (path, why) in arrays {
            self.remove(&path);
            if why.with_companions {
                for name in self.companions {
                    self.remove(&node::join(node::parent(&path), name));
                }
            }
            self.warn(&path, why.code, why.message, why.remedy);
            self.report.arrays.entry(path.clone()).or_default().omitted = Some(why.reason);
            removed.insert(path);
        }
        if !removed.is_empty() {
            self.tasks.retain(|task| !removed.contains(&task.array));
        }
    }

    /// Replaces every source but the first with the version found, and leaves out the arrays whose data are not in it:
    /// the file cannot be opened, for the reason given, or it ends before them. `versions` are in the order of the
    /// sources.
    pub fn record_versions(&mut self, versions: Vec<Result<Source, String>>) {
        let mut refused = BTreeMap::new();
        let sources = self.hierarchy.sources.iter_mut().enumerate().skip(1);
        for ((at, source), version) in sources.zip(versions) {
            match version {
                Ok(version) => *source = version,
                Err(why) => drop(refused.insert(at, format!("its data are in another file: {why}"))),
            }
        }
        let sizes: Vec<u64> = self.hierarchy.sources.iter().map(|source| source.size).collect();
        let of_tasks = self.tasks.iter().filter_map(|task| {
            let why = task.content.sources().find_map(|source| refused.get(&source.index()))?;
            Some((task.array.clone(), why.clone()))
        });
        let outside = |column: &References| {
            let at = column.source.index();
            if at == 0 || refused.contains_key(&at) {
                return refused.get(&at).cloned();
            }
            let size = sizes.get(at).copied().unwrap_or(0);
            let end =
                column.iter().map(|(_, part)| part.offset.saturating_add(part.length)).max().unwrap_or(0);
            (end > size)
                .then(|| format!("its data end at {end:#x} of another file, which has {size:#x} bytes"))
        };
        let of_arrays = self.hierarchy.arrays().into_iter();
        let of_arrays = of_arrays
            .filter_map(|(path, array)| Some((path, array.chunks.references.iter().find_map(outside)?)));
        let reasons: BTreeMap<_, _> = of_tasks.chain(of_arrays).collect();
        let code = Code::ArrayOmitted;
        self.omit(reasons.into_iter().map(|(path, reason)| {
            let message = format!("array omitted: {reason}");
            (path, Omitted { code, message, reason, remedy: None, with_companions: false })
        }));
    }

    pub(crate) fn warn(&mut self, path: &str, code: Code, message: String, remedy: Option<Remedy>) {
        self.report.diagnostics.push(Diagnostic::warning(code, path, message).with(remedy));
    }

    fn remove(&mut self, path: &str) {
        let (parent, name) = node::split(path);
        if let Some(group) = self.hierarchy.root.group_mut(parent) {
            group.children.remove(name);
        }
    }
}

/// Refuses an array whose metadata the Zarr format cannot express.
pub(crate) fn check_metadata(array: &Array, format: ZarrFormat) -> crate::Result<()> {
    match format {
        ZarrFormat::V2 => array.to_zarray()?,
        ZarrFormat::V3 => array.to_zarr_json("")?,
    };
    Ok(())
}

/// Bytes of memory for a chunk in a manifest: position, offset and length.
const CHUNK: u64 = 20;

/// Bytes of inlined chunks that are decoded for each byte taken from the budget.
const DECODED: u64 = 16;

/// Returns the memory for `chunks` references of the array at `path`. Their keys repeat the path.
pub(crate) fn chunk_bytes(chunks: u64, path: &str) -> u64 {
    chunks.saturating_mul(CHUNK.saturating_add(path.len() as u64 / 4))
}

/// Returns the memory for `tasks` of the array at `path`, which consist of `pieces` in all and decode to `decoded` bytes.
pub(crate) fn task_bytes(tasks: u64, pieces: u64, decoded: u64, path: &str) -> u64 {
    let tasks = tasks.saturating_mul((size_of::<InlineTask>() as u64).saturating_add(path.len() as u64));
    let pieces = pieces.saturating_mul(size_of::<Piece>() as u64);
    tasks.saturating_add(pieces).saturating_add(decoded / DECODED)
}

/// Reports an error, which refuses the file, if the budget is spent.
pub(crate) fn report(budget: &Budget<'_>, mapped: &mut Mapped) {
    let Some(refused) = budget.refused() else { return };
    mapped.report.diagnostics.push(Diagnostic::error(Code::TooLarge, "", refused.to_string()));
}

/// Returns the name of a node for a name in a file. zarr-python treats a backslash as a slash, so in a name that contains
/// one, `%` is escaped as `%25` and the backslash as `%5C`, reversibly.
pub(crate) fn shown_name(name: &str) -> Cow<'_, str> {
    if name.contains('\\') { name.replace('%', "%25").replace('\\', "%5C").into() } else { name.into() }
}

/// Refuses names that no Zarr node can have.
pub(crate) fn check_name(name: &str) -> Result<()> {
    let reserved = ["zarr.json", ".zarray", ".zgroup", ".zattrs", ".zmetadata"];
    let problem = match name {
        "" | "." | ".." => "is not a name of a Zarr node",
        _ if reserved.contains(&name) => "is the key of Zarr metadata",
        _ if name.contains(['/', '\0']) => "contains a separator",
        _ => return Ok(()),
    };
    Err(Error::name(name, problem))
}

/// Another file that a file names; `F` is its metadata.
#[derive(Clone, Debug)]
pub enum OtherFile<F> {
    /// Its metadata was read.
    Read(Box<F>, Source),
    /// It does not exist.
    Missing,
    /// It is not allowed, or could not be read; the reason.
    Refused(String),
}

/// Returns the url of a file that the file at `own` names.
///
/// Relative names start in the folder of `own`, as libhdf5 and OME resolve them; absolute ones are paths of the local
/// file system.
pub(crate) fn resolve_relative(own: &str, name: &str) -> String {
    let folder = own.rsplit_once('/').map_or("", |(folder, _)| folder);
    match name.strip_prefix('/') {
        Some(absolute) => format!("file:///{absolute}"),
        None => format!("{folder}/{}", name.strip_prefix("./").unwrap_or(name)),
    }
}

/// Adds the attribute `missing_value` of the Zarr convention, and the entry in `zarr_conventions`, to all arrays that have a
/// sentinel, unless CF's attribute of the same name has another value.
pub(crate) fn declare(mapped: &mut Mapped) {
    const NAME: &str = "missing_value";
    const REPOSITORY: &str = "zarr-conventions/missing_value";
    let entry = json!({
        "schema_url": format!("https://raw.githubusercontent.com/{REPOSITORY}/refs/heads/main/schema.json"),
        "spec_url": format!("https://github.com/{REPOSITORY}/blob/main/README.md"),
        "name": NAME,
        "description": "Sentinel of missing values",
    });
    let format = mapped.hierarchy.format;
    for (path, report) in &mapped.report.arrays {
        let sentinel = report.fill.as_ref().and_then(|fill| fill.sentinel.as_ref());
        let (Some(sentinel), Some(array)) = (sentinel, mapped.hierarchy.array_mut(path)) else { continue };
        if !array.data_type.is_integer() && !array.data_type.is_float() {
            continue;
        }
        let Ok(value) = sentinel.to_json(&array.data_type, format) else { continue };
        if let Some(cf) = array.attributes.get(NAME).filter(|cf| !same(cf, &value)) {
            let message = format!(
                "the attribute missing_value stays {cf}, as CF defines it; the Zarr convention requires {value}"
            );
            let warning = Diagnostic::warning(Code::MissingValueConvention, path, message);
            mapped.report.diagnostics.push(warning);
            continue;
        }
        array.attributes.insert(NAME.into(), value);
        let conventions = array.attributes.entry("zarr_conventions").or_insert_with(|| json!([]));
        if let Value::Array(conventions) = conventions
            && !conventions.contains(&entry)
        {
            conventions.push(entry.clone());
        }
    }
}

#[cfg(test)]
mod budget_tests {
    use super::*;

    #[test]
    fn references_and_tasks_need_memory() {
        let long = "p".repeat(400);
        let chunk = chunk_bytes(1000, &long) / 1000;
        assert!((100..=420).contains(&chunk), "{chunk} bytes for a chunk whose key has 400 bytes");
        let (task, piece) = (size_of::<InlineTask>() as u64, size_of::<Piece>() as u64);
        assert_eq!(task_bytes(2, 3, 0, &long), 2 * (task + 400) + 3 * piece);
        assert_eq!(task_bytes(0, 0, 1600, ""), 100, "a sixteenth of what is decoded");
    }
}

#[cfg(test)]
mod node_names_tests {
    use super::check_name;
    use super::shown_name;

    #[test]
    fn backslashes_are_escaped_reversibly() {
        assert_eq!(shown_name("a\\b 5%"), "a%5Cb 5%25");
        assert_eq!(shown_name("100%"), "100%", "names without a backslash stay");
        assert!(check_name("a/b").is_err() && check_name(&shown_name("\\")).is_ok());
    }
}

/// Returns whether both encodings represent the same number.
fn same(cf: &Value, zarr: &Value) -> bool {
    let is_integer = |value: &Value| value.is_i64() || value.is_u64();
    let both = is_integer(cf) && is_integer(zarr);
    cf == zarr || !both && cf.is_number() && cf.as_f64() == zarr.as_f64()
}

#[cfg(test)]
mod convention_tests {
    use virtualize_zarr::ChunkGrid;
    use virtualize_zarr::ChunkManifest;
    use virtualize_zarr::DataType;
    use virtualize_zarr::FillValue;
    use virtualize_zarr::Node;

    use super::*;

    #[test]
    fn encodings_of_one_number_are_the_same() {
        for (cf, zarr, expected) in [
            (json!(-9), json!(-9), true),
            (json!(-9), json!(9), false),
            (json!(5), json!(5.0), true),
            (json!(5), json!(5.5), false),
            (json!("NaN"), json!("NaN"), true),
            (json!("NaN"), json!("Infinity"), false),
            (json!([5]), json!(5), false),
            (json!([5]), json!([6]), false),
            // Integers that one float is nearest to.
            (json!(u64::MAX), json!(u64::MAX - 1), false),
            (json!(i64::MIN), json!(i64::MIN + 1), false),
        ] {
            assert_eq!(same(&cf, &zarr), expected, "{cf} {zarr}");
        }
    }

    #[test]
    fn a_convention_is_declared_once() {
        let array = Array {
            shape: vec![6],
            data_type: DataType::Int16,
            chunk_grid: ChunkGrid::Regular(vec![6]),
            fill_value: None,
            codecs: Vec::new(),
            attributes: serde_json::Map::new(),
            dimension_names: vec![None],
            chunks: ChunkManifest::default(),
        };
        let mut mapped = Mapped::new(ZarrFormat::V3, &[]);
        mapped.hierarchy.root.children.insert("v".to_owned(), Node::Array(Box::new(array)));
        let sentinel = Some(FillValue::Fixed(bytes::Bytes::from_static(&[7, 0])));
        let policy = crate::FillPolicy("test");
        let fill = crate::FillDecision { policy, sources: Vec::new(), fill_value: None, sentinel };
        let report = crate::ArrayReport { fill: Some(fill), ..Default::default() };
        mapped.report.arrays.insert("v".to_owned(), report);
        for _ in 0..2 {
            declare(&mut mapped);
            let attributes = &mapped.hierarchy.array("v").unwrap().attributes;
            assert_eq!(attributes["missing_value"], json!(7));
            assert_eq!(attributes["zarr_conventions"].as_array().map(Vec::len), Some(1));
            assert_eq!(attributes["zarr_conventions"][0]["name"], "missing_value");
        }
        assert_eq!(mapped.report.diagnostics, []);
    }
}
