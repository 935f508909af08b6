//! Finds options with which refused files can be joined, by trying them on the plan.

use std::collections::{BTreeMap, BTreeSet};

use virtualize::{
    OptionName, Remedy, netcdf_default_fill,
    segments::number_type,
    zarr::{DataType, node},
};

use super::{Files, Known, OnDuplicate, OnMismatch, Plan, PlanOptions, Signatures, plan};
use crate::{
    Along, ArrayRule, Layout, NamePattern,
    compat::{ArraySignature, Difference, MAX_KEPT, Signature, differences},
    error::{CombineError, files as count_files},
    values::index,
};

/// Maximum number of options that are tried one after the other.
const MAX_TRIALS: usize = 64;

/// Options with which all files can be combined. `scan` prints them as a command; an error offers them as a [`Remedy`].
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Proposal {
    /// The options, each with its value; `None` for a switch.
    pub options: Vec<(OptionName, Option<String>)>,
    /// What they omit or hide; empty if all data of all files remain.
    pub losses: Vec<String>,
    /// Number of groups that are segments of one dataset; 0 for a single group.
    pub segments: usize,
    /// Arrays whose elements are converted to another type, and the name of that type.
    pub conversions: Vec<(String, String)>,
}

impl Proposal {
    /// Adds what a plan says of the dataset.
    pub(crate) fn with(mut self, plan: &Plan) -> Self {
        if !plan.segments.is_empty() {
            self.segments = plan.sets.len();
            let conversions = plan.conversions.iter();
            self.conversions =
                conversions.map(|(path, data_type)| (path.clone(), data_type.to_string())).collect();
        }
        self
    }

    /// Returns what the options do, as the heading of a command.
    pub fn heading(&self) -> String {
        let splits = self.options.iter().any(|(option, _)| *option == OptionName::OnMismatch);
        match self.losses.as_slice() {
            [] if self.segments > 0 => {
                let mut text =
                    format!("to combine all files, as {} groups that are read as one dataset", self.segments);
                for (path, data_type) in &self.conversions {
                    text += &format!("; {path} becomes {data_type}");
                }
                text
            }
            _ if splits => "to write a group for each set of compatible files".to_owned(),
            [] => "to combine all files".to_owned(),
            losses => format!("to combine all files, {}", losses.join(" and ")),
        }
    }

    /// Returns the remedy that offers these options for `files` files, of which `tried` were tried.
    fn remedy(self, are_joined: bool, files: usize, tried: usize) -> Remedy {
        let count = count_files(tried as u64);
        let files = if tried < files { format!("the first {count}") } else { format!("all {count}") };
        let effect = match self.losses.as_slice() {
            [] if !are_joined => "write a group for each set of compatible files".to_owned(),
            [] => format!("join {files}"),
            losses => format!("join {files}, {}", losses.join(" and ")),
        };
        Remedy::Together { options: self.options, effect: effect.into() }
    }
}

/// Files that were refused.
pub(crate) struct Refused<'a> {
    pub(crate) files: &'a Files,
    pub(crate) known: &'a Known<'a>,
    pub(crate) layout: &'a Layout,
    pub(crate) options: &'a PlanOptions,
    /// Whether other options need a new journal.
    pub(crate) is_written: bool,
}

impl Refused<'_> {
    /// Returns the best options that write all files: those that keep all data, or else a group for each set of compatible
    /// files, or else options that omit the least.
    pub(crate) fn best(&self, error: &CombineError) -> Option<Proposal> {
        self.lossless(error).map(|(proposal, _)| proposal).or_else(|| self.joined(error, true).ok())
    }

    /// Returns options that keep all data, and whether they join all files: if not, they write groups.
    fn lossless(&self, error: &CombineError) -> Option<(Proposal, bool)> {
        let (mut proposal, layout) = match self.joined(error, false) {
            Ok(proposal) => return Some((proposal, true)),
            Err(partial) => *partial,
        };
        let split = PlanOptions { on_mismatch: OnMismatch::Split, ..self.options.clone() };
        let (files, signatures) = self.relaxed(self.files, &layout);
        plan(files, &self.known.with(signatures), &layout, &split).ok()?;
        proposal.options.insert(0, (OptionName::OnMismatch, Some("split".to_owned())));
        Some((proposal, false))
    }

    /// Returns the remedies, best first: options that keep all data, a group for each set of compatible files, and options
    /// that omit data, which say so.
    pub(crate) fn remedies(&self, error: &CombineError) -> Vec<Remedy> {
        let (count, tried) = (self.files.len(), self.relaxed(self.files, self.layout).0.len());
        let mut all = Vec::new();
        let lossless = self.lossless(error);
        let are_joined = lossless.as_ref().is_some_and(|(_, are_joined)| *are_joined);
        all.extend(lossless.map(|(proposal, are_joined)| proposal.remedy(are_joined, count, tried)));
        if let CombineError::Sets { sets } = error {
            if !are_joined && let Ok(proposal) = self.joined(error, true) {
                all.push(proposal.remedy(true, count, tried));
            }
            let largest = sets.iter().map(|(files, _)| *files).max().unwrap_or(0);
            let omitted = count_files((count as u64).saturating_sub(largest));
            let effect = format!("keep the largest such set, which omits {omitted}");
            all.push(Remedy::set(OptionName::OnMismatch, "skip", effect));
        } else {
            all.extend(self.without_duplicates());
        }
        all
    }

    /// Returns options that join all files, with `lossy` also those that omit data. If there are none, returns those that bring
    /// files together, and the layout with them.
    fn joined(&self, error: &CombineError, lossy: bool) -> Result<Proposal, Box<(Proposal, Layout)>> {
        let mut proposal = Proposal::default();
        let mut layout = self.layout.clone();
        let mut files = self.files.clone();
        let mut error = error.clone();
        for _ in 0..MAX_TRIALS {
            match &error {
                CombineError::Sets { sets } => {
                    let (rules, limit) = self.rules(&files, &layout, sets.len(), lossy);
                    if rules.is_empty() && limit <= layout.inline_limit {
                        break;
                    }
                    if limit > layout.inline_limit {
                        layout.inline_limit = limit;
                        proposal.options.retain(|(option, _)| *option != OptionName::CopyLimit);
                        proposal.options.push((OptionName::CopyLimit, Some(format!("{}K", limit >> 10))));
                    }
                    for (path, rule, loss) in rules {
                        layout.treat(&path, &rule);
                        proposal.options.push((OptionName::Var, Some(format!("{path}={rule}"))));
                        proposal.losses.extend(loss);
                    }
                }
                CombineError::Subject { .. } if layout.names.is_empty() => {
                    let Some((dimension, pattern, placed)) = self.by_name(&files) else { break };
                    files = placed;
                    proposal.options.push((OptionName::Coord, Some(format!("{dimension}=name:{pattern}"))));
                    layout.names.push(pattern);
                }
                _ => break,
            }
            let (relaxed, signatures) = self.relaxed(&files, &layout);
            match plan(relaxed, &self.known.with(signatures), &layout, self.options) {
                Ok(plan) => {
                    let mut proposal = proposal.with(&plan);
                    proposal.options.extend(self.is_written.then_some((OptionName::Restart, None)));
                    return Ok(proposal);
                }
                Err(other) => error = other,
            }
        }
        Err(Box::new((proposal, layout)))
    }

    /// Returns the files whose signatures are known, and these signatures, with the rules of a layout.
    fn relaxed(&self, files: &Files, layout: &Layout) -> (Files, Signatures) {
        let (mut relaxed, mut signatures) = (Files::default(), Signatures::new());
        let lengths = self.lengths(files);
        let mut kinds = Vec::with_capacity(files.kinds().len());
        for kind in files.kinds() {
            kinds.push(self.known.signatures.get(&kind.storage).map(|signature| {
                let signature = signature.relaxed(layout, &lengths);
                let storage = signature.storage_digest();
                let kind = relaxed.kind(&storage, || signature.digest());
                signatures.entry(storage).or_insert(signature);
                kind
            }));
        }
        for file in files.numbers() {
            let kind = kinds.get(index(files.kind_of(file))).copied().flatten();
            if let (Some(kind), Some(extent)) = (kind, files.extent(file)) {
                relaxed.push(kind, extent.clone());
            }
        }
        (relaxed, signatures)
    }

    /// Returns the elements of the longest file along each dimension.
    fn lengths(&self, files: &Files) -> Vec<u64> {
        let length =
            |dimension| files.numbers().filter_map(|file| Some(files.extent(file)?.size(dimension))).max();
        (0..self.layout.along.len()).map(|dimension| length(dimension).unwrap_or(0)).collect()
    }

    /// Returns rules for arrays that differ between sets of compatible files, with what each omits or hides, and the size up to
    /// which arrays have to be copied.
    fn rules(
        &self,
        files: &Files,
        layout: &Layout,
        sets: usize,
        lossy: bool,
    ) -> (Vec<(String, ArrayRule, Option<String>)>, u64) {
        let (lengths, mut limit) = (self.lengths(files), 0);
        let signatures: Vec<Signature> = files
            .kinds()
            .iter()
            .filter_map(|kind| Some(self.known.signatures.get(&kind.storage)?.relaxed(layout, &lengths)))
            .collect();
        let Some(first) = signatures.first() else { return (Vec::new(), 0) };
        let mut all: BTreeMap<String, (ArrayRule, Option<String>)> = BTreeMap::new();
        let mut seen = BTreeSet::new();
        for other in signatures.iter().skip(1).filter(|other| seen.insert(other.storage_digest())) {
            for Difference { path, what, .. } in differences(first, other) {
                let arrays =
                    [first, other].map(|one| one.arrays.get(&path).or_else(|| one.optional.get(&path)));
                let Some(array) = arrays.into_iter().flatten().next() else { continue };
                let copied = [first, other].map(|one| one.stored.get(&path)?.bytes(&lengths));
                let bytes =
                    copied.into_iter().collect::<Option<Vec<_>>>().and_then(|sizes| sizes.into_iter().max());
                let is_small = |bytes: &u64| bytes.saturating_mul(files.len() as u64) <= MAX_KEPT;
                let bytes = bytes.filter(|bytes| *bytes > layout.inline_limit && is_small(bytes));
                let rule = match what.as_str() {
                    "chunk shape" | "codecs" | "byte order" if bytes.is_some() => {
                        limit = limit.max(bytes.unwrap_or(0).next_multiple_of(1 << 10));
                        None
                    }
                    // Other types have no value that marks gaps.
                    "array" if number_type(&array.data_type).is_some() => match default_fill(array) {
                        None => Some((ArrayRule::Optional(None), None)),
                        Some(fill) if lossy => {
                            let loss = format!("reading {fill} as missing in {path}");
                            Some((ArrayRule::Optional(Some(fill)), Some(loss)))
                        }
                        Some(_) => None,
                    },
                    "values" if self.may_vary(&path, array, files) => Some((ArrayRule::Vary, None)),
                    // Times along the dimension are converted to one unit.
                    "attribute units"
                        if arrays.iter().flatten().all(|one| one.values.is_some() && one.are_times())
                            && self.may_vary(&path, array, files) =>
                    {
                        Some((ArrayRule::Vary, None))
                    }
                    "values" if lossy => {
                        let loss = format!("keeping only the first file's values of {path}");
                        Some((ArrayRule::First, Some(loss)))
                    }
                    _ if lossy => Some((ArrayRule::Drop, Some(format!("without {path}")))),
                    _ => None,
                };
                match (rule, all.get(&path)) {
                    (Some(rule), None) => drop(all.insert(path, rule)),
                    // An array that is dropped needs no other rule.
                    (Some(rule @ (ArrayRule::Drop, _)), Some(_)) => drop(all.insert(path, rule)),
                    _ => {}
                }
            }
        }
        // If all arrays with the dimensions are dropped, nothing is left to be joined.
        let grows = |array: &ArraySignature| array.values.is_none();
        let dropped = |path: &String| matches!(all.get(path), Some((ArrayRule::Drop, _)));
        let has_data = first.arrays.iter().any(|(path, array)| grows(array) && !dropped(path));
        if sets < 2 || !has_data {
            return (Vec::new(), 0);
        }
        (all.into_iter().map(|(path, (rule, loss))| (path, rule, loss)).collect(), limit)
    }

    /// Returns whether an array that is compared can vary between the files: readers expect the coordinate of a dimension to
    /// have no other dimension, and its values are copied.
    fn may_vary(&self, path: &str, array: &ArraySignature, files: &Files) -> bool {
        let is_coordinate = matches!(array.dimensions.as_slice(), [Some(only)] if only == node::name(path));
        let elements = array.sizes.iter().try_fold(1, |all: u64, size| all.checked_mul((*size)?));
        let is_small =
            |elements: u64| elements.checked_mul(8 * files.len() as u64).is_some_and(|size| size <= MAX_KEPT);
        !is_coordinate && elements.is_some_and(is_small)
    }

    /// Orders the files by their names along the only dimension, instead of by their coordinates.
    fn by_name(&self, files: &Files) -> Option<(String, NamePattern, Files)> {
        let [along] = self.layout.along.as_slice() else { return None };
        let urls: Vec<String> = files.numbers().map(|file| (self.known.url)(file.into())).collect();
        let pattern = NamePattern::infer(along.name(), &urls)?;
        let mut placed = files.clone();
        for (file, url) in files.numbers().zip(&urls) {
            let given = pattern.given(url).ok()?;
            placed.set_extent(file, files.extent(file)?.placed_at(given.get(along.name())?)?);
        }
        Some((along.name().to_owned(), pattern, placed))
    }

    /// Returns the options that take each coordinate from one file, with the number of elements that they omit.
    fn without_duplicates(&self) -> Option<Remedy> {
        let options = PlanOptions { on_duplicate: OnDuplicate::First, ..self.options.clone() };
        if self.options.on_duplicate != OnDuplicate::Error {
            return None;
        }
        let known = self.known.with(self.known.signatures.clone());
        let planned = plan(self.files.clone(), &known, self.layout, &options).ok()?;
        let [set] = planned.sets.as_slice() else { return None };
        let ([along], [sizes]) = (self.layout.along.as_slice(), set.sizes.as_slice()) else { return None };
        let kept: u64 = sizes.iter().sum();
        let all: u64 = self.files.numbers().filter_map(|file| Some(self.files.extent(file)?.size(0))).sum();
        let what = match along {
            Along::Concat(name) => format!("{} of {all} elements along {name}", all.saturating_sub(kept)),
            Along::Stack(_) => format!("{} of {}", all.saturating_sub(kept), count_files(all)),
        };
        let effect = format!("keep each coordinate once, which omits {what}");
        Some(Remedy::set(OptionName::OnDuplicate, "first", effect.clone()).or(Remedy::set(
            OptionName::OnDuplicate,
            "last",
            "take it from the last file that has it",
        )))
    }
}

/// Returns the fill value that an optional array needs: NetCDF's default if it has none that means "missing".
fn default_fill(array: &ArraySignature) -> Option<serde_json::Value> {
    let data_type = number_type(&array.data_type).filter(DataType::is_integer)?;
    if !array.missing().1.is_empty() {
        return None;
    }
    let (_, fill) = netcdf_default_fill(&data_type)?;
    serde_json::from_str(&fill.to_i128(&data_type)?.to_string()).ok()
}
