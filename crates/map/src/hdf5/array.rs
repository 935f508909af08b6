//! One dataset as one array.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::{Map, Value};
use virtualize_hdf5::model::{Attribute, Dataset, Dataspace, Datatype, Element, FillTime, Layout};
use virtualize_zarr::{Array, ChunkGrid, ChunkManifest, FillValue, SourceId, ZarrFormat};

use super::Mapper;
use super::attributes::{attributes_json, flags};
use super::cast::shown_type;
use super::chunked::can_encode;
use super::describe::{describe_filter, describe_layout, describe_type};
use super::dimensions::AxisDimension;
use super::fill::{FillPlan, FillQuestion, missing_value};
use super::header_fill::{HeaderFill, header_fill};
use super::layout::{ChunkPlan, ChunkPlanner, is_reference};
use super::padding::Padded;
use super::types::{ElementType, element_type, numpy_time};
use crate::sentinel::number_json;
use crate::{ArrayReport, ChunkContent, Error, InlineTask, Piece, Result, Severity};

/// Bytes of memory for a chunk of an array: its position, its place and its length.
const CHUNK: u64 = 20;

/// Bytes of memory for a member of a datatype, with its name in metadata and attributes.
const MEMBER: u64 = 1 << 10;

/// Bytes that are decoded for chunks that are put inline, to a byte of the budget.
const DECODED: u64 = 16;

impl Mapper<'_> {
    /// Maps a dataset; `None` where it is left out, which the report then says. `axes` are the dataset's own.
    pub(super) fn array(&mut self, path: &str, dataset: &Dataset, axes: Vec<AxisDimension>) -> Option<Array> {
        let mut report = ArrayReport {
            source_type: describe_type(&dataset.datatype),
            source_layout: describe_layout(&dataset.layout),
            source_filters: dataset.filters.iter().map(describe_filter).collect(),
            ..ArrayReport::default()
        };
        let mapped = self.try_array(path, dataset, axes, &mut report);
        if let Err(error) = &mapped {
            self.array_left_out(path, error);
            report.left_out = Some(error.to_string());
        }
        self.report.arrays.insert(path.to_owned(), report);
        mapped.ok()
    }

    fn try_array(
        &mut self,
        path: &str,
        dataset: &Dataset,
        axes: Vec<AxisDimension>,
        report: &mut ArrayReport,
    ) -> Result<Array> {
        self.take("datatypes", type_bytes(&dataset.datatype))?;
        let element = element_type(&dataset.datatype, self.options.format)?;
        check_factors(dataset)?;
        let shape = match &dataset.dataspace {
            Dataspace::Null => vec![0],
            space => space.shape().unwrap_or_default().iter().chain(&element.axes).copied().collect(),
        };
        let (header, inexpressible) = match header_fill(&dataset.fill, &element)? {
            HeaderFill::Scalar(value) => (value, None),
            HeaderFill::Inexpressible(why) => (FillValue::zero(&element.data_type), Some(why)),
        };
        let is_virtual = matches!(dataset.layout, Layout::Virtual(_));
        let missing_reads = match dataset.fill.write_time {
            FillTime::Never if !is_virtual => FillValue::zero(&element.data_type),
            _ => header.clone(),
        };
        let options = self.options;
        let planner = ChunkPlanner {
            dataset,
            element: &element,
            shape: &shape,
            background: inexpressible.is_none().then_some(&missing_reads),
            objects: &Arc::clone(&self.names),
            options,
            file_size: self.own.source.size,
            context: self.file_context(),
        };
        let plan =
            if matches!(dataset.dataspace, Dataspace::Null) { planner.one_chunk() } else { planner.place() };
        let mut plan = plan?;
        let padded = planner.padded(&mut plan, &axes);
        let padded = self.report_padding(path, padded);
        let Padded { shape, fill: missing_reads } =
            padded.unwrap_or_else(|| Padded { shape: shape.clone(), fill: missing_reads.clone() });
        let background = inexpressible.is_none().then_some(&missing_reads);
        let planner = ChunkPlanner { shape: &shape, background, ..planner };
        self.take_chunks(path, &planner, &plan)?;
        let missing = missing_count(&shape, &plan);
        if let Some(problem) = inexpressible.filter(|_| missing > 0) {
            return Err(Error::NoFillValue { missing, problem });
        }
        let fill = FillQuestion {
            format: options.format,
            data_type: &element.data_type,
            message: &dataset.fill,
            header: &header,
            missing_reads: &missing_reads,
            attributes: &dataset.attributes,
            missing: missing > 0,
            constant_chunks_allowed: planner.constant_chunks_allowed(&plan, missing),
        }
        .decide();
        self.report_plan(path, &plan, &fill);
        if is_reference(&dataset.datatype) {
            let message = "references are shown as the paths of their targets".to_owned();
            self.diagnose(Severity::Info, "reference-as-path", path, message);
        }
        let attributes = self.array_attributes(path, dataset, &element, &fill);
        self.resolve_sources(&mut plan);
        let mut dimension_names: Vec<_> = axes.into_iter().map(|axis| axis.name).collect();
        dimension_names.resize(shape.len(), None); // the axes of array types have no names
        let mut array = Array {
            dimension_names,
            shape: shape.clone(),
            data_type: element.data_type.clone(),
            chunk_grid: ChunkGrid::Regular(plan.chunk_shape.clone()),
            fill_value: fill.decision.fill_value.clone(),
            codecs: plan.codecs.clone(),
            attributes,
            chunks: ChunkManifest::default(),
        };
        report.fill = Some(fill.decision.clone());
        self.unpack(path, dataset, &mut array, report);
        self.warn_of_widened_packing(path, dataset, &array);
        check_spelling(&array, options.format)?;
        let tasks = new_tasks(path, &planner, &mut plan, &fill);
        self.tasks.extend(tasks);
        Ok(Array { chunks: plan.chunks, ..array })
    }

    fn report_padding(&mut self, path: &str, padded: Result<Option<Padded>>) -> Option<Padded> {
        match &padded {
            Ok(Some(Padded { shape, .. })) => {
                let message = format!(
                    "the variable is shorter than its unlimited dimensions: padded with its fill value to {shape:?}"
                );
                self.diagnose(Severity::Info, "array-padded", path, message);
            }
            Ok(None) => {}
            Err(why) => {
                let message = format!(
                    "the variable is shorter than its unlimited dimensions and cannot be padded: {why}"
                );
                self.diagnose(Severity::Warning, "array-not-padded", path, message);
            }
        }
        padded.unwrap_or(None)
    }

    /// Takes memory for the chunks of an array, and for the references in which each of them says the path.
    fn take_chunks(&self, path: &str, planner: &ChunkPlanner<'_>, plan: &ChunkPlan) -> Result<()> {
        let name = path.len() as u64;
        let chunk = CHUNK.saturating_add(name / 4);
        self.take("chunk tables", plan.chunks.len().saturating_mul(chunk))?;
        let made = plan.inline.len() as u64;
        let pieces = plan.inline.iter().map(|(_, content)| content.pieces().len()).sum::<usize>() as u64;
        let decoded = planner.made_bytes(&plan.chunk_shape).unwrap_or(u64::MAX).saturating_mul(made);
        let tasks =
            made.saturating_mul(size_of::<InlineTask>() as u64).saturating_add(made.saturating_mul(name));
        let pieces = pieces.saturating_mul(size_of::<Piece>() as u64);
        self.take(
            "chunks that are put inline",
            tasks.saturating_add(pieces).saturating_add(decoded / DECODED),
        )
    }

    fn report_plan(&mut self, path: &str, plan: &ChunkPlan, fill: &FillPlan) {
        if let Some(why) = &plan.inline_reason {
            let message = format!("{} chunks are put inline: {why}", plan.inline.len());
            self.diagnose(Severity::Info, "chunks-inlined", path, message);
        }
        if let [first, ..] = plan.missing_files.as_slice() {
            let count = plan.missing_files.len();
            let message = format!(
                "{count} of its source files do not exist (\"{first}\"), so that their parts read as the fill value"
            );
            self.diagnose(Severity::Warning, "source-missing", path, message);
        }
        for (code, message) in &fill.warnings {
            self.diagnose(Severity::Warning, code, path, message.clone());
        }
    }

    fn array_attributes(
        &mut self,
        path: &str,
        dataset: &Dataset,
        element: &ElementType,
        fill: &FillPlan,
    ) -> Map<String, Value> {
        let (mut attributes, left_out) = attributes_json(&dataset.attributes, self.shown());
        for (name, why) in left_out.iter().filter(|(name, _)| name != "_FillValue") {
            self.attribute_left_out(path, name, why);
        }
        for error in &dataset.unreadable_attributes {
            self.diagnose(
                Severity::Warning,
                "attribute-unreadable",
                path,
                format!("an attribute is left out: {error}"),
            );
        }
        attributes.remove("_FillValue");
        attributes.extend(fill.attribute.clone().map(|value| ("_FillValue".to_owned(), value)));
        self.missing_value_attribute(path, dataset, element, fill, &mut attributes);
        if let Some(flags) = flags(&dataset.datatype) {
            for (name, value) in flags {
                attributes.entry(name).or_insert(value);
            }
        }
        if let Datatype::Opaque { tag, .. } = &dataset.datatype
            && let Some(time) = numpy_time(tag)
        {
            attributes.entry("units").or_insert_with(|| time.units.into());
            if let Some(dtype) = time.duration {
                attributes.entry("dtype").or_insert_with(|| dtype.into());
            }
        }
        attributes
    }

    /// xarray unpacks in the type of `scale_factor` and `add_offset`, and JSON numbers are binary64.
    fn warn_of_widened_packing(&mut self, path: &str, dataset: &Dataset, array: &Array) {
        let narrow = |attribute: &&Attribute| {
            matches!(attribute.name.as_str(), "scale_factor" | "add_offset")
                && array.attributes.contains_key(&attribute.name)
                && matches!(&attribute.datatype, Datatype::Float(float) if float.size < 8)
        };
        if let Some(attribute) = dataset.attributes.iter().find(narrow) {
            let message = format!(
                "{} is a float of less than 64 bits, which JSON cannot say: xarray unpacks to float64, not float32",
                attribute.name
            );
            self.diagnose(Severity::Info, "packing-widened", path, message);
        }
    }

    fn missing_value_attribute(
        &mut self,
        path: &str,
        dataset: &Dataset,
        element: &ElementType,
        fill: &FillPlan,
        attributes: &mut Map<String, Value>,
    ) {
        let named = |name: &str| dataset.attributes.iter().find(|attribute| attribute.name == name);
        // Several sentinels mask nothing as _FillValue, but as missing_value they do.
        let several = || named("_FillValue").filter(|attribute| attribute.elements.len() > 1);
        let Some(attribute) = named("missing_value").or_else(several) else { return };
        if !super::fill::is_plain(&element.data_type) {
            return;
        }
        let shown = shown_type(&element.data_type, &dataset.attributes);
        let (mut kept, dropped) = missing_value(attribute, &shown);
        for value in dropped {
            let message = format!("missing_value {value} is dropped: no value of type {shown} equals it");
            self.diagnose(Severity::Warning, "missing-value-dropped", path, message);
        }
        if element.data_type.is_float() {
            self.part_infinities(path, &mut kept, element, fill);
        }
        attributes.remove("missing_value");
        match kept.len() {
            0 => None,
            1 => attributes.insert("missing_value".to_owned(), kept.remove(0)),
            _ => attributes.insert("missing_value".to_owned(), kept.into()),
        };
    }

    /// Texts such as "Infinity" mask nothing and, among several values, keep xarray from masking by the others. NaN needs
    /// no mask; one infinity can be the `_FillValue`.
    fn part_infinities(&mut self, path: &str, kept: &mut Vec<Value>, element: &ElementType, fill: &FillPlan) {
        let decision = &fill.decision;
        let is_said = fill.attribute.is_some() || decision.fill_value == decision.sentinel;
        let sentinel = decision.sentinel.as_ref().filter(|_| is_said).and_then(|value| match value {
            FillValue::Fixed(bytes) => number_json(&element.data_type, bytes),
            _ => None,
        });
        let alone = kept.len() == 1;
        let (finite, others) = std::mem::take(kept).into_iter().partition(|value| !value.is_string());
        *kept = finite;
        let others: Vec<Value> = others;
        for value in others {
            match value.as_str() {
                Some("NaN") if alone => kept.push(value),
                Some("NaN") => {}
                _ if sentinel.as_ref() == Some(&value) => {
                    let message = format!("missing_value {value} is said as _FillValue");
                    self.diagnose(Severity::Info, "missing-value-as-fill-value", path, message);
                }
                _ => {
                    let message = format!("missing_value {value} is dropped: JSON has no such number");
                    self.diagnose(Severity::Warning, "missing-value-dropped", path, message);
                }
            }
        }
    }

    /// Gives external files their place among the sources.
    fn resolve_sources(&mut self, plan: &mut ChunkPlan) {
        let ids: Vec<SourceId> = plan.external_files.iter().map(|file| self.external_source(file)).collect();
        let of_chunks = plan.chunks.references.iter_mut().map(|column| &mut column.source);
        let of_pieces = plan.inline.iter_mut().flat_map(|(_, content)| content.sources_mut());
        for source in of_chunks.chain(of_pieces) {
            if let Some(id) = source.index().checked_sub(1).and_then(|n| ids.get(n)) {
                *source = *id;
            }
        }
    }
}

impl ChunkPlanner<'_> {
    /// Whether the missing chunks can be written without making the references big.
    fn constant_chunks_allowed(&self, plan: &ChunkPlan, missing: u64) -> bool {
        let bytes = self.made_bytes(&plan.chunk_shape);
        let compressed = plan.codecs.len() > 1;
        let copies = if compressed { 1 } else { missing };
        missing <= self.options.constant_chunk_limit
            && plan.codecs.iter().all(can_encode)
            && !matches!(self.background, None | Some(FillValue::Text(_) | FillValue::Variable(_)))
            && bytes.and_then(|n| n.checked_mul(copies)).is_some_and(|n| n <= self.options.inline_limit)
    }
}

/// Refuses numbers to unpack by that JSON cannot say: xarray cannot calculate with text.
fn check_factors(dataset: &Dataset) -> Result<()> {
    let infinite = |element: &Element| matches!(element, Element::Float(value) if !value.is_finite());
    let is_factor = |name: &str| matches!(name, "scale_factor" | "add_offset");
    let mut factors = dataset.attributes.iter().filter(|attribute| is_factor(&attribute.name));
    match factors.find(|attribute| attribute.elements.iter().any(infinite)) {
        Some(attribute) => Err(Error::NotJson(format!("a {} that is not finite", attribute.name))),
        None => Ok(()),
    }
}

/// Bytes of memory for a datatype of an array: hard links and committed types give one to many.
fn type_bytes(datatype: &Datatype) -> u64 {
    match datatype {
        Datatype::Compound { members, .. } => {
            let members = members.iter().map(|member| type_bytes(&member.datatype).saturating_add(MEMBER));
            members.fold(MEMBER, u64::saturating_add)
        }
        Datatype::Enum { members, .. } => (members.len() as u64).saturating_mul(MEMBER),
        Datatype::Array { base, .. } | Datatype::Sequence { base, .. } => type_bytes(base),
        _ => 0,
    }
}

/// Refuses what a Zarr format has no words for.
fn check_spelling(array: &Array, format: ZarrFormat) -> Result<()> {
    match format {
        ZarrFormat::V2 => array.to_zarray()?,
        ZarrFormat::V3 => array.to_zarr_json("")?,
    };
    Ok(())
}

fn new_tasks(
    path: &str,
    planner: &ChunkPlanner<'_>,
    plan: &mut ChunkPlan,
    fill: &FillPlan,
) -> Vec<InlineTask> {
    let task = |positions, content| InlineTask { array: path.to_owned(), positions, content };
    let mut tasks = Vec::new();
    if fill.constant_chunks {
        let shape = plan.chunk_shape.clone();
        let content =
            ChunkContent::Assemble { shape, background: planner.background_bytes(), pieces: Vec::new() };
        tasks.push(task(missing_positions(planner.shape, plan), content));
    }
    tasks.extend(plan.inline.drain(..).map(|(position, content)| task(vec![position], content)));
    tasks
}

fn chunk_count(shape: &[u64], chunk_shape: &[u64]) -> u64 {
    let counts = ChunkGrid::Regular(chunk_shape.to_vec()).counts(shape);
    counts.iter().fold(1u64, |product, n| product.saturating_mul(*n))
}

/// How many chunks neither lie in a file nor are made.
pub(super) fn missing_count(shape: &[u64], plan: &ChunkPlan) -> u64 {
    let there = plan.inline.iter().filter(|(at, _)| plan.chunks.get(*at).is_none()).count() as u64;
    chunk_count(shape, &plan.chunk_shape).saturating_sub(plan.chunks.len().saturating_add(there))
}

fn missing_positions(shape: &[u64], plan: &ChunkPlan) -> Vec<u64> {
    let made: BTreeSet<u64> = plan.inline.iter().map(|(at, _)| *at).collect();
    let mut there = plan.chunks.iter().map(|(at, _)| at).peekable();
    let is_missing = |at: &u64| {
        while there.next_if(|next| next < at).is_some() {}
        there.peek() != Some(at) && !made.contains(at)
    };
    (0..chunk_count(shape, &plan.chunk_shape)).filter(is_missing).collect()
}
