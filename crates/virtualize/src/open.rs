use std::sync::Arc;

use virtualize_bytes::{Budget, Budgeted, ReadError, ReadErrorKind, ReadRanges};
use virtualize_map::{Diagnostic, Mapped, Report, Severity};
use virtualize_store::{Object, Stats};
use virtualize_zarr::{Hierarchy, Source};

use crate::{
    Error, Options, Relocation, carry,
    formats::Model,
    inline::{self, Context},
    others, outside, readable, relocate,
    sniff::sniff,
    sources::Sources,
};

/// A file as a virtual Zarr hierarchy, complete and ready to be written.
#[derive(Clone, Debug)]
pub struct VirtualStore {
    /// Groups, arrays, and where their chunks lie.
    pub hierarchy: Hierarchy,
    /// Decisions and diagnostics.
    pub report: Report,
    /// "HDF5" or "TIFF".
    pub source_format: &'static str,
    name: String,
    object: Option<Arc<Object>>,
    /// Urls of the sources as they were read.
    places: Vec<String>,
    /// Whether all that is known comes from one file.
    alone: bool,
}

impl VirtualStore {
    /// A hierarchy that comes from no single file; `name` is for messages.
    pub fn of(hierarchy: Hierarchy, name: impl Into<String>) -> Self {
        let places = hierarchy.sources.iter().map(|source| source.url.clone()).collect();
        let report = Report::default();
        Self {
            hierarchy,
            report,
            source_format: "references",
            name: name.into(),
            object: None,
            places,
            alone: false,
        }
    }

    /// The file's name for messages: a path, or a url without its query.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The file, where it comes from one.
    pub fn object(&self) -> Option<&Object> {
        self.object.as_deref()
    }

    /// The file, shared.
    pub(crate) fn shared_object(&self) -> Option<Arc<Object>> {
        self.object.clone()
    }

    /// Whether all of it comes from one file: no other was looked for, not even in vain.
    pub fn is_of_one_file(&self) -> bool {
        self.alone
    }

    /// What tells the versions of all files apart that its chunks lie in. `None` where nothing does.
    pub fn stamp(&self) -> Option<String> {
        let own = self.object.as_ref()?.stamp()?;
        let others = self.hierarchy.sources.iter().skip(1);
        Some(others.fold(own, |all, other| {
            format!("{all}\n{} {:?} {} {:?}", other.url, other.etag, other.size, other.modified)
        }))
    }

    /// Urls of all sources as they were read.
    pub(crate) fn places(&self) -> impl Iterator<Item = &str> {
        self.places.iter().map(String::as_str)
    }

    /// Gives the sources other urls; done before the references are written.
    ///
    /// # Errors
    /// [`Error::Relocation`] where a url cannot be written so, or nothing is to be rewritten.
    pub fn relocate(&mut self, relocation: &Relocation) -> Result<(), Error> {
        relocate::relocate(&mut self.hierarchy.sources, relocation)
    }

    /// What reading it took.
    pub fn stats(&self) -> Stats {
        self.object.as_ref().map(|object| object.stats()).unwrap_or_default()
    }

    /// What the user should know, in the order in which it came up.
    pub fn warnings(&self) -> impl Iterator<Item = &Diagnostic> {
        self.report.diagnostics.iter().filter(|diagnostic| diagnostic.severity == Severity::Warning)
    }
}

/// Opens a path or url and maps the file. A file of which nothing can be mapped is refused.
pub async fn open(location: &str, options: &Options) -> Result<VirtualStore, Error> {
    open_object(virtualize_store::open(location, &options.store).await?, options).await
}

/// Maps a file that is open already.
pub async fn open_object(object: Arc<Object>, options: &Options) -> Result<VirtualStore, Error> {
    let budget = Budget::new(&options.limits, options.gate.as_deref());
    budget.add_file(object.bytes());
    let budgeted = Budgeted::new(object.as_ref(), &budget);
    let source: &dyn ReadRanges = &budgeted;
    let kind = match sniff(source).await? {
        Ok(kind) => kind,
        Err(found) => return Err(Error::Format { name: object.name().to_owned(), found }),
    };
    let mut model = Model::read(kind, &object, options, &budget).await?;
    tracing::debug!("{}: metadata read, {:?}", object.name(), object.stats());
    let sources = Sources::new(object.url(), &options.store, &budget);
    let mut others = others::read(&model, &sources, options).await;
    let named = |error: ReadError| named(object.name(), error);
    // Others that were not read for its sake would be taken for others that cannot be read.
    budget.go_on().map_err(named)?;
    model.settle(object.url(), &mut others.files, &budget);
    let mut mapped = model.map(source_of(&object), &others, &options.map, &budget);
    budget.go_on().map_err(named)?;
    outside::check(&mut mapped, &sources).await?;
    let context = Context {
        source,
        limits: &options.limits,
        model: &model,
        others: &others,
        sources: &sources,
        files: mapped.hierarchy.sources.clone(),
    };
    inline::lerc::check(&context, &options.map, &mut mapped).await.map_err(named)?;
    inline::jpeg::check(&context, &mut mapped).await.map_err(named)?;
    inline::run(&context, &mut mapped).await.map_err(named)?;
    readable::adapt(&mut mapped, &options.readable_by, &options.map);
    inline::run(&context, &mut mapped).await.map_err(named)?;
    readable::leave_out_unreadable(&mut mapped, &options.readable_by);
    carry::run(&context, &mut mapped, &options.carry).await?;
    budget.go_on().map_err(named)?;
    object.verify()?;
    sources.verify().await?;
    let format = model.format();
    let alone = others.is_empty() && mapped.hierarchy.sources.len() <= 1;
    let Mapped { hierarchy, report, .. } = accept(object.name(), mapped, options.strict)?;
    let places = hierarchy.sources.iter().map(|source| source.url.clone()).collect();
    let name = object.name().to_owned();
    Ok(VirtualStore { hierarchy, report, source_format: format, name, object: Some(object), places, alone })
}

pub(crate) fn source_of(object: &Object) -> Source {
    Source {
        url: object.url().to_owned(),
        etag: object.etag().map(str::to_owned),
        size: object.size(),
        modified: object.modified(),
    }
}

/// An error of a limit, with the file that passes it.
fn named(name: &str, error: ReadError) -> ReadError {
    match error.kind {
        ReadErrorKind::Limit => ReadError::new(error.kind, format!("{name}: {error}")),
        _ => error,
    }
}

/// Refuses what must not be written.
fn accept(name: &str, mapped: Mapped, strict: bool) -> Result<Mapped, Error> {
    let of = |severity| {
        let all = mapped.report.diagnostics.iter();
        all.filter(|diagnostic| diagnostic.severity == severity).cloned().collect::<Vec<_>>()
    };
    let name = || name.to_owned();
    let errors = of(Severity::Error);
    if !errors.is_empty() {
        return Err(Error::Refused { name: name(), diagnostics: errors });
    }
    let warnings = of(Severity::Warning);
    // Arrays that the mapping adds, such as the numbers of bands, have no report.
    let kept = mapped.hierarchy.arrays().iter().any(|(path, _)| mapped.report.arrays.contains_key(path));
    let lost_all = !kept && mapped.report.arrays.values().any(|array| array.left_out.is_some());
    if lost_all {
        return Err(Error::Refused { name: name(), diagnostics: warnings });
    }
    if strict && !warnings.is_empty() {
        return Err(Error::Strict { name: name(), diagnostics: warnings });
    }
    Ok(mapped)
}
