//! What a batch is built from.

use std::path::PathBuf;

use tokio_util::sync::CancellationToken;
use virtualize::{Format, Options, Relocation, options::OutputFormat, zarr::ZarrFormat};
use virtualize_remedy::similar;
use virtualize_store::Traffic;

use super::{Batch, RunOptions, Shard, write::Combine};
use crate::{
    Along, Layout,
    list::{Assets, Filter, Input},
    plan::PlanOptions,
};

/// Builds a [`Batch`], option by option.
#[derive(Clone, Debug)]
#[must_use]
pub struct BatchBuilder(Batch);

impl BatchBuilder {
    pub(super) fn new(output: String) -> Self {
        let target = Target::of_name(&output);
        Self(Batch {
            inputs: Vec::new(),
            filter: Filter::default(),
            assets: Assets::default(),
            output,
            target: target.unwrap_or_default(),
            each: false,
            combine: Combine { layout: Layout::default(), plan: PlanOptions::default() },
            overwrite: false,
            relocation: Relocation::Keep,
            options: Options::default(),
            run: RunOptions::default(),
            files: 64,
            cancel: CancellationToken::new(),
            command: Vec::new(),
        })
    }

    /// Adds inputs: files, folders, prefixes or patterns such as `s3://bucket/era5/**/*.nc` as text, or lists and STAC
    /// documents, see [`Input`].
    pub fn inputs<T: Into<Input>>(mut self, inputs: impl IntoIterator<Item = T>) -> Self {
        self.0.inputs.extend(inputs.into_iter().map(Into::into));
        self
    }

    /// Sets which of the listed files are selected.
    pub fn filter(mut self, filter: Filter) -> Self {
        self.0.filter = filter;
        self
    }

    /// Sets which assets of STAC items are read.
    pub fn assets(mut self, assets: Assets) -> Self {
        self.0.assets = assets;
        self
    }

    /// Sets the output format; by default the output's extension decides, else it is kerchunk JSON.
    pub fn target(mut self, target: Target) -> Self {
        self.0.target = target;
        self
    }

    /// Writes one output per file below the folder or prefix, instead of one for all files.
    pub fn each(mut self) -> Self {
        self.0.each = true;
        self
    }

    /// Sets how files are combined.
    pub fn layout(mut self, layout: Layout) -> Self {
        self.0.combine.layout = layout;
        self
    }

    /// Sets how incompatible files, and files with equal coordinates, are treated.
    pub fn plan(mut self, options: PlanOptions) -> Self {
        self.0.combine.plan = options;
        self
    }

    /// Concatenates the files along an existing dimension.
    pub fn concat_dim(mut self, name: impl Into<String>) -> Self {
        self.0.combine.layout.along.push(Along::Concat(name.into()));
        self
    }

    /// Stacks the files along a new dimension.
    pub fn stack_dim(mut self, name: impl Into<String>) -> Self {
        self.0.combine.layout.along.push(Along::Stack(name.into()));
        self
    }

    /// Sets whether an output of several files (a folder or prefix) is replaced; a single file always is.
    pub fn overwrite(mut self, overwrite: bool) -> Self {
        self.0.overwrite = overwrite;
        self
    }

    /// Sets how the URLs of sources are written; relative URLs are relative to the output.
    pub fn relocation(mut self, relocation: Relocation) -> Self {
        self.0.relocation = relocation;
        self
    }

    /// Sets how files are opened and mapped. The output format determines the Zarr format.
    pub fn options(mut self, options: Options) -> Self {
        self.0.options = options;
        self
    }

    /// Sets how the run proceeds.
    pub fn run_options(mut self, options: RunOptions) -> Self {
        self.0.run = options;
        self
    }

    /// Sets the path of the journal; by default it is [`crate::journal_beside`] the output.
    pub fn journal(mut self, path: impl Into<PathBuf>) -> Self {
        self.0.run.journal = Some(path.into());
        self
    }

    /// Sets the maximum number of files read at once.
    pub fn files_at_once(mut self, files: usize) -> Self {
        self.0.files = files.max(1);
        self
    }

    /// Sets the shard whose files are read into the journal, without writing the output.
    pub fn shard(mut self, shard: Shard) -> Self {
        self.0.run.shard = Some(shard);
        self
    }

    /// Adds journals of shards, whose files are imported instead of read: files, objects, folders or patterns.
    pub fn merge(mut self, journals: impl IntoIterator<Item = String>) -> Self {
        self.0.run.merge.extend(journals);
        self
    }

    /// Sets the arguments that the journal records, so that people see what to run again. They must contain no secrets.
    pub fn command(mut self, arguments: impl IntoIterator<Item = String>) -> Self {
        self.0.command = arguments.into_iter().collect();
        self
    }

    /// Sets the token that stops the run; files read by then are in the journal.
    pub fn cancel(mut self, token: CancellationToken) -> Self {
        self.0.cancel = token;
        self
    }

    /// Returns the batch.
    pub fn build(mut self) -> Batch {
        self.0.options.map.format = self.0.target.zarr_format();
        self.0.options.store.traffic = Traffic::default();
        self.0
    }
}

/// Extensions of outputs that select a target.
const EXTENSIONS: [&str; 5] = ["json", "parquet", "parq", "zarr", "icechunk"];

/// Output of a batch.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "icechunk", allow(clippy::large_enum_variant, reason = "a run has one"))]
pub enum Target {
    /// References.
    References(Format),
    /// A commit to an Icechunk repository.
    #[cfg(feature = "icechunk")]
    Icechunk(virtualize::CommitOptions),
}

impl Default for Target {
    fn default() -> Self {
        Self::References(Format::KERCHUNK_JSON)
    }
}

impl Target {
    /// Returns the target for the extension of an output: `.json`, `.parquet`, `.parq`, `.zarr`, `.icechunk`.
    pub fn of_name(output: &str) -> Option<Self> {
        Some(match OutputFormat::of_name(output)? {
            OutputFormat::References(format) => Self::References(format),
            #[cfg(feature = "icechunk")]
            OutputFormat::Icechunk => Self::Icechunk(virtualize::CommitOptions::default()),
        })
    }

    /// Describes why the extension of `output` selects no target.
    pub fn unknown_extension(output: &str) -> String {
        let (stem, extension) = output.trim_end_matches('/').rsplit_once('.').unwrap_or((output, ""));
        let meant = similar(extension, EXTENSIONS).map(|meant| format!("did you mean \"{stem}.{meant}\"? "));
        let [others @ .., last] = EXTENSIONS;
        let meant = meant.unwrap_or_default();
        format!("the extension selects no format ({meant}.{} and .{last} do)", others.join(", ."))
    }

    /// Returns the Zarr format to map files to.
    pub fn zarr_format(&self) -> ZarrFormat {
        match self {
            Self::References(format) => format.zarr_format(),
            #[cfg(feature = "icechunk")]
            Self::Icechunk(_) => ZarrFormat::V3,
        }
    }

    /// Returns the extension of outputs.
    pub(super) fn extension(&self) -> &'static str {
        match self {
            Self::References(format) => format.suffix(),
            #[cfg(feature = "icechunk")]
            Self::Icechunk(_) => ".icechunk",
        }
    }
}
