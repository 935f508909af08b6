//! Mapping of NetCDF classic files: one group, whose arrays are the variables.

mod chunks;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};
use virtualize_bytes::{Budget, Limits};
use virtualize_netcdf3::model::{Attribute, DataType as Stored, File, Variable};
use virtualize_remedy::{Code, Remedy};
use virtualize_zarr::{
    Array, ChunkGrid, ChunkManifest, Codec, DataType, Endian, FillValue, Node, Source, ZarrFormat,
};

use crate::cf::{
    CfAttribute, CfAttributes, CfValue, FillQuestion, check_factors, netcdf_default_fill, unpack,
    widened_packing, write_sentinels,
};
use crate::mapped::{check_name, chunk_bytes, shown_name, task_bytes};
use crate::netcdf3::chunks::{ChunkPlanner, SMALL_RECORD};
use crate::source_attribute::{NumpyType, SourceAttribute, SourceValue, numpy_name};
use crate::unpack::{is_time_unit, refusal_diagnostic};
use crate::{ArrayReport, ChunkContent, FillPolicy, InlineTask, MapOptions, Mapped, Result, check_metadata};

/// Bytes of memory for an attribute, without its name and values.
const ATTRIBUTE: u64 = 128;

/// Bytes of memory for a JSON value.
const VALUE: u64 = 48;

/// Bytes of memory for an array, without names, attributes and chunks.
const NODE: u64 = 1 << 10;

/// Maps a file to Zarr. `source` describes the file itself.
///
/// No bytes are read: [`Mapped::tasks`] lists what has to be fetched. Variables that cannot be mapped exactly are omitted,
/// with a diagnostic. Takes memory for the result from `budget`; if that is spent, the report has an error.
pub fn map_file_within(file: &File, source: Source, options: &MapOptions, budget: &Budget<'_>) -> Mapped {
    let mut mapper = Mapper {
        file,
        file_size: source.size,
        options,
        budget,
        time_bounds: if options.unpack { time_bounds(file) } else { BTreeSet::new() },
        small_records: chunks::small_records(file),
        mapped: Mapped::new(options.format, &[]),
    };
    let dimension_names = mapper.name_dimensions();
    mapper.mapped.hierarchy.root.attributes = mapper.attributes("", &file.attributes);
    let first = file.variables.iter().filter(|variable| variable.is_record).map(|one| one.begin).min();
    if let Some(begin) = first.filter(|_| file.records.is_streamed)
        && source.size > file.records.count.saturating_mul(file.records.stride).saturating_add(begin)
    {
        let message = format!(
            "the header states no number of records, and the file ends within record {}, which is left out",
            file.records.count
        );
        mapper.mapped.report.warn(Code::FileTruncated, "", message);
    }
    let names: Vec<_> = file.variables.iter().map(|variable| shown_name(&variable.name)).collect();
    let last: BTreeMap<&str, usize> =
        names.iter().enumerate().map(|(at, name)| (name.as_ref(), at)).collect();
    for (at, (variable, name)) in file.variables.iter().zip(&names).enumerate() {
        let bytes = NODE.saturating_add((variable.name.len() as u64).saturating_mul(4));
        if budget.take("arrays", bytes).is_err() {
            break;
        }
        let report = &mut mapper.mapped.report;
        if last.get(name.as_ref()) != Some(&at) {
            // Like netCDF4-python, shows the last of several.
            report.warn(Code::NameCollision, name, "two variables have this name; the last one is shown");
            continue;
        }
        if *name != variable.name {
            let message = format!(
                "zarr-python treats a backslash as a slash: {:?} is shown as {name:?}",
                variable.name
            );
            report.warn(Code::NameChanged, name, message);
        }
        if let Err(error) = check_name(name) {
            report.warn(Code::NodeLeftOut, name, error.to_string());
            continue;
        }
        let mut report = ArrayReport {
            source_type: variable.data_type.to_string(),
            source_layout: mapper.layout(variable),
            ..ArrayReport::default()
        };
        let axes = variable.dimensions.iter().map(|id| dimension_names.get(*id).cloned()).collect();
        match mapper.array(name, variable, axes, &mut report) {
            Ok(array) => {
                let node = Node::Array(Box::new(array));
                mapper.mapped.hierarchy.root.children.insert(name.clone().into_owned(), node);
            }
            Err(error) => {
                let message = format!("the array is left out: {error}");
                mapper.mapped.warn(name, Code::ArrayLeftOut, message, error.remedy());
                report.left_out = Some(error.to_string());
            }
        }
        mapper.mapped.report.arrays.insert(name.clone().into_owned(), report);
    }
    let mut mapped = mapper.mapped;
    mapped.hierarchy.sources.push(source);
    mapped.finish(options, budget);
    mapped
}

/// Maps a file with a budget of its own.
pub fn map_file(file: &File, source: Source, options: &MapOptions) -> Mapped {
    let budget = Budget::of_file(&Limits::default(), source.size);
    map_file_within(file, source, options, &budget)
}

/// Returns the names of the variables that hold the bounds of times. xarray decodes them with the units of the times.
fn time_bounds(file: &File) -> BTreeSet<String> {
    let text_of = |variable: &Variable, name: &str| {
        let found = variable.attributes.iter().find(|attribute| attribute.name == name)?;
        (found.data_type == Stored::Char).then(|| text(&found.values))
    };
    let bounds = file.variables.iter().filter_map(|variable| {
        text_of(variable, "units").filter(|units| is_time_unit(units))?;
        text_of(variable, "bounds")
    });
    bounds.collect()
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
    /// Start of the record section if small records are inlined.
    small_records: Option<u64>,
    mapped: Mapped,
}

impl Mapper<'_> {
    /// Maps a variable.
    fn array(
        &mut self,
        path: &str,
        variable: &Variable,
        dimension_names: Vec<Option<String>>,
        report: &mut ArrayReport,
    ) -> Result<Array> {
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
                self.mapped.report.info(Code::InlineLimit, path, message);
            }
            self.budget.take("chunk tables", chunk_bytes(planner.whole_records(), path))?;
        }
        let plan = planner.plan()?;
        let data_type = data_type(variable.data_type);
        let chunk_size = plan
            .chunk_shape
            .iter()
            .try_fold(variable.data_type.size(), |product, length| product.checked_mul(*length));
        let missing = plan.missing.end.saturating_sub(plan.missing.start);
        let missing_bytes = chunk_size.and_then(|bytes| bytes.checked_mul(missing));
        let (origin, header) = fill_value(variable, &data_type);
        let question = FillQuestion {
            format: self.options.format,
            data_type: &data_type,
            policy: FillPolicy("netcdf-fill"),
            origin,
            header: &header,
            missing_reads: &FillValue::zero(&data_type),
            attributes: &meanings,
            missing: missing > 0,
            constant_chunks_allowed: missing <= self.options.constant_chunk_limit
                && missing_bytes.is_some_and(|bytes| bytes <= self.options.inline_limit),
        };
        let fill = question.decide();
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
            self.mapped.report.info(Code::ChunksInlined, path, message);
        }
        for (code, message) in &fill.warnings {
            self.mapped.report.warn(*code, path, message);
        }
        let mut attributes = self.attributes(path, &variable.attributes);
        self.mapped.report.extend(path, write_sentinels(&meanings, &data_type, &fill, &mut attributes));
        let mut array = Array {
            dimension_names,
            data_type: data_type.clone(),
            chunk_grid: ChunkGrid::Regular(plan.chunk_shape.clone()),
            fill_value: fill.decision.fill_value.clone(),
            codecs: vec![Codec::Bytes { endian: (variable.data_type.size() > 1).then_some(Endian::Big) }],
            attributes,
            chunks: ChunkManifest::default(),
            shape,
        };
        report.fill = Some(fill.decision.clone());
        if self.options.unpack
            && self.options.format == ZarrFormat::V3
            && let Err(why) = unpack(&meanings, self.time_bounds.contains(path), &mut array, report)
        {
            self.mapped.report.diagnostics.push(refusal_diagnostic(&why, path));
        }
        if let Some(message) = widened_packing(&meanings, &data_type, &array.attributes) {
            self.mapped.report.warn(Code::PackingWidened, path, message);
        }
        check_metadata(&array, self.options.format)?;
        let task = |positions, content| InlineTask { array: path.to_owned(), positions, content };
        let mut tasks: Vec<InlineTask> = Vec::new();
        if fill.constant_chunks {
            let element = usize::try_from(variable.data_type.size()).unwrap_or(1);
            let (shape, background) = (plan.chunk_shape.clone(), vec![0; element].into());
            let content = ChunkContent::Assemble { shape, background, pieces: Vec::new() };
            tasks.push(task(plan.missing.collect(), content));
        }
        tasks.extend(plan.inline.into_iter().map(|(position, content)| task(vec![position], content)));
        let made = tasks.iter().map(|task| task.positions.len() as u64).sum::<u64>();
        let decoded = chunk_size.unwrap_or(u64::MAX).saturating_mul(made);
        self.budget.take("inlined chunks", task_bytes(made, made, decoded, path))?;
        self.mapped.tasks.extend(tasks);
        Ok(Array { chunks: plan.chunks, ..array })
    }

    /// Describes where the data of a variable are.
    fn layout(&self, variable: &Variable) -> String {
        let how = if !variable.is_record {
            "contiguous"
        } else if self.file.records.stride == variable.size {
            "records, contiguous"
        } else {
            "records, alternating with those of other variables"
        };
        format!("{}, {how}", self.file.version)
    }

    /// Converts attributes to JSON, and keeps them with their types if the options ask for it.
    fn attributes(&mut self, path: &str, attributes: &[Attribute]) -> Map<String, Value> {
        let mut converted = Map::new();
        let mut warn = |code, name: &str, why: &str| {
            self.mapped.report.warn(code, path, format!("the attribute \"{name}\" is left out: {why}"));
        };
        for attribute in attributes {
            if attribute.name == "_ARRAY_DIMENSIONS" {
                let why = "the name is reserved for the names of dimensions";
                warn(Code::AttributeLeftOut, &attribute.name, why);
            } else if converted.contains_key(&attribute.name) {
                // netCDF4-python shows the first of several.
                warn(Code::NameCollision, &attribute.name, "another one has this name");
            } else if self.budget.take("attributes", weight(attribute)).is_err() {
                break;
            } else {
                let values = values(attribute.data_type, &attribute.values).into_iter();
                let mut items: Vec<Value> = values.map(CfValue::into_json).collect();
                let value = if items.len() == 1 { items.remove(0) } else { items.into() };
                converted.insert(attribute.name.clone(), value);
            }
        }
        if self.options.source_attributes {
            let mut names = BTreeSet::new();
            let first = attributes.iter().filter(|attribute| names.insert(attribute.name.as_str()));
            let kept = first
                .map(source_attribute)
                .take_while(|kept| self.budget.take("attributes", kept.weight()).is_ok())
                .collect();
            self.mapped.report.attributes.insert(path.to_owned(), kept);
        }
        converted
    }

    /// Returns the names of all dimensions by id. The second of two with one name and different lengths is renamed, and
    /// reported.
    fn name_dimensions(&mut self) -> Vec<String> {
        let report = &mut self.mapped.report;
        let mut lengths: BTreeMap<String, u64> = BTreeMap::new();
        let (mut names, mut unlimited) = (Vec::new(), Vec::new());
        for dimension in &self.file.dimensions {
            let length = dimension.length.unwrap_or(self.file.records.count);
            let mut name = dimension.name.clone();
            let is_other = |name: &String| lengths.get(name).is_some_and(|known| *known != length);
            if is_other(&name) {
                name = format!("{name}_{length}");
                while is_other(&name) {
                    name.push('_');
                }
                let message = format!(
                    "two dimensions are called \"{}\"; that of length {length} is called \"{name}\"",
                    dimension.name
                );
                report.warn(Code::DimensionRenamed, "", message);
            }
            lengths.insert(name.clone(), length);
            if dimension.length.is_none() {
                unlimited.push(name.clone());
            }
            names.push(name);
        }
        if self.options.source_attributes && !unlimited.is_empty() {
            report.unlimited.insert(String::new(), unlimited);
        }
        names
    }
}

/// Converts an attribute with the type that xarray shows with netCDF4-python.
fn source_attribute(attribute: &Attribute) -> SourceAttribute {
    let fixed = |data_type: String, bytes| SourceValue::Fixed {
        data_type: NumpyType::Plain(data_type),
        shape: Some(vec![count(attribute)]),
        bytes,
    };
    let value = match attribute.data_type {
        // xarray compares it with characters, which are bytes.
        Stored::Char if attribute.name == "_FillValue" && attribute.values.len() == 1 => {
            fixed("|S1".to_owned(), attribute.values.to_vec())
        }
        Stored::Char => SourceValue::Json(text(&attribute.values).into()),
        stored => {
            fixed(numpy_name(&data_type(stored), Endian::Little), little_endian(stored, &attribute.values))
        }
    };
    SourceAttribute { name: attribute.name.clone(), value }
}

/// Converts the attributes that have a meaning in CF.
fn cf_attributes(attributes: &[Attribute]) -> CfAttributes {
    let known = attributes.iter().filter(|attribute| CfAttributes::has_meaning(&attribute.name));
    let converted = known.map(|attribute| CfAttribute {
        name: attribute.name.clone(),
        data_type: Some(match attribute.data_type {
            Stored::Char => DataType::FixedBytes(u32::try_from(count(attribute)).unwrap_or(u32::MAX)),
            stored => data_type(stored),
        }),
        values: values(attribute.data_type, &attribute.values),
    });
    converted.collect()
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

/// Returns the fill value of a variable, and where it is declared. Like netCDF-C, uses an attribute `_FillValue` of one value
/// in the type of the variable, else the default of the type.
fn fill_value(variable: &Variable, data_type: &DataType) -> (String, FillValue) {
    let declared = variable.attributes.iter().find(|attribute| attribute.name == "_FillValue");
    let is_valid = |one: &&Attribute| {
        one.data_type == variable.data_type && one.values.len() as u64 == variable.data_type.size()
    };
    match declared.filter(is_valid) {
        Some(attribute) => {
            let value = little_endian(variable.data_type, &attribute.values);
            ("fill value of the variable".to_owned(), FillValue::Fixed(value.into()))
        }
        None => {
            let (name, value) =
                netcdf_default_fill(data_type).unwrap_or_else(|| ("CHAR", FillValue::zero(data_type)));
            (format!("default fill value, NC_FILL_{name}"), value)
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
        if data_type.is_float() {
            little.to_f64(&data_type).map(CfValue::Float)
        } else {
            little.to_i128(&data_type).map(CfValue::Integer)
        }
    };
    values.chunks_exact(size).filter_map(value).collect()
}

/// Returns text as netCDF4-python does: without NULs, and with U+FFFD for what is not UTF-8.
pub(super) fn text(values: &[u8]) -> String {
    String::from_utf8_lossy(values).replace('\0', "")
}
