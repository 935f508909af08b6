//! Existing references: `validate`, `diff` and `convert`.

use clap::{Arg, Args};
use pyo3::prelude::*;
use serde::Deserialize;
use serde_json::{Value, json};
use virtualize::{
    ChunkDifference, Error, NodeDifference, Sample, StoreOptions, VirtualStore,
    options::{IcechunkOptions, OutputFormat, WriteOptions, given::declared},
    read_references,
};
use virtualize_cli::Reading;

use crate::{
    error,
    options::{exclusive, location_of, parse},
    runtime,
};

/// Options of `validate`.
#[derive(Args, Default, Deserialize)]
#[serde(default)]
struct OfValidate {
    #[arg(long)]
    sample: Option<u64>,
    #[arg(long)]
    full: bool,
    #[command(flatten)]
    #[serde(flatten)]
    reading: Reading,
}

/// Options of `diff`.
#[derive(Args, Default, Deserialize)]
#[serde(default)]
struct OfDiff {
    #[arg(long)]
    ignore_urls: bool,
    #[command(flatten)]
    #[serde(flatten)]
    reading: Reading,
}

/// Options of `convert`.
#[derive(Args, Default, Deserialize)]
#[serde(default)]
struct OfConvert {
    #[arg(long, value_enum)]
    format: Option<OutputFormat>,
    #[arg(long)]
    strict: bool,
    #[command(flatten)]
    #[serde(flatten)]
    write: WriteTo,
    #[command(flatten)]
    #[serde(flatten)]
    reading: Reading,
}

/// How and where references are written.
#[derive(Args, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct WriteTo {
    #[command(flatten)]
    #[serde(flatten)]
    pub(crate) write: WriteOptions,
    #[command(flatten)]
    #[serde(flatten)]
    pub(crate) icechunk: IcechunkOptions,
}

impl WriteTo {
    /// Writes references, or commits them to an Icechunk repository. Returns the id of the snapshot of a commit.
    pub(crate) async fn run(
        &self,
        store: &mut VirtualStore,
        format: OutputFormat,
        target: &str,
        options: &StoreOptions,
    ) -> Result<Option<String>, Error> {
        store.relocate(&self.write.relocation(Some(target)))?;
        match format {
            OutputFormat::References(format) => {
                let (format, overwrite) = (self.write.format(format), self.write.overwrite);
                virtualize::write_folder(store, format, target, overwrite, options).await?;
                Ok(None)
            }
            OutputFormat::Icechunk => {
                let commit = self.icechunk.options(store.name());
                Ok(Some(virtualize::commit(store, target, &commit, options).await?.snapshot))
            }
        }
    }
}

/// Returns the options of `validate`, `diff` and `convert`.
pub(crate) fn options() -> Vec<Arg> {
    [declared::<OfValidate>(), declared::<OfDiff>(), declared::<OfConvert>()].concat()
}

/// Validates references. Returns JSON with the report and its text.
#[pyfunction]
pub(crate) fn validate<'py>(
    py: Python<'py>,
    #[pyo3(from_py_with = location_of)] references: String,
    options: &str,
    wait: bool,
) -> PyResult<Bound<'py, PyAny>> {
    let options: OfValidate = parse(options)?;
    exclusive(("full", options.full), ("sample", options.sample.is_some()))?;
    let sample = if options.full { Sample::Full } else { Sample::Chunks(options.sample.unwrap_or(4)) };
    runtime::run(py, wait, async move {
        let options = options.reading.options();
        let done = async {
            let store = read_references(&references, &options).await?;
            Ok((virtualize::validate(&store, sample, &options).await?, warnings(&store)))
        };
        let (report, warnings) = done.await.map_err(|error: Error| error::of(&error))?;
        Ok(json!({"report": report.to_json(), "table": report.to_string(), "warnings": warnings}).to_string())
    })
}

/// Compares two reference sets or files. Returns JSON with the differences.
#[pyfunction]
pub(crate) fn diff<'py>(
    py: Python<'py>,
    #[pyo3(from_py_with = location_of)] first: String,
    #[pyo3(from_py_with = location_of)] second: String,
    options: &str,
    wait: bool,
) -> PyResult<Bound<'py, PyAny>> {
    let options: OfDiff = parse(options)?;
    runtime::run(py, wait, async move {
        let reading = options.reading.options();
        let found = virtualize::compare(&first, &second, !options.ignore_urls, &reading).await;
        let found = found.map_err(|error| error::of(&error))?;
        Ok(found.nodes.iter().map(difference).collect::<Value>().to_string())
    })
}

/// Rewrites references. Returns JSON with the warnings and the id of the snapshot of a commit.
#[pyfunction]
pub(crate) fn convert<'py>(
    py: Python<'py>,
    #[pyo3(from_py_with = location_of)] references: String,
    #[pyo3(from_py_with = location_of)] output: String,
    options: &str,
    wait: bool,
) -> PyResult<Bound<'py, PyAny>> {
    let options: OfConvert = parse(options)?;
    let format = options.format.or_else(|| OutputFormat::of_name(&output)).unwrap_or_default();
    let WriteTo { write, icechunk } = &options.write;
    exclusive(("relative", write.relative), ("rewrite_url", !write.rewrite_url.is_empty()))?;
    exclusive(("relative", write.relative), ("format=\"icechunk\"", format == OutputFormat::Icechunk))?;
    icechunk.check(format == OutputFormat::Icechunk).map_err(error::option)?;
    runtime::run(py, wait, async move {
        let reading = options.reading.options();
        let done = async {
            let read = read_references(&references, &reading).await?;
            let mut store =
                virtualize::convert(read, format.zarr_format(), options.strict, &reading.store).await?;
            if format == OutputFormat::Icechunk {
                virtualize::record_sources(&mut store, &reading.store).await?;
            }
            let snapshot = options.write.run(&mut store, format, &output, &reading.store).await?;
            Ok(json!({"snapshot": snapshot, "warnings": warnings(&store)}).to_string())
        };
        done.await.map_err(|error: Error| error::of(&error))
    })
}

/// Returns the warnings of a store as JSON.
fn warnings(store: &VirtualStore) -> Value {
    let one = |warning: &virtualize::Diagnostic| {
        let remedy = warning.remedy.as_ref().and_then(|remedy| remedy.render(error::KEYWORDS));
        json!({"name": store.name(), "code": warning.code, "path": warning.path, "message": warning.message,
            "remedy": remedy})
    };
    store.warnings().map(one).collect()
}

/// Returns a difference as JSON: where, what, both sides, and its text.
fn difference(node: &NodeDifference) -> Value {
    let (path, what, first, second, count) = match node {
        NodeDifference::OnlyIn { path, first } => (path, "existence", json!(first), json!(!first), None),
        NodeDifference::Unread { path, first: true, reason } => {
            (path, "unread", json!(reason), Value::Null, None)
        }
        NodeDifference::Unread { path, first: false, reason } => {
            (path, "unread", Value::Null, json!(reason), None)
        }
        NodeDifference::Kind { path } => (path, "kind", Value::Null, Value::Null, None),
        NodeDifference::Member { path, member, first, second } => {
            (path, member.as_str(), json!(first), json!(second), None)
        }
        NodeDifference::Chunks { path, count, examples } => {
            let places = |side: fn(&ChunkDifference) -> &String| -> Value {
                let one =
                    |example: &ChunkDifference| json!({"indices": example.indices, "place": side(example)});
                examples.iter().map(one).collect()
            };
            (path, "chunks", places(|one| &one.first), places(|one| &one.second), Some(count))
        }
    };
    let (path, text) = (format!("/{path}"), node.to_string());
    json!({"path": path, "what": what, "first": first, "second": second, "count": count, "text": text})
}
