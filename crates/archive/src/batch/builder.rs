use std::{path::PathBuf, time::Duration};

use tokio_util::sync::CancellationToken;
use virtualize::{Options, Relocation};

use super::{Batch, Target, output::Combine};
use crate::{
    Along, Layout,
    list::{Assets, Filter, Input},
    plan::PlanOptions,
};

/// Says, option by option, what a [`Batch`] is to do.
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
            journal: None,
            files: 64,
            attempts: 3,
            wait: Duration::from_secs(1),
            retry_failed: false,
            max_failures: 0,
            skip_failed: false,
            append: false,
            drop_vanished: false,
            drop_unwritten: false,
            reread_changed: false,
            recheck: true,
            restart: false,
            cancel: CancellationToken::new(),
        })
    }

    /// Files, folders, prefixes or patterns such as `s3://bucket/era5/**/*.nc`, where text is given; or lists and STAC
    /// documents, see [`Input`].
    pub fn inputs<T: Into<Input>>(mut self, inputs: impl IntoIterator<Item = T>) -> Self {
        self.0.inputs.extend(inputs.into_iter().map(Into::into));
        self
    }

    /// Which of the files that are found are wanted.
    pub fn filter(mut self, filter: Filter) -> Self {
        self.0.filter = filter;
        self
    }

    /// Which assets of STAC items are read.
    pub fn assets(mut self, assets: Assets) -> Self {
        self.0.assets = assets;
        self
    }

    /// What is written; by default what the output's name says, else kerchunk's JSON.
    pub fn target(mut self, target: Target) -> Self {
        self.0.target = target;
        self
    }

    /// One output a file below the folder or prefix, instead of one for all.
    pub fn each(mut self) -> Self {
        self.0.each = true;
        self
    }

    /// Along which dimensions the files are put together, and how.
    pub fn layout(mut self, layout: Layout) -> Self {
        self.0.combine.layout = layout;
        self
    }

    /// What is done with files that disagree, or have the same coordinates.
    pub fn plan(mut self, options: PlanOptions) -> Self {
        self.0.combine.plan = options;
        self
    }

    /// The files are put together along a dimension that they have.
    pub fn concat_dim(mut self, name: impl Into<String>) -> Self {
        self.0.combine.layout.along.push(Along::Concat(name.into()));
        self
    }

    /// The files are put together along a new dimension.
    pub fn stack_dim(mut self, name: impl Into<String>) -> Self {
        self.0.combine.layout.along.push(Along::Stack(name.into()));
        self
    }

    /// Folders that are there are replaced (a single file is always).
    pub fn overwrite(mut self, overwrite: bool) -> Self {
        self.0.overwrite = overwrite;
        self
    }

    /// How urls of sources are written. Where they are to be relative, they are so to the output.
    pub fn relocation(mut self, relocation: Relocation) -> Self {
        self.0.relocation = relocation;
        self
    }

    /// How files are reached and mapped. The Zarr format follows from the target.
    pub fn options(mut self, options: Options) -> Self {
        self.0.options = options;
        self
    }

    /// Where the journal is kept; by default [`crate::journal_beside`] the output.
    pub fn journal(mut self, path: impl Into<PathBuf>) -> Self {
        self.0.journal = Some(path.into());
        self
    }

    /// Most files that are read at once.
    pub fn files_at_once(mut self, files: usize) -> Self {
        self.0.files = files.max(1);
        self
    }

    /// How often a file is tried where a store fails or the file changes, and how long the first wait is.
    pub fn attempts(mut self, attempts: u32, wait: Duration) -> Self {
        (self.0.attempts, self.0.wait) = (attempts.max(1), wait);
        self
    }

    /// Files that failed before are tried again.
    pub fn retry_failed(mut self, retry: bool) -> Self {
        self.0.retry_failed = retry;
        self
    }

    /// How many files may fail: the output is written without them.
    pub fn max_failures(mut self, files: u64) -> Self {
        self.0.max_failures = files;
        self
    }

    /// Any number of files may fail.
    pub fn skip_failed(mut self, skip: bool) -> Self {
        self.0.skip_failed = skip;
        self
    }

    /// The files of this run come to those that the journal has, whatever inputs these came from.
    pub fn append(mut self, append: bool) -> Self {
        self.0.append = append;
        self
    }

    /// Files that are no longer listed are left out, instead of being an error.
    pub fn drop_vanished(mut self, drop: bool) -> Self {
        self.0.drop_vanished = drop;
        self
    }

    /// Files that earlier runs added and that are in no output, and that this one does not name, are forgotten.
    pub fn drop_unwritten(mut self, drop: bool) -> Self {
        self.0.drop_unwritten = drop;
        self
    }

    /// With [`BatchBuilder::append`], files of earlier runs that were replaced since are read again, instead of being an
    /// error.
    pub fn reread_changed(mut self, reread: bool) -> Self {
        self.0.reread_changed = reread;
        self
    }

    /// Whether files that were read before are looked at once more where the listing does not say what they are now; it is
    /// so by default.
    pub fn recheck(mut self, recheck: bool) -> Self {
        self.0.recheck = recheck;
        self
    }

    /// Begins anew, whatever the journal has.
    pub fn restart(mut self, restart: bool) -> Self {
        self.0.restart = restart;
        self
    }

    /// Stops the run when it is cancelled; what is done by then is in the journal.
    pub fn cancel(mut self, token: CancellationToken) -> Self {
        self.0.cancel = token;
        self
    }

    /// What is to be done.
    pub fn build(mut self) -> Batch {
        self.0.options.map.format = self.0.target.zarr_format();
        self.0
    }
}
