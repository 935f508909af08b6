//! Mapping of one dataset to one array.

use std::sync::Arc;

use virtualize_hdf5::model::{
    ByteOrder, CharacterSet, ChunkIndexKind, Dataset, Dataspace, Datatype, File, Filter, Integer, Layout,
    Object,
};
use virtualize_remedy::{Code, OptionName, Remedy};
use virtualize_zarr::{Array, ChunkGrid, ChunkManifest, FillValue, ZarrFormat};

use super::Mapper;
use super::attributes::cf_attributes;
use super::chunks::{ChunkPlanner, can_encode, is_reference, item_type};
use super::datatype::{ElementType, array_member, element_type, has_times, ieee_type, time_without_unit};
use super::dimensions::AxisDimension;
use super::fill::{DatasetFill, fill_origin};
use crate::cf::packing::refusal_diagnostic;
use crate::cf::{FillQuestion, check_factors, unpack, widened_packing};
use crate::mapped::{chunk_bytes, task_bytes};
use crate::report::chunk_count;
use crate::{ArrayReport, ChunkContent, Diagnostic, Error, FillPolicy, InlineTask, Result, check_metadata};

/// Bytes of memory for a member of a datatype, whose name appears in metadata and attributes.
const MEMBER: u64 = 1 << 10;

impl Mapper<'_> {
    /// Maps a dataset. Returns `None`, and reports why, if the dataset is omitted. `axes` are the dimensions of its dataspace.
    pub(super) fn array(&mut self, path: &str, dataset: &Dataset, axes: Vec<AxisDimension>) -> Option<Array> {
        let mut report = ArrayReport {
            is_ascii: matches!(
                &dataset.datatype,
                Datatype::VariableString { charset: CharacterSet::Ascii, .. }
            ),
            ..ArrayReport::default()
        };
        report.describe(dataset, self.own.file);
        let mapped = self.try_array(path, dataset, axes, &mut report);
        if let Err(error) = &mapped {
            self.array_omitted(path, error);
            report.omitted = Some(error.to_string());
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
        let is_pytables = || match self.own.file.objects.get(&self.own.file.root) {
            Some(Object::Group(root)) => {
                root.attributes.iter().any(|attribute| attribute.name == "PYTABLES_FORMAT_VERSION")
            }
            _ => false,
        };
        if has_times(&dataset.datatype) && !is_pytables() {
            return Err(Error::unsupported("a time", "HDF5 does not define its meaning"));
        }
        let item = item_type(&dataset.datatype);
        // Other sequences were flattened before.
        if let Datatype::Sequence { base, .. } = item {
            return Err(match element_type(base, self.options.format) {
                Ok(_) => Error::no_data_type(describe_type(&dataset.datatype))
                    .or(Remedy::turn_on(OptionName::Ragged, "write it as a contiguous ragged array")),
                Err(error) => Error::unsupported("items of a sequence", error.to_string()),
            });
        }
        let array_member = array_member(item);
        if let Some(name) = array_member.filter(|_| !self.options.ragged) {
            let message =
                format!("the compound member \"{name}\" is an array, which Zarr structures cannot hold");
            let effect = "map its items as fields named 0, 1, …";
            return Err(Error::refused(message).or(Remedy::turn_on(OptionName::Ragged, effect)));
        }
        let element = element_type(&dataset.datatype, self.options.format)?;
        let meanings = cf_attributes(dataset);
        check_factors(&meanings)?;
        let shape = array_shape(dataset, &element);
        let array_fill = DatasetFill::of(dataset, &element)?;
        let planner = ChunkPlanner {
            dataset,
            element: &element,
            shape: &shape,
            background: array_fill.background(),
            objects: &Arc::clone(&self.names),
            options: self.options,
            small_records: self.small_records,
            context: self.file_context(),
        };
        let mut plan = planner.plan()?;
        let note = plan.note.take();
        self.report.diagnostics.extend(note.map(|note| Diagnostic { path: format!("/{path}"), ..note }));
        const SHORT: &str = "the variable is shorter than its unlimited dimensions";
        let padded = match planner.padded(&mut plan, &axes) {
            Ok(padded) => padded,
            Err(error) => {
                let message = format!("{SHORT} and cannot be padded: {error}");
                self.report.warn(Code::ArrayNotPadded, path, message);
                None
            }
        };
        let (mut shape, mut array_fill) = (shape.clone(), array_fill.clone());
        if let Some(padded) = padded {
            let message = format!("{SHORT}: padded with its fill value to {:?}", padded.shape);
            self.report.info(Code::ArrayPadded, path, message);
            (shape, array_fill.unallocated) = (padded.shape, padded.fill);
        }
        let planner = ChunkPlanner { shape: &shape, background: array_fill.background(), ..planner };
        // The keys of references repeat the path.
        self.take("chunk tables", chunk_bytes(plan.chunks.len(), path))?;
        let made = plan.inline.len() as u64;
        let pieces = plan.inline.iter().map(|(_, content)| content.pieces().len()).sum::<usize>() as u64;
        let chunk_size = planner.made_bytes(&plan.chunk_shape);
        let decoded = chunk_size.unwrap_or(u64::MAX).saturating_mul(made);
        self.take("inlined chunks", task_bytes(made, pieces, decoded, path))?;
        let missing = plan.missing_count(&shape);
        array_fill.check_missing(missing)?;
        // Constant chunks must not make the references large. Compressed ones are small.
        let copies = if plan.codecs.len() > 1 { 1 } else { missing };
        let question = FillQuestion {
            format: self.options.format,
            data_type: &element.data_type,
            policy: FillPolicy(if self.own.file.classic.is_some() { "netcdf-fill" } else { "hdf5-header" }),
            origin: fill_origin(&dataset.fill, &element.data_type),
            header: &array_fill.header,
            missing_reads: &array_fill.unallocated,
            attributes: &meanings,
            missing: missing > 0,
            constant_chunks_allowed: missing <= self.options.constant_chunk_limit
                && plan.codecs.iter().all(can_encode)
                && matches!(planner.background, Some(FillValue::Fixed(_)))
                && chunk_size
                    .and_then(|bytes| bytes.checked_mul(copies))
                    .is_some_and(|bytes| bytes <= self.options.inline_limit),
        };
        let fill = question.decide();
        if let Some(why) = &plan.inline_reason {
            let message = format!("inlined {}: {why}", chunk_count(plan.inline.len() as u64));
            self.report.info(Code::ChunksInlined, path, message);
        }
        if let [first, ..] = plan.missing_files.as_slice() {
            let count = plan.missing_files.len();
            let message = format!(
                "{count} of its source files do not exist (\"{first}\"): their elements read as the fill value"
            );
            self.report.warn(Code::SourceMissing, path, message);
        }
        for (code, message) in &fill.warnings {
            self.report.warn(*code, path, message);
        }
        if is_reference(&dataset.datatype) {
            let message = "references are mapped to the paths of their targets";
            self.report.info(Code::ReferenceAsPath, path, message);
        }
        if let Some(time) = time_without_unit(&dataset.datatype, false) {
            let why = match item {
                Datatype::Compound { .. } => "a field of a structure has no attributes",
                _ => "CF has no such unit",
            };
            let message = format!("the NumPy times of type {time} are mapped without their unit: {why}");
            self.report.warn(Code::AttributeOmitted, path, message);
        }
        if let Some(name) = array_member {
            let message =
                format!("the member \"{name}\" is an array: its items are fields named \"0\", \"1\", …");
            self.report.info(Code::ArrayMemberAsFields, path, message);
        }
        let attributes = self.array_attributes(path, dataset, &meanings, &element.data_type, &fill);
        plan.renumber(&self.own.source.url, &mut self.sources)?;
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
        let is_enumeration = matches!(item, Datatype::Enum { .. });
        let name = path.rsplit('/').next().unwrap_or(path);
        if self.options.unpack
            && self.options.format == ZarrFormat::V3
            && !is_enumeration
            && let Err(why) = unpack(&meanings, self.time_bounds.contains(name), &mut array, report)
        {
            self.report.diagnostics.push(refusal_diagnostic(&why, path));
        }
        if let Some(message) = widened_packing(&meanings, &element.data_type, &array.attributes) {
            self.report.warn(Code::PackingWidened, path, message);
        }
        check_metadata(&array, self.options.format)?;
        let task = |positions, content| InlineTask { array: path.to_owned(), positions, content };
        if fill.constant_chunks {
            let (shape, background) = (plan.chunk_shape.clone(), planner.background_bytes());
            let content = ChunkContent::Assemble { shape, background, pieces: Vec::new() };
            self.tasks.push(task(plan.missing_positions(planner.shape), content));
        }
        self.tasks.extend(plan.inline.into_iter().map(|(position, content)| task(vec![position], content)));
        Ok(Array { chunks: plan.chunks, ..array })
    }
}

impl ArrayReport {
    /// Sets the type, layout (such as "chunked [10, 20], version-1 B-tree") and filters of a dataset.
    pub(super) fn describe(&mut self, dataset: &Dataset, file: &File) {
        self.source_type = describe_type(&dataset.datatype);
        self.source_layout = match &dataset.layout {
            Layout::Compact(_) => "compact".to_owned(),
            Layout::Contiguous(Some(_)) => "contiguous".to_owned(),
            Layout::Contiguous(None) => "contiguous, never allocated".to_owned(),
            Layout::Records(first) => match &file.classic {
                Some(classic) if classic.stride != first.length => {
                    "records, alternating with those of other variables".to_owned()
                }
                _ => "records, contiguous".to_owned(),
            },
            Layout::External(segments) => format!("in {} segments of external files", segments.len()),
            Layout::Virtual(mappings) => format!("virtual, {} mappings", mappings.len()),
            Layout::Unreadable(_) => "unreadable".to_owned(),
            Layout::Chunked(chunked) => {
                let index = match chunked.index {
                    ChunkIndexKind::BTree1 => "version-1 B-tree",
                    ChunkIndexKind::Single => "single chunk",
                    ChunkIndexKind::Implicit => "implicit index",
                    ChunkIndexKind::FixedArray => "fixed array",
                    ChunkIndexKind::ExtensibleArray => "extensible array",
                    ChunkIndexKind::BTree2 => "version-2 B-tree",
                };
                format!("chunked {:?}, {index}", chunked.chunk_shape)
            }
        };
        self.source_filters = dataset.filters.iter().map(describe_filter).collect();
    }
}

/// The shape of the array: that of the dataspace, then the axes of an array type. A null dataspace has no elements.
pub(super) fn array_shape(dataset: &Dataset, element: &ElementType) -> Vec<u64> {
    match &dataset.dataspace {
        Dataspace::Null => vec![0],
        space => space.shape().unwrap_or_default().iter().chain(&element.axes).copied().collect(),
    }
}

/// Returns the memory for a datatype. Hard links and committed datatypes can give a large one to many arrays.
fn type_bytes(datatype: &Datatype) -> u64 {
    match datatype {
        Datatype::Compound { members, .. } => {
            let items = |datatype: &Datatype| {
                let (mut item, mut items) = (datatype, 1_u64);
                while let Datatype::Array { base, shape } = item {
                    items = shape.iter().fold(items, |items, length| items.saturating_mul(*length));
                    item = base;
                }
                items
            };
            let members = members.iter().map(|member| {
                type_bytes(&member.datatype).saturating_add(MEMBER).saturating_mul(items(&member.datatype))
            });
            members.fold(MEMBER, u64::saturating_add)
        }
        Datatype::Enum { members, .. } => (members.len() as u64).saturating_mul(MEMBER),
        Datatype::Array { base, .. } | Datatype::Sequence { base, .. } => type_bytes(base),
        _ => 0,
    }
}

/// Describes a datatype, such as "big-endian 16-bit integer".
pub(super) fn describe_type(datatype: &Datatype) -> String {
    match datatype {
        Datatype::Integer(integer) => describe_integer(integer, "integer"),
        Datatype::Bitfield(integer) => describe_integer(integer, "bit field"),
        Datatype::Float(float) => {
            let name = format!("{}{}-bit float", order(float.order, float.size), float.precision);
            if ieee_type(float).is_some() {
                return name;
            }
            format!(
                "{name} (sign at {}, {} exponent bits at {}, {} mantissa bits at {}, bias {})",
                float.sign_location,
                float.exponent_size,
                float.exponent_location,
                float.mantissa_size,
                float.mantissa_location,
                float.exponent_bias
            )
        }
        Datatype::Time { size, .. } => format!("time of {size} bytes"),
        Datatype::String { size, .. } => format!("string of {size} bytes"),
        Datatype::Opaque { size, tag } if tag.is_empty() => format!("opaque data of {size} bytes"),
        Datatype::Opaque { size, tag } => format!("opaque data of {size} bytes (\"{tag}\")"),
        Datatype::Compound { size, members } => {
            let names: Vec<_> = members.iter().map(|member| member.name.as_str()).collect();
            format!("compound of {size} bytes ({})", names.join(", "))
        }
        Datatype::Reference { kind, .. } => format!("reference ({kind:?})"),
        Datatype::Enum { base, members } => {
            format!("enumeration of {} values of {}", members.len(), describe_type(base))
        }
        Datatype::Sequence { base, .. } => format!("variable-length sequence of {}", describe_type(base)),
        Datatype::VariableString { .. } => "variable-length string".to_owned(),
        Datatype::Array { base, shape } => format!("array {shape:?} of {}", describe_type(base)),
        Datatype::Complex { base } => format!("complex number of two {}", describe_type(base)),
    }
}

fn describe_integer(integer: &Integer, what: &str) -> String {
    let sign = if integer.signed { "" } else { "unsigned " };
    let bits = integer.size.saturating_mul(8);
    let whole = u32::from(integer.precision) == bits && integer.bit_offset == 0;
    let within = if whole { String::new() } else { format!(" from bit {} of {bits}", integer.bit_offset) };
    format!("{}{sign}{}-bit {what}{within}", order(integer.order, integer.size), integer.precision)
}

fn order(order: ByteOrder, size: u32) -> &'static str {
    match order {
        _ if size <= 1 => "",
        ByteOrder::Little => "little-endian ",
        ByteOrder::Big => "big-endian ",
        ByteOrder::Vax => "VAX-ordered ",
    }
}

/// Returns the name of a filter with its number in the registry of the HDF Group.
pub(super) fn describe_filter(filter: &Filter) -> String {
    let name = match (filter.id, &filter.name) {
        (1, _) => "deflate",
        (2, _) => "shuffle",
        (3, _) => "fletcher32",
        (4, _) => "szip",
        (5, _) => "nbit",
        (6, _) => "scale-offset",
        (307, _) => "bzip2",
        (305, _) => "LZO",
        (32000, _) => "LZF",
        (32001, _) => "Blosc",
        (32004, _) => "LZ4",
        (32008, _) => "bitshuffle",
        (32013, _) => "ZFP",
        (32015, _) => "Zstandard",
        (32017, _) => "SZ",
        (32018, _) => "FCIDECOMP",
        (32024, _) => "SZ3",
        (32026, _) => "Blosc2",
        (32028, _) => "SPERR",
        (_, Some(name)) if !name.is_empty() => name.as_str(),
        _ => "unknown",
    };
    format!("{name} ({})", filter.id)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Names and numbers are those of the HDF Group's registry of filters.
    #[test]
    fn filters_have_their_registered_names() {
        let names = [
            (1, "deflate"),
            (2, "shuffle"),
            (3, "fletcher32"),
            (4, "szip"),
            (5, "nbit"),
            (6, "scale-offset"),
            (305, "LZO"),
            (307, "bzip2"),
            (32000, "LZF"),
            (32001, "Blosc"),
            (32004, "LZ4"),
            (32008, "bitshuffle"),
            (32013, "ZFP"),
            (32015, "Zstandard"),
            (32017, "SZ"),
            (32018, "FCIDECOMP"),
            (32024, "SZ3"),
            (32026, "Blosc2"),
            (32028, "SPERR"),
            (32099, "unknown"),
        ];
        for (id, name) in names {
            for given in [None, Some(String::new())] {
                let filter = Filter { id, name: given, optional: false, parameters: Vec::new() };
                assert_eq!(describe_filter(&filter), format!("{name} ({id})"));
            }
        }
        let filter = Filter { id: 32099, name: Some("own".into()), optional: false, parameters: Vec::new() };
        assert_eq!(describe_filter(&filter), "own (32099)");
    }

    #[test]
    fn opaque_data_have_their_tag() {
        let opaque = |tag: &str| describe_type(&Datatype::Opaque { size: 3, tag: tag.into() });
        assert_eq!(opaque(""), "opaque data of 3 bytes");
        assert_eq!(opaque("x"), "opaque data of 3 bytes (\"x\")");
    }
}
