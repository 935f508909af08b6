//! Mapping of NetCDF classic files: one group, whose arrays are the variables.

mod chunks;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use serde_json::{Map, Value};
use virtualize_bytes::{Budget, Limits};
use virtualize_netcdf3::model::{Attribute, DataType as Stored, File, Variable};
use virtualize_remedy::{Code, Remedy};
use virtualize_zarr::{
    Array, ChunkGrid, ChunkManifest, Codec, DataType, Endian, FillValue, Node, Source, ZarrFormat,
};

use crate::cf::{
    CfAttribute, CfAttributes, CfValue, FillPlan, FillQuestion, check_factors, unpack, widened_packing,
    write_sentinels,
};
use crate::mapped::{check_name, chunk_bytes, shown_name, task_bytes};
use crate::netcdf3::chunks::{ChunkPlan, ChunkPlanner, SMALL_RECORD};
use crate::source_attribute::{NumpyType, SourceAttribute, SourceValue, float_json, integer_json};
use crate::unpack::{is_time_unit, refusal_diagnostic};
use crate::{
    ArrayReport, ChunkContent, Diagnostic, Error, FillPolicy, InlineTask, MapOptions, Mapped, Result,
    Severity, check_metadata,
};

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
    (found.data_type == Stored::Char).then(|| text(&found.values))
}

impl Mapper<'_> {
    /// Maps a variable. Returns `None`, and reports why, if it is left out.
    pub(super) fn variable(&mut self, path: &str, variable: &Variable) -> Option<Array> {
        let mut report = ArrayReport {
            source_type: variable.data_type.to_string(),
            source_layout: self.layout(variable),
            ..ArrayReport::default()
        };
        let mapped = self.try_variable(path, variable, &mut report);
        if let Err(error) = &mapped {
            let message = format!("the array is left out: {error}");
            self.mapped.warn(path, Code::ArrayLeftOut, message, error.remedy());
            report.left_out = Some(error.to_string());
        }
        self.mapped.report.arrays.insert(path.to_owned(), report);
        mapped.ok()
    }

    fn try_variable(&mut self, path: &str, variable: &Variable, report: &mut ArrayReport) -> Result<Array> {
        let shape = self.file.shape(variable);
        let meanings = cf_attributes(&variable.attributes);
        check_factors(&meanings)?;
        let planner = ChunkPlanner {
            variable,
            shape: &shape,
            records: self.file.records,
            small_records: self.small_records,
            file_size: self.file_size,
            options: self.options,
        };
        if planner.is_by_record() && !planner.is_inlined() {
            if self.small_records.is_some() && variable.size <= SMALL_RECORD {
                let records = self.file.records.count;
                let message = format!(
                    "{records} records of {} bytes are a chunk each, which is slow to read: inlining them exceeds the limit of {} bytes",
                    variable.size, self.options.inline_limit
                );
                self.diagnose(Severity::Info, Code::InlineLimit, path, message);
            }
            self.take("chunk tables", chunk_bytes(planner.whole_records(), path))?;
        }
        let mut plan = planner.plan()?;
        let fill = self.fill_plan(variable, &plan, &meanings);
        self.report_plan(path, &plan, &fill);
        let mut array = Array {
            dimension_names: self.dimension_names(variable),
            data_type: data_type(variable.data_type),
            chunk_grid: ChunkGrid::Regular(plan.chunk_shape.clone()),
            fill_value: fill.decision.fill_value.clone(),
            codecs: vec![Codec::Bytes { endian: (variable.data_type.size() > 1).then_some(Endian::Big) }],
            attributes: self.array_attributes(path, variable, &meanings, &fill),
            chunks: ChunkManifest::default(),
            shape,
        };
        report.fill = Some(fill.decision.clone());
        self.unpack(path, &meanings, &mut array, report);
        if let Some(message) = widened_packing(&meanings, &data_type(variable.data_type), &array.attributes) {
            self.diagnose(Severity::Warning, Code::PackingWidened, path, message);
        }
        check_metadata(&array, self.options.format)?;
        self.add_tasks(path, variable, &mut plan, &fill)?;
        Ok(Array { chunks: plan.chunks, ..array })
    }

    /// Describes where the data of a variable are.
    fn layout(&self, variable: &Variable) -> String {
        let how = match variable.is_record {
            false => "contiguous",
            true if self.file.records.stride == variable.size => "records, contiguous",
            true => "records, alternating with those of other variables",
        };
        format!("{}, {how}", self.file.version)
    }

    fn fill_plan(&self, variable: &Variable, plan: &ChunkPlan, attributes: &CfAttributes) -> FillPlan {
        let data_type = data_type(variable.data_type);
        let fill = VariableFill::of(variable);
        let missing = plan.missing.end.saturating_sub(plan.missing.start);
        let bytes = chunk_size(variable, &plan.chunk_shape).and_then(|bytes| bytes.checked_mul(missing));
        let question = FillQuestion {
            format: self.options.format,
            data_type: &data_type,
            policy: FillPolicy("netcdf-fill"),
            origin: fill.origin,
            header: &fill.value,
            missing_reads: &FillValue::zero(&data_type),
            attributes,
            missing: missing > 0,
            constant_chunks_allowed: missing <= self.options.constant_chunk_limit
                && bytes.is_some_and(|bytes| bytes <= self.options.inline_limit),
        };
        question.decide()
    }

    fn report_plan(&mut self, path: &str, plan: &ChunkPlan, fill: &FillPlan) {
        if plan.is_truncated {
            let message = format!(
                "the file ends at {:#x}, before the data of the variable end: the missing bytes read as zero, as in netCDF-C",
                self.file_size
            );
            let advice = "compare its size with the original: the file may be incomplete";
            self.mapped.warn(path, Code::FileTruncated, message, Some(Remedy::advice(advice)));
        }
        if let Some(why) = plan.inline_reason {
            let message = match plan.inline.len() {
                1 => format!("inlined 1 chunk: {why}"),
                count => format!("inlined {count} chunks: {why}"),
            };
            self.diagnose(Severity::Info, Code::ChunksInlined, path, message);
        }
        for (code, message) in &fill.warnings {
            self.diagnose(Severity::Warning, *code, path, message.clone());
        }
    }

    /// Returns the attributes of an array: those of the variable, and the fill values in the notation of the Zarr format.
    fn array_attributes(
        &mut self,
        path: &str,
        variable: &Variable,
        meanings: &CfAttributes,
        fill: &FillPlan,
    ) -> serde_json::Map<String, serde_json::Value> {
        let (mut attributes, remarks) = attributes_json(&variable.attributes, self.budget);
        for (code, message) in remarks {
            self.diagnose(Severity::Warning, code, path, message);
        }
        if self.options.source_attributes {
            let kept = source_attributes(&variable.attributes, self.budget);
            self.mapped.report.attributes.insert(path.to_owned(), kept);
        }
        let data_type = data_type(variable.data_type);
        for (severity, code, message) in write_sentinels(meanings, &data_type, fill, &mut attributes) {
            self.diagnose(severity, code, path, message);
        }
        attributes
    }

    fn unpack(&mut self, path: &str, meanings: &CfAttributes, array: &mut Array, report: &mut ArrayReport) {
        if !self.options.unpack || self.options.format != ZarrFormat::V3 {
            return;
        }
        if let Err(why) = unpack(meanings, self.time_bounds.contains(path), array, report) {
            self.mapped.report.diagnostics.push(refusal_diagnostic(&why, path));
        }
    }

    /// Adds the tasks for chunks that have to be made.
    fn add_tasks(
        &mut self,
        path: &str,
        variable: &Variable,
        plan: &mut ChunkPlan,
        fill: &FillPlan,
    ) -> Result<()> {
        let task = |positions, content| InlineTask { array: path.to_owned(), positions, content };
        let mut tasks: Vec<InlineTask> = Vec::new();
        if fill.constant_chunks {
            let element = usize::try_from(variable.data_type.size()).unwrap_or(1);
            let (shape, background) = (plan.chunk_shape.clone(), vec![0; element].into());
            let content = ChunkContent::Assemble { shape, background, pieces: Vec::new() };
            tasks.push(task(plan.missing.clone().collect(), content));
        }
        tasks.extend(
            std::mem::take(&mut plan.inline)
                .into_iter()
                .map(|(position, content)| task(vec![position], content)),
        );
        let made = tasks.iter().map(|task| task.positions.len() as u64).sum::<u64>();
        let decoded = chunk_size(variable, &plan.chunk_shape).unwrap_or(u64::MAX).saturating_mul(made);
        self.take("inlined chunks", task_bytes(made, made, decoded, path))?;
        self.mapped.tasks.extend(tasks);
        Ok(())
    }

    fn take(&self, what: &str, bytes: u64) -> Result<()> {
        self.budget.take(what, bytes).map_err(Error::from)
    }
}

fn chunk_size(variable: &Variable, chunk_shape: &[u64]) -> Option<u64> {
    chunk_shape.iter().try_fold(variable.data_type.size(), |product, length| product.checked_mul(*length))
}

/// Bytes of memory for an attribute, without its name and values.
const ATTRIBUTE: u64 = 128;

/// Bytes of memory for a JSON value.
const VALUE: u64 = 48;

/// Converts attributes to JSON. Returns them, and warnings as (diagnostic code, message).
pub(super) fn attributes_json(
    attributes: &[Attribute],
    budget: &Budget<'_>,
) -> (Map<String, Value>, Vec<(Code, String)>) {
    let (mut converted, mut remarks) = (Map::new(), Vec::new());
    let mut warn = |code, name: &str, why: &str| {
        remarks.push((code, format!("the attribute \"{name}\" is left out: {why}")));
    };
    for attribute in attributes {
        if attribute.name == "_ARRAY_DIMENSIONS" {
            warn(Code::AttributeLeftOut, &attribute.name, "the name is reserved for the names of dimensions");
        } else if converted.contains_key(&attribute.name) {
            // netCDF4-python shows the first of several.
            warn(Code::NameCollision, &attribute.name, "another one has this name");
        } else if budget.take("attributes", weight(attribute)).is_err() {
            break;
        } else {
            converted.insert(attribute.name.clone(), json(attribute));
        }
    }
    (converted, remarks)
}

/// Converts attributes with the types that xarray shows with netCDF4-python.
pub(super) fn source_attributes(attributes: &[Attribute], budget: &Budget<'_>) -> Vec<SourceAttribute> {
    let mut names = BTreeSet::new();
    let first = attributes.iter().filter(|attribute| names.insert(attribute.name.as_str()));
    let converted = first.map(|attribute| {
        let value = match attribute.data_type {
            // xarray compares it with characters, which are bytes.
            Stored::Char if attribute.name == "_FillValue" && attribute.values.len() == 1 => {
                SourceValue::Fixed {
                    data_type: NumpyType::Plain("|S1".to_owned()),
                    shape: Some(vec![1]),
                    bytes: attribute.values.to_vec(),
                }
            }
            Stored::Char => SourceValue::Json(text(&attribute.values).into()),
            stored => SourceValue::Fixed {
                data_type: NumpyType::Plain(numpy_type(stored)),
                shape: Some(vec![count(attribute)]),
                bytes: little_endian(stored, &attribute.values),
            },
        };
        SourceAttribute { name: attribute.name.clone(), value }
    });
    converted.take_while(|kept| budget.take("attributes", kept.weight()).is_ok()).collect()
}

/// Converts the attributes that have a meaning in CF.
pub(super) fn cf_attributes(attributes: &[Attribute]) -> CfAttributes {
    let known = attributes.iter().filter(|attribute| CfAttributes::has_meaning(&attribute.name));
    let converted = known.map(|attribute| CfAttribute {
        name: attribute.name.clone(),
        data_type: Some(match attribute.data_type {
            Stored::Char => {
                virtualize_zarr::DataType::FixedBytes(u32::try_from(count(attribute)).unwrap_or(u32::MAX))
            }
            stored => data_type(stored),
        }),
        values: values(attribute.data_type, &attribute.values),
    });
    converted.collect()
}

fn json(attribute: &Attribute) -> Value {
    let mut items: Vec<Value> =
        values(attribute.data_type, &attribute.values).into_iter().map(value).collect();
    if items.len() == 1 { items.remove(0) } else { items.into() }
}

fn value(value: CfValue) -> Value {
    match value {
        CfValue::Integer(value) => integer_json(value),
        CfValue::Float(value) => float_json(value),
        CfValue::Text(text) => text.into(),
        CfValue::Complex(..) | CfValue::Bytes(_) | CfValue::Other(_) => Value::Null,
    }
}

fn count(attribute: &Attribute) -> u64 {
    (attribute.values.len() as u64).checked_div(attribute.data_type.size()).unwrap_or(0)
}

/// Returns the memory of an attribute.
fn weight(attribute: &Attribute) -> u64 {
    let values = match attribute.data_type {
        Stored::Char => attribute.values.len() as u64,
        _ => count(attribute).saturating_mul(VALUE),
    };
    values.saturating_add(ATTRIBUTE).saturating_add(attribute.name.len() as u64)
}

/// Returns the NumPy type in which netCDF4-python shows values, which is that of the machine.
fn numpy_type(stored: Stored) -> String {
    let kind = match stored {
        Stored::Char => "S",
        Stored::Byte | Stored::Short | Stored::Int | Stored::Int64 => "i",
        Stored::UByte | Stored::UShort | Stored::UInt | Stored::UInt64 => "u",
        Stored::Float | Stored::Double => "f",
    };
    let order = if stored.size() == 1 { "|" } else { "<" };
    format!("{order}{kind}{}", stored.size())
}

impl Mapper<'_> {
    /// Returns the names of all dimensions by id. The second of two with one name and different lengths is renamed, and
    /// reported.
    pub(super) fn name_dimensions(&mut self) -> Vec<String> {
        let mut lengths: BTreeMap<String, u64> = BTreeMap::new();
        let mut names = Vec::new();
        for dimension in &self.file.dimensions {
            let length = dimension.length.unwrap_or(self.file.records.count);
            let mut name = dimension.name.clone();
            if lengths.get(&name).is_some_and(|known| *known != length) {
                name = format!("{name}_{length}");
                while lengths.get(&name).is_some_and(|known| *known != length) {
                    name.push('_');
                }
                let message = format!(
                    "two dimensions are called \"{}\"; that of length {length} is called \"{name}\"",
                    dimension.name
                );
                self.diagnose(Severity::Warning, Code::DimensionRenamed, "", message);
            }
            lengths.insert(name.clone(), length);
            names.push(name);
        }
        if self.options.source_attributes {
            let records = self.file.dimensions.iter().zip(&names).filter(|(one, _)| one.length.is_none());
            let records: Vec<String> = records.map(|(_, name)| name.clone()).collect();
            if !records.is_empty() {
                self.mapped.report.unlimited.insert(String::new(), records);
            }
        }
        names
    }

    /// Returns the names of a variable's dimensions.
    pub(super) fn dimension_names(&self, variable: &Variable) -> Vec<Option<String>> {
        variable.dimensions.iter().map(|id| self.dimension_names.get(*id).cloned()).collect()
    }
}

/// The fill value of a variable.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct VariableFill {
    /// The value.
    pub(super) value: FillValue,
    /// Where it is declared, for the report.
    pub(super) origin: String,
}

impl VariableFill {
    /// Like netCDF-C, uses an attribute `_FillValue` of one value in the type of the variable, else the default.
    pub(super) fn of(variable: &Variable) -> Self {
        let declared = variable.attributes.iter().find(|attribute| attribute.name == "_FillValue");
        let fits = |values: &[u8]| values.len() as u64 == variable.data_type.size();
        match declared.filter(|one| one.data_type == variable.data_type && fits(&one.values)) {
            Some(attribute) => Self {
                value: FillValue::Fixed(little_endian(variable.data_type, &attribute.values).into()),
                origin: "fill value of the variable".to_owned(),
            },
            None => {
                let (name, value) = default_fill(variable.data_type);
                Self { value, origin: format!("default fill value, {name}") }
            }
        }
    }
}

/// Returns the Zarr data type. Characters are byte strings of length 1, as h5py shows those of NetCDF-4.
pub(super) fn data_type(stored: Stored) -> DataType {
    match stored {
        Stored::Byte => DataType::Int8,
        Stored::Char => DataType::FixedBytes(1),
        Stored::Short => DataType::Int16,
        Stored::Int => DataType::Int32,
        Stored::Float => DataType::Float32,
        Stored::Double => DataType::Float64,
        Stored::UByte => DataType::UInt8,
        Stored::UShort => DataType::UInt16,
        Stored::UInt => DataType::UInt32,
        Stored::Int64 => DataType::Int64,
        Stored::UInt64 => DataType::UInt64,
    }
}

/// Returns the name and value of netCDF's default fill value (`netcdf.h`).
pub(super) fn default_fill(stored: Stored) -> (&'static str, FillValue) {
    const FLOAT: f32 = 9.969_21e36;
    let (name, bytes): (_, Vec<u8>) = match stored {
        Stored::Byte => ("NC_FILL_BYTE", vec![0x81]),
        Stored::Char => ("NC_FILL_CHAR", vec![0]),
        Stored::Short => ("NC_FILL_SHORT", (-32_767_i16).to_le_bytes().into()),
        Stored::Int => ("NC_FILL_INT", (-2_147_483_647_i32).to_le_bytes().into()),
        Stored::Float => ("NC_FILL_FLOAT", FLOAT.to_le_bytes().into()),
        Stored::Double => ("NC_FILL_DOUBLE", f64::from(FLOAT).to_le_bytes().into()),
        Stored::UByte => ("NC_FILL_UBYTE", vec![u8::MAX]),
        Stored::UShort => ("NC_FILL_USHORT", u16::MAX.to_le_bytes().into()),
        Stored::UInt => ("NC_FILL_UINT", u32::MAX.to_le_bytes().into()),
        Stored::Int64 => ("NC_FILL_INT64", (-9_223_372_036_854_775_806_i64).to_le_bytes().into()),
        Stored::UInt64 => ("NC_FILL_UINT64", (u64::MAX - 1).to_le_bytes().into()),
    };
    (name, FillValue::Fixed(Bytes::from(bytes)))
}

/// Returns stored values, which are big-endian, in little-endian byte order.
pub(super) fn little_endian(stored: Stored, values: &[u8]) -> Vec<u8> {
    let size = usize::try_from(stored.size()).unwrap_or(1).max(1);
    values.chunks_exact(size).flat_map(|value| value.iter().rev()).copied().collect()
}

/// Decodes the values of an attribute. Characters are one text, whose NULs netCDF4-python drops.
pub(super) fn values(stored: Stored, values: &[u8]) -> Vec<CfValue> {
    if stored == Stored::Char {
        return vec![CfValue::Text(text(values))];
    }
    let data_type = data_type(stored);
    let size = usize::try_from(stored.size()).unwrap_or(1).max(1);
    let value = |bytes: &[u8]| {
        let little = FillValue::Fixed(bytes.iter().rev().copied().collect());
        match data_type.is_float() {
            true => little.to_f64(&data_type).map(CfValue::Float),
            false => little.to_i128(&data_type).map(CfValue::Integer),
        }
    };
    values.chunks_exact(size).filter_map(value).collect()
}

/// Returns text as netCDF4-python does: without NULs, and with U+FFFD for what is not UTF-8.
pub(super) fn text(values: &[u8]) -> String {
    String::from_utf8_lossy(values).replace('\0', "")
}
