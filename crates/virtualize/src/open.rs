use std::sync::Arc;

use futures::StreamExt;
use virtualize_bytes::{Budget, Budgeted, ByteRange, ReadError, ReadErrorKind, ReadRanges};
use virtualize_map::{Diagnostic, Mapped, SampleLimits, Severity, sample, settle, tiff};
use virtualize_remedy::Code;
use virtualize_store::Object;

use crate::error::Error;
use crate::grids::declare_grids;
use crate::inline::{self, ChunkMaker};
use crate::lazy::LazyStore;
use crate::options::Options;
use crate::source_formats::{Detected, SourceFile, SourceFormat, detect, sidecar};
use crate::sources::{Sources, source_of};
use crate::store::VirtualStore;

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

/// Returns whether a file begins as a JSON object does.
pub(crate) async fn is_json(object: &Object) -> Result<bool, ReadError> {
    let head = object.read_ranges(&[ByteRange::new(0, object.size().min(64))]).await?;
    let first = head.iter().flatten().find(|byte| !byte.is_ascii_whitespace());
    Ok(first == Some(&b'{'))
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
    let (object, sidecar) = match sidecar::is_sidecar(&Budgeted::new(object.as_ref(), &budget)).await? {
        true => (sidecar::open_data_file(&object, &options.store).await?, Some(object)),
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
    let format = file.format_name();
    let (whole, related) = (sources.whole(), sources.related());
    let store = VirtualStore::of_file(object, (hierarchy, report), format, has_related, whole);
    let mut store = store.with_related(related);
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
    let budget = sources.budget();
    let format = match detect(&Budgeted::new(object.as_ref(), budget)).await? {
        Detected::Known(format) => format,
        Detected::Unknown(found) => return Err(Error::Format { name: object.name().to_owned(), found }),
    };
    let mut unused = None;
    if format == SourceFormat::Hdf5 && (sidecar.is_some() || options.dmrpp) {
        match SourceFile::from_sidecar(object, sidecar, sources, options).await {
            Ok(file) => return Ok((file, None)),
            Err(reason) => {
                tracing::info!("{}: no sidecar is used: {reason}", object.name());
                unused = Some(sidecar::not_used(&reason));
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
    let budget = sources.budget();
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
    let budget = sources.budget();
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
