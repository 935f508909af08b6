//! Opens files and references: the steps from a url to a complete hierarchy.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Arc, Mutex},
};

use futures::StreamExt;
use virtualize_bytes::{Budget, Budgeted, ByteRange, ReadError, ReadErrorKind, ReadRanges};
use virtualize_map::{
    Axis, Diagnostic, Mapped, SampleLimits, Severity, describe_grids, grid_axes, regular_axis, sample,
    settle, tiff,
};
use virtualize_remedy::Code;
use virtualize_store::{Object, StoreError, StoreOptions};
use virtualize_zarr::{
    Array, Chunk, ChunkManifest, ChunkReader, Group, Hierarchy, Node, ReferencesBuilder, Source, SourceId,
    ZarrFormat, cf::conventions,
};

use crate::{
    chunks::{Interrupt, interruptible},
    error::{ArrayError, Error, warning},
    inline::{self, ChunkMaker},
    options::{Options, ReadOptions},
    read::read_array_within,
    references::{OpenReferences, Tables, convert, open_references, resolved},
    source_formats::{SourceFile, SourceFormat, detect, hdf5},
    sources::{Sources, head, lock, source_of},
    store::VirtualStore,
};

/// Opens a path or url: an HDF5, NetCDF or TIFF file, which is mapped, or references in any format that
/// [`crate::read_references`] reads, which are translated to the Zarr format of the options. A file in which nothing can be
/// mapped is rejected. [`LazyStore::open`] does the same without reading all chunk tables of references.
///
/// # Errors
/// [`Error::Store`] if the file cannot be opened, otherwise those of [`open_object`], [`crate::read_references`] and
/// [`crate::convert`].
pub async fn open(location: &str, options: &Options) -> Result<VirtualStore, Error> {
    let store = LazyStore::open(location, options).await?.complete().await?;
    Ok(Arc::try_unwrap(store).unwrap_or_else(|store| VirtualStore::clone(&store)))
}

/// Maps a file that is open already.
///
/// # Errors
/// [`Error::Format`], [`Error::Structure`] if the file cannot be read; [`Error::Refused`] if nothing can
/// be mapped or the user has to decide; [`Error::Strict`] if there are warnings and `strict` is set; [`Error::Read`]
/// if the file or one that it refers to changed or became unreadable.
pub async fn open_object(object: Arc<Object>, options: &Options) -> Result<VirtualStore, Error> {
    let budget = Budget::new(&options.limits, options.gate.as_deref());
    budget.add_file(object.bytes());
    let (object, sidecar) =
        match virtualize_dmrpp::is_dmrpp(&head(&Budgeted::new(object.as_ref(), &budget)).await?) {
            true => (hdf5::open_data_file(&object, &options.store).await?, Some(object)),
            false => (object, None),
        };
    budget.add_file(sidecar.as_ref().map_or(0, |_| object.bytes()));
    let sources = Sources::new(object.url(), &options.store, &budget);
    sources.note(&object);
    let (mut file, unused) = read(&object, sidecar.as_ref(), &sources, options).await?;
    let read = read_values(&object, &mut file, &sources, options).await;
    read.map_err(|error| named(object.name(), error))?;
    let mapped = map(&object, &file, &sources, options).await;
    let mut mapped = mapped.map_err(|error| named(object.name(), error))?;
    mapped.report.diagnostics.extend(unused);
    object.verify()?;
    sources.verify().await?;
    let Mapped { hierarchy, report, .. } = accept(object.name(), mapped, options.strict)?;
    let has_related = file.has_related() || sidecar.is_some() || options.dmrpp;
    let mut store = VirtualStore {
        is_of_one_file: !has_related && hierarchy.sources.len() <= 1,
        report,
        source_format: file.format_name(),
        whole: sources.whole(),
        related: sources.related(),
        ..VirtualStore::of(hierarchy, object.name())
    };
    store.object = Some(object);
    if options.map.spatial_conventions {
        declare_grids(&mut store, &options.store).await;
    }
    Ok(store)
}

/// Reads the metadata of a file, from a sidecar if there is one that suffices, and of the files that it refers to. Also
/// returns why a sidecar was not used.
async fn read(
    object: &Arc<Object>,
    sidecar: Option<&Arc<Object>>,
    sources: &Sources<'_>,
    options: &Options,
) -> Result<(SourceFile, Option<Diagnostic>), Error> {
    let budget = sources.budget;
    let format = detect(&Budgeted::new(object.as_ref(), budget)).await?;
    let format = format.map_err(|found| Error::Format { name: object.name().to_owned(), found })?;
    let mut unused = None;
    if format == SourceFormat::Hdf5 && (sidecar.is_some() || options.dmrpp) {
        match hdf5::Files::of_sidecar(object, sidecar, sources, &options.limits).await {
            Ok(files) => return Ok((SourceFile::Hdf5(files), None)),
            Err(reason) => {
                tracing::info!("{}: no sidecar is used: {reason}", object.name());
                let message = format!("the file was read without a DMR++ sidecar: {reason}");
                let unused_sidecar = warning(Code::SidecarNotUsed, "", message);
                unused = Some(Diagnostic { severity: Severity::Info, ..unused_sidecar });
            }
        }
        budget.go_on().map_err(|error| named(object.name(), error))?;
    }
    let mut file = format.read(object, options, budget).await?;
    tracing::debug!("{}: metadata read, {:?}", object.name(), object.stats());
    file.read_related(sources, options).await;
    // Without this check, files that the gate prevented from being read would count as unreadable.
    budget.go_on().map_err(|error| named(object.name(), error))?;
    Ok((file, unused))
}

/// Reads the values of datasets that are mapped by their values.
async fn read_values(
    object: &Arc<Object>,
    file: &mut SourceFile,
    sources: &Sources<'_>,
    options: &Options,
) -> Result<(), ReadError> {
    let budget = sources.budget;
    let SourceFile::Hdf5(files) = &*file else { return Ok(()) };
    let tasks = files.heap_tasks(&source_of(object), &options.map, budget);
    let own = Budgeted::new(object.as_ref(), budget);
    let reads = tasks.into_iter().map(|(key, task)| {
        let (own, limits, file) = (&own, &options.limits, &*file);
        async move {
            let Ok(found) = &task else { return Ok((key, task, Err(String::new()))) };
            let maker = ChunkMaker { own, limits, file, sources, urls: found.sources.clone() };
            let values = inline::heap_values(&maker, found).await?;
            Ok((key, task, values))
        }
    });
    let read: Vec<Result<_, ReadError>> = sources.several(reads).collect().await;
    let SourceFile::Hdf5(files) = file else { return Ok(()) };
    for found in read {
        let (key, task, values) = found?;
        files.flatten(key, task, values, budget);
    }
    Ok(())
}

/// Maps a file, and creates the chunks that references cannot express.
async fn map(
    object: &Arc<Object>,
    file: &SourceFile,
    sources: &Sources<'_>,
    options: &Options,
) -> Result<Mapped, ReadError> {
    let budget = sources.budget;
    let mut mapped = file.map(source_of(object), &options.map, budget);
    budget.go_on()?;
    let urls: Vec<String> = mapped.hierarchy.sources.iter().map(|source| source.url.clone()).collect();
    mapped.record_versions(sources.versions(urls.get(1..).unwrap_or_default().to_vec()).await?);
    let own = Budgeted::new(object.as_ref(), budget);
    let maker = ChunkMaker { own: &own, limits: &options.limits, file, sources, urls };
    let masks = inline::lerc_masks(&maker, &mapped).await?;
    tiff::settle_lerc(&mut mapped, masks, &options.map);
    if let Some((limits, code)) = sample_limits(&own, file).await? {
        let findings = inline::examine(&maker, &mapped, sample(&mapped, limits)).await?;
        settle(&mut mapped, findings, code, &options.map);
    }
    mapped.adapt_to(&options.readable_by, &options.map);
    inline::run(&maker, &mut mapped).await?;
    inline::small::run(&maker, &mut mapped, &options.inline).await?;
    if options.ome_zarr
        && let Err(refused) = tiff::arrange_as_ome_zarr(&mut mapped)
    {
        mapped.report.diagnostics.push(refused);
    }
    budget.go_on()?;
    Ok(mapped)
}

/// Returns how many chunks are decoded before arrays are offered, and the code of arrays that cannot be read; `None` where
/// that would cost a request, and writers are known to encode chunks exactly: HDF5, and GDAL's COGs.
async fn sample_limits(
    own: &Budgeted<'_>,
    file: &SourceFile,
) -> Result<Option<(SampleLimits, Code)>, ReadError> {
    const GDAL: &[u8] = b"GDAL_STRUCTURAL_METADATA_SIZE=";
    let local = SampleLimits { chunks: 16, stored: 4 << 20, decoded: 64 << 20 };
    let remote = SampleLimits { chunks: 2, stored: 1 << 20, ..local };
    Ok(match file {
        SourceFile::Netcdf3(_) => None,
        SourceFile::Hdf5(_) if own.is_local() => {
            Some((SampleLimits { chunks: 2, ..local }, Code::ArrayOmitted))
        }
        SourceFile::Hdf5(_) => None,
        SourceFile::Tiff(_) if own.is_local() => Some((local, Code::TiffMalformed)),
        SourceFile::Tiff(_) => {
            let front = own.read_ranges(&[ByteRange::new(0, own.size().min(64))]).await?;
            let is_exact = front.iter().any(|front| front.windows(GDAL.len()).any(|window| window == GDAL));
            (!is_exact).then_some((remote, Code::TiffMalformed))
        }
    })
}

/// Adds the name of the file to an error of a limit.
fn named(name: &str, error: ReadError) -> ReadError {
    match error.kind {
        ReadErrorKind::Limit => ReadError { message: format!("{name}: {error}").into(), ..error },
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
    let lost_all = !kept && mapped.report.arrays.values().any(|array| array.omitted.is_some());
    if lost_all {
        return Err(Error::Refused { name: name(), diagnostics: warnings });
    }
    if strict && !warnings.is_empty() {
        return Err(Error::Strict { name: name(), diagnostics: warnings });
    }
    Ok(mapped)
}

/// Bytes of tables that are kept besides the last ones that were needed.
const KEPT: usize = 256 << 20;
/// Bytes of a reference in memory, at most.
const REFERENCE: usize = 40;
/// Bytes as which an array without chunks counts, so that a few thousand are kept.
const ARRAY: usize = 64 << 10;

/// A file or references, opened. Of references that are stored in parts (kerchunk's Parquet layout, Icechunk), only the
/// metadata is read; chunk tables are read when a selection needs them.
pub struct LazyStore {
    metadata: Arc<VirtualStore>,
    version: Vec<Source>,
    /// Where chunk tables come from; `None` if the metadata has all chunks.
    parts: Option<Parts>,
}

struct Parts {
    /// Groups and arrays without chunks, as the references describe them.
    raw: VirtualStore,
    tables: Tables,
    name: String,
    location: String,
    reading: ReadOptions,
    options: Options,
    /// Held while tables are read, so that nothing is read twice.
    busy: futures::lock::Mutex<()>,
    kept: Mutex<Kept>,
}

/// Tables that were read.
#[derive(Default)]
struct Kept {
    complete: Option<Arc<VirtualStore>>,
    /// The least recently used first.
    parts: VecDeque<Part>,
    /// Bytes of all parts.
    bytes: usize,
}

/// Parts of the table of an array.
struct Part {
    path: String,
    numbers: Vec<usize>,
    /// The array with the chunks of the parts.
    store: Arc<VirtualStore>,
    bytes: usize,
}

impl std::fmt::Debug for LazyStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LazyStore").field("name", &self.metadata.name()).finish_non_exhaustive()
    }
}

impl From<Arc<VirtualStore>> for LazyStore {
    fn from(metadata: Arc<VirtualStore>) -> Self {
        let version = metadata.hierarchy.sources.clone();
        Self { metadata, version, parts: None }
    }
}

impl LazyStore {
    /// Opens a path or url, as [`crate::open`] does.
    ///
    /// # Errors
    /// As [`crate::open`].
    pub async fn open(location: &str, options: &Options) -> Result<Self, Error> {
        let file = virtualize_store::open(location, &options.store).await;
        let error = match &file {
            Ok(object) => match open_object(Arc::clone(object), options).await {
                Err(error @ Error::Format { .. })
                    if head(object.as_ref()).await?.trim_ascii_start().starts_with(b"{") =>
                {
                    error
                }
                done => return done.map(|store| Arc::new(store).into()),
            },
            // Web servers list folders as pages.
            Err(
                error @ (StoreError::NotFound { .. } | StoreError::NotAFile { .. } | StoreError::Page { .. }),
            ) => error.clone().into(),
            Err(error) => return Err(error.clone().into()),
        };
        let reading = options.reading();
        match open_references(location, file, &reading).await {
            Ok(opened) => Self::of_references(opened, location, reading, options).await,
            Err(Error::Store(
                StoreError::NotFound { .. } | StoreError::NotAFile { .. } | StoreError::Page { .. },
            )) => Err(error),
            Err(other) => Err(match error {
                // JSON of something else.
                Error::Format { ref found, .. } if found != "looks like Zarr metadata" => error,
                _ => other,
            }),
        }
    }

    async fn of_references(
        opened: OpenReferences,
        location: &str,
        reading: ReadOptions,
        options: &Options,
    ) -> Result<Self, Error> {
        let OpenReferences { name, set, tables, version } = opened;
        let store = resolved(set, &name, location, &reading).await?;
        let raw = store.clone();
        let metadata = of_options(store, options).await?;
        let parts = tables.map(|tables| Parts {
            raw,
            tables,
            name,
            location: location.to_owned(),
            reading,
            options: options.clone(),
            busy: futures::lock::Mutex::default(),
            kept: Mutex::default(),
        });
        Ok(Self { metadata, version: vec![version], parts })
    }

    /// Returns groups and arrays. Arrays have chunks only if [`LazyStore::is_complete`].
    pub fn metadata(&self) -> &Arc<VirtualStore> {
        &self.metadata
    }

    /// Returns whether the metadata has all chunks.
    pub fn is_complete(&self) -> bool {
        self.parts.is_none()
    }

    /// Returns whether chunks are objects of a Zarr store. Missing ones may be written later.
    pub(crate) fn is_native(&self) -> bool {
        self.parts.as_ref().is_some_and(|parts| parts.tables.is_native())
    }

    /// Returns the version of the files that contain the chunks, or of the references: their entity tag, size and
    /// modification time. The entity tag of an Icechunk repository is the id of the snapshot.
    pub fn version(&self) -> &[Source] {
        &self.version
    }

    /// Returns the id of the snapshot of an Icechunk repository.
    pub fn snapshot(&self) -> Option<&str> {
        let is_repository = self.parts.as_ref().is_some_and(|parts| parts.tables.is_repository());
        self.version.first().filter(|_| is_repository)?.etag.as_deref()
    }

    /// Returns the store with all chunks. Reads all tables.
    ///
    /// # Errors
    /// As [`crate::open`].
    pub async fn complete(&self) -> Result<Arc<VirtualStore>, Error> {
        let Some(parts) = &self.parts else { return Ok(Arc::clone(&self.metadata)) };
        let _busy = parts.busy.lock().await;
        if let Some(complete) = lock(&parts.kept).complete.clone() {
            return Ok(complete);
        }
        let all = parts.tables.complete(parts.raw.clone(), false, &parts.location, &parts.reading).await?;
        let complete = of_options(all, &parts.options).await?;
        lock(&parts.kept).complete = Some(Arc::clone(&complete));
        Ok(complete)
    }

    /// Returns a store whose array at `path` has all chunks that it has at `positions`, which are row-major in its grid.
    /// Reading tables asks `interrupt` whether to stop.
    pub(crate) fn with_chunks(
        &self,
        path: &str,
        positions: impl FnOnce() -> Vec<u64>,
        interrupt: Option<&Interrupt>,
    ) -> Result<Arc<VirtualStore>, Error> {
        let Some(parts) = &self.parts else { return Ok(Arc::clone(&self.metadata)) };
        if let Some(complete) = lock(&parts.kept).complete.clone() {
            return Ok(complete);
        }
        let numbers = parts.tables.parts(path, Some(&positions()));
        if numbers.is_empty() {
            // There are no chunks.
            return Ok(Arc::clone(&self.metadata));
        }
        let interrupt = interrupt.map(|interrupt| interrupt as &dyn Fn() -> bool);
        let read = interruptible(parts.read(path, numbers), interrupt);
        let stopped = || Error::of_array(self.metadata.name(), path, ArrayError::Interrupted);
        futures::executor::block_on(read).unwrap_or_else(|| Err(stopped()))
    }
}

impl Parts {
    /// Returns a store with one array, which has the chunks of some parts of its table.
    async fn read(&self, path: &str, numbers: Vec<usize>) -> Result<Arc<VirtualStore>, Error> {
        let _busy = self.busy.lock().await;
        if let Some(found) = lock(&self.kept).find(path, &numbers) {
            return Ok(found);
        }
        let wanted = [(path.to_owned(), numbers)];
        let read = self.tables.read(&wanted, &self.name, &self.location, &self.reading).await?;
        let Options { map, store: options, .. } = &self.options;
        let store = Arc::new(convert(read, map.format, false, options).await?);
        let [(path, numbers)] = wanted;
        // Objects of a Zarr store that are missing may be written later.
        let is_whole = || {
            let chunks = store.hierarchy.array(&path).map(|array| array.chunks.iter());
            let found: Vec<u64> = chunks.into_iter().flatten().map(|(position, _)| position).collect();
            self.tables.parts(&path, Some(&found)) == numbers
        };
        if !self.tables.is_native() || is_whole() {
            lock(&self.kept).keep(path, numbers, &store);
        }
        Ok(store)
    }
}

impl Kept {
    fn find(&mut self, path: &str, numbers: &[usize]) -> Option<Arc<VirtualStore>> {
        let at = self.parts.iter().position(|part| part.path == path && part.numbers == numbers)?;
        let found = self.parts.remove(at)?;
        let store = Arc::clone(&found.store);
        self.parts.push_back(found);
        Some(store)
    }

    fn keep(&mut self, path: String, numbers: Vec<usize>, store: &Arc<VirtualStore>) {
        let chunks = store.hierarchy.array(&path).map_or(0, |array| bytes_of(&array.chunks));
        let sources = store.hierarchy.sources.iter();
        let urls: usize = sources.map(|source| source.url.len() + size_of::<Source>()).sum();
        let bytes = ARRAY + chunks + urls + numbers.len() * size_of::<usize>();
        self.bytes += bytes;
        self.parts.push_back(Part { path, numbers, store: Arc::clone(store), bytes });
        while self.bytes > KEPT && self.parts.len() > 1 {
            self.bytes -= self.parts.pop_front().map_or(0, |part| part.bytes);
        }
    }
}

/// Returns how many bytes chunks take, about.
fn bytes_of(chunks: &ChunkManifest) -> usize {
    let references: usize = chunks.references.iter().map(|column| column.len()).sum();
    let inline: usize = chunks.inline.values().map(|bytes| REFERENCE + bytes.len()).sum();
    references.saturating_mul(REFERENCE).saturating_add(inline)
}

/// Returns references in the Zarr format of the options, with the datasets that groups form together.
async fn of_options(store: VirtualStore, options: &Options) -> Result<Arc<VirtualStore>, Error> {
    let mut store = convert(store, options.map.format, false, &options.store).await?;
    store.combine_segments();
    Ok(Arc::new(store.checked(options.strict)?))
}

/// Maximum size in bytes of the values along an axis.
const MAX_AXIS: u64 = 16 << 20;
/// Maximum number of chunks of the values along an axis.
const MAX_CHUNKS: u64 = 4096;

/// Declares the position of arrays on grids of equal steps, and that of their groups, by the Zarr conventions `spatial` and
/// `proj`. Groups that declare a position already are skipped, as are axes that cannot be read or have missing chunks.
pub(crate) async fn declare_grids(store: &mut VirtualStore, options: &StoreOptions) {
    let is_wanted = |_: &str| true;
    let mut axes = BTreeMap::new();
    for path in grid_axes(&store.hierarchy, &is_wanted) {
        if store.hierarchy.array(&path).is_some_and(|array| is_complete(array, array.chunks.len())) {
            let axis = axis(store, &path, options).await;
            axes.extend(axis.map(|axis| (path, axis)));
        }
    }
    describe_grids(&mut store.hierarchy, &axes, &is_wanted);
}

/// Declares positions as for a single file, in a store whose chunks are read from `chunks`. `is_wanted` selects groups.
pub async fn declare_joined_grids(
    store: &mut VirtualStore,
    chunks: &mut (dyn ChunkReader + '_),
    options: &StoreOptions,
    is_wanted: &(dyn Fn(&str) -> bool + Sync),
) {
    let mut axes = BTreeMap::new();
    for path in grid_axes(&store.hierarchy, is_wanted) {
        let format = store.hierarchy.format;
        let Some(array) = store.hierarchy.array(&path) else { continue };
        if let Some(alone) = alone(array, format, &path, chunks) {
            let axis = axis(&alone, AXIS, options).await;
            axes.extend(axis.map(|axis| (path, axis)));
        }
    }
    describe_grids(&mut store.hierarchy, &axes, is_wanted);
    conventions::describe_levels(&mut store.hierarchy);
}

/// Returns whether an array of this many chunks has all of them, and not too many.
fn is_complete(array: &Array, chunks: u64) -> bool {
    let all = array.chunk_grid.counts(&array.shape).iter().try_fold(1_u64, |all, n| all.checked_mul(*n));
    all == Some(chunks) && chunks <= MAX_CHUNKS
}

async fn axis(store: &VirtualStore, path: &str, options: &StoreOptions) -> Option<Axis> {
    match read_array_within(store, path, MAX_AXIS, options).await {
        Ok(values) => regular_axis(&values.data_type, &values.bytes),
        Err(error) => {
            tracing::debug!("no position is declared: {error}");
            None
        }
    }
}

/// Path of the array in a store that has no other.
const AXIS: &str = "axis";

/// Returns a store of one array; `None` if it lacks chunks.
fn alone(
    array: &Array,
    format: ZarrFormat,
    path: &str,
    chunks: &mut (dyn ChunkReader + '_),
) -> Option<VirtualStore> {
    if !is_complete(array, chunks.count(path).ok()?) {
        return None;
    }
    let mut by_source: Vec<(Source, ReferencesBuilder)> = Vec::new();
    let mut manifest = ChunkManifest::default();
    for item in chunks.chunks(path, 0).ok()? {
        match item.ok()? {
            (position, Chunk::Inline(bytes)) => drop(manifest.inline.insert(position, bytes)),
            (position, Chunk::Reference { source, offset, length }) => {
                let at = by_source.iter().position(|(known, _)| *known == *source);
                let at = at.unwrap_or_else(|| {
                    by_source.push((Source::clone(&source), ReferencesBuilder::default()));
                    by_source.len() - 1
                });
                by_source.get_mut(at)?.1.push(position, offset, length);
            }
        }
    }
    let mut hierarchy = Hierarchy::new(format);
    for (source, builder) in by_source {
        let id = SourceId(u32::try_from(hierarchy.sources.len()).ok()?);
        hierarchy.sources.push(source);
        manifest.references.extend(builder.finish(id));
    }
    let array = Array { chunks: manifest, ..array.clone() };
    hierarchy.root =
        Group { children: [(AXIS.to_owned(), Node::Array(Box::new(array)))].into(), ..Group::default() };
    Some(VirtualStore::of(hierarchy, path))
}
