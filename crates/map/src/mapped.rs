use std::collections::{BTreeMap, BTreeSet};

use virtualize_bytes::Budget;
use virtualize_remedy::{Code, OptionName, Remedy};
use virtualize_zarr::{Array, Hierarchy, NodePath, Source, SourceId, ZarrFormat, node};

use crate::{Diagnostic, InlineTask, MapOptions, Report, Severity, convention, unpack};

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
pub struct LeftOut {
    /// Stable code of the diagnostic.
    pub code: Code,
    /// Message of the diagnostic.
    pub message: String,
    /// Reason for the report of the array.
    pub reason: String,
    /// What the user can do.
    pub remedy: Option<Remedy>,
    /// Whether the array's companions ([`Mapped::companions`]) are left out with it.
    pub with_companions: bool,
}

impl LeftOut {
    /// Returns the reason for leaving out an image and its companions.
    pub(crate) fn image(code: Code, reason: String, remedy: Option<Remedy>) -> Self {
        let message = format!("left out: {reason}");
        Self { code, message, reason, remedy, with_companions: true }
    }

    /// Returns the reason for leaving out an array with a chunk that could not be made.
    pub fn not_made(reason: String) -> Self {
        let message = format!("left out: a chunk that has to be inlined cannot be made: {reason}");
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
        crate::budget::report(budget, self);
        if options.unpack && options.format == ZarrFormat::V2 {
            self.report.diagnostics.push(unpack::needs_v3());
        }
        if options.missing_value_convention {
            convention::declare(self);
        }
        self.join_widened(options);
    }

    /// Joins the diagnostics of arrays that readers decode to another type: one for all arrays with the same types.
    fn join_widened(&mut self, options: &MapOptions) {
        const NAMES: usize = 5;
        let diagnostics = std::mem::take(&mut self.report.diagnostics);
        let (widened, others): (Vec<_>, Vec<_>) =
            diagnostics.into_iter().partition(|diagnostic| diagnostic.code == Code::PackingWidened);
        self.report.diagnostics = others;
        let mut paths: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for diagnostic in widened {
            paths.entry(diagnostic.message).or_default().push(diagnostic.path);
        }
        let cure = Remedy::advice("open the file itself with xarray and engine=\"virtualize\"");
        let unpack = Remedy::turn_on(OptionName::Unpack, "decode with the codecs of a Zarr v3 format");
        let remedy = if options.unpack { cure } else { Remedy::AnyOf(vec![unpack, cure]) };
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
    pub fn leave_out(&mut self, arrays: impl IntoIterator<Item = (NodePath, LeftOut)>) {
        let mut removed = BTreeSet::new();
        for (path, why) in arrays {
            self.remove(&path);
            if why.with_companions {
                self.remove_companions(&path);
            }
            self.warn(&path, why.code, why.message, why.remedy);
            self.report.arrays.entry(path.clone()).or_default().left_out = Some(why.reason);
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
                Err(why) => drop(refused.insert(at, format!("its data lie in another file: {why}"))),
            }
        }
        let sizes: Vec<u64> = self.hierarchy.sources.iter().map(|source| source.size).collect();
        let of_tasks = self.tasks.iter().filter_map(|task| {
            let why = task.content.sources().find_map(|source| refused.get(&source.index()))?;
            Some((task.array.clone(), why.clone()))
        });
        let of_arrays = self.hierarchy.arrays();
        let of_arrays = of_arrays
            .into_iter()
            .filter_map(|(path, array)| Some((path, outside_of_sources(array, &sizes, &refused)?)));
        let reasons: BTreeMap<_, _> = of_tasks.chain(of_arrays).collect();
        let code = Code::ArrayLeftOut;
        self.leave_out(reasons.into_iter().map(|(path, reason)| {
            let message = format!("the array is left out: {reason}");
            (path, LeftOut { code, message, reason, remedy: None, with_companions: false })
        }));
    }

    pub(crate) fn warn(&mut self, path: &str, code: Code, message: String, remedy: Option<Remedy>) {
        let path = format!("/{path}");
        let severity = Severity::Warning;
        self.report.diagnostics.push(Diagnostic { severity, code, path, message, remedy });
    }

    fn remove_companions(&mut self, path: &str) {
        for name in self.companions {
            self.remove(&node::join(node::parent(path), name));
        }
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

/// Returns why references of an array to other files than the first cannot be read.
fn outside_of_sources(array: &Array, sizes: &[u64], refused: &BTreeMap<usize, String>) -> Option<String> {
    array.chunks.references.iter().filter(|column| column.source != SourceId(0)).find_map(|column| {
        let at = column.source.index();
        if let Some(why) = refused.get(&at) {
            return Some(why.clone());
        }
        let size = sizes.get(at).copied().unwrap_or(0);
        let end = column.iter().map(|(_, part)| part.offset.saturating_add(part.length)).max().unwrap_or(0);
        (end > size).then(|| format!("its data end at {end:#x} of another file, which has {size:#x} bytes"))
    })
}
