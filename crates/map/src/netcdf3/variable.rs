//! Mapping of one variable to one array.

use virtualize_netcdf3::model::Variable;
use virtualize_remedy::{Code, Remedy};
use virtualize_zarr::{Array, ChunkGrid, ChunkManifest, Codec, Endian, FillValue, ZarrFormat};

use super::Mapper;
use super::attributes::{attributes_json, cf_attributes, source_attributes};
use super::chunks::{ChunkPlan, ChunkPlanner, SMALL_RECORD};
use super::fill::VariableFill;
use super::types::data_type;
use crate::budget::{chunk_bytes, task_bytes};
use crate::cf::{
    CfAttributes, FillPlan, FillQuestion, check_factors, unpack, widened_packing, write_sentinels,
};
use crate::unpack::refusal_diagnostic;
use crate::{ArrayReport, ChunkContent, Error, FillPolicy, InlineTask, Result, Severity, check_metadata};

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
