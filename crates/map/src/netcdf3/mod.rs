//! Mapping of NetCDF classic files: one group, whose arrays are the variables.

mod attributes;
mod chunks;
mod dimensions;
mod fill;
mod types;
mod variable;

#[cfg(test)]
mod tests;
#[cfg(test)]
mod tests_of_edges;

use std::collections::{BTreeMap, BTreeSet};

use virtualize_bytes::{Budget, Limits};
use virtualize_netcdf3::model::{DataType, File, Variable};
use virtualize_remedy::Code;
use virtualize_zarr::{Node, Source};

use self::attributes::{attributes_json, source_attributes};
use self::types::text;
use crate::node_names::{check_name, shown_name};
use crate::unpack::is_time_unit;
use crate::{Diagnostic, MapOptions, Mapped, Severity};

/// Bytes of memory for an array, without names, attributes and chunks.
const NODE: u64 = 1 << 10;

/// Maps a file to Zarr. `source` describes the file itself.
///
/// No bytes are read: [`Mapped::tasks`] lists what has to be fetched. Variables that cannot be mapped exactly are left out,
/// with a diagnostic. Takes memory for the result from `budget`; if that is spent, the report has an error.
pub fn map_file_within(file: &File, source: Source, options: &MapOptions, budget: &Budget<'_>) -> Mapped {
    let mapper = Mapper {
        file,
        file_size: source.size,
        options,
        budget,
        time_bounds: if options.unpack { time_bounds(file) } else { BTreeSet::new() },
        dimension_names: Vec::new(),
        small_records: chunks::small_records(file),
        mapped: Mapped::new(options.format, &[]),
    };
    let mut mapped = mapper.run();
    mapped.hierarchy.sources.push(source);
    mapped.finish(options, budget);
    mapped
}

/// Maps a file with a budget of its own.
pub fn map_file(file: &File, source: Source, options: &MapOptions) -> Mapped {
    let budget = Budget::of_file(&Limits::default(), source.size);
    map_file_within(file, source, options, &budget)
}

/// The mapping in progress.
struct Mapper<'a> {
    file: &'a File,
    /// Size of the file in bytes.
    file_size: u64,
    options: &'a MapOptions,
    budget: &'a Budget<'a>,
    /// Names of variables that hold the bounds of times.
    time_bounds: BTreeSet<String>,
    /// Names of the dimensions by id.
    dimension_names: Vec<String>,
    /// Start of the record section if small records are inlined.
    small_records: Option<u64>,
    mapped: Mapped,
}

impl Mapper<'_> {
    fn run(mut self) -> Mapped {
        self.dimension_names = self.name_dimensions();
        self.global_attributes();
        self.note_records();
        let variables = &self.file.variables;
        let names: Vec<_> = variables.iter().map(|variable| shown_name(&variable.name)).collect();
        let last: BTreeMap<&str, usize> =
            names.iter().enumerate().map(|(at, name)| (name.as_ref(), at)).collect();
        for (at, (variable, name)) in variables.iter().zip(&names).enumerate() {
            let bytes = NODE.saturating_add((variable.name.len() as u64).saturating_mul(4));
            if self.budget.take("arrays", bytes).is_err() {
                break;
            }
            if last.get(name.as_ref()) == Some(&at) {
                self.add(name, variable);
            } else {
                // Like netCDF4-python, shows the last of several.
                let message = "two variables have this name; the last one is shown".to_owned();
                self.diagnose(Severity::Warning, Code::NameCollision, name, message);
            }
        }
        self.mapped
    }

    /// Adds the array of a variable to the hierarchy, unless it has to be left out.
    fn add(&mut self, name: &str, variable: &Variable) {
        if name != variable.name {
            let message = format!(
                "zarr-python treats a backslash as a slash: {:?} is shown as {name:?}",
                variable.name
            );
            self.diagnose(Severity::Warning, Code::NameChanged, name, message);
        }
        if let Err(error) = check_name(name) {
            return self.diagnose(Severity::Warning, Code::NodeLeftOut, name, error.to_string());
        }
        if let Some(array) = self.variable(name, variable) {
            let node = Node::Array(Box::new(array));
            self.mapped.hierarchy.root.children.insert(name.to_owned(), node);
        }
    }

    fn global_attributes(&mut self) {
        let (attributes, remarks) = attributes_json(&self.file.attributes, self.budget);
        self.mapped.hierarchy.root.attributes = attributes;
        for (code, message) in remarks {
            self.diagnose(Severity::Warning, code, "", message);
        }
        if self.options.source_attributes {
            let kept = source_attributes(&self.file.attributes, self.budget);
            self.mapped.report.attributes.insert(String::new(), kept);
        }
    }

    /// Reports a file that ends within a record, if its header does not state the number of records.
    fn note_records(&mut self) {
        let records = self.file.records;
        let first =
            self.file.variables.iter().filter(|variable| variable.is_record).map(|one| one.begin).min();
        let Some(begin) = first.filter(|_| records.is_streamed) else { return };
        let end = records.count.saturating_mul(records.stride).saturating_add(begin);
        if self.file_size > end {
            let message = format!(
                "the header states no number of records, and the file ends within record {}, which is left out",
                records.count
            );
            self.diagnose(Severity::Warning, Code::FileTruncated, "", message);
        }
    }

    /// Adds a diagnostic. `path` has no leading slash.
    fn diagnose(&mut self, severity: Severity, code: Code, path: &str, message: String) {
        let diagnostic = Diagnostic { severity, code, path: format!("/{path}"), message, remedy: None };
        self.mapped.report.diagnostics.push(diagnostic);
    }
}

/// Returns the names of the variables that hold the bounds of times. xarray decodes them with the units of the times.
fn time_bounds(file: &File) -> BTreeSet<String> {
    let bounds = file.variables.iter().filter_map(|variable| {
        text_of(variable, "units").filter(|units| is_time_unit(units))?;
        text_of(variable, "bounds")
    });
    bounds.collect()
}

fn text_of(variable: &Variable, name: &str) -> Option<String> {
    let found = variable.attributes.iter().find(|attribute| attribute.name == name)?;
    (found.data_type == DataType::Char).then(|| text(&found.values))
}
