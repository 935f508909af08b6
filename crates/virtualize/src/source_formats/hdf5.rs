//! HDF5 files, the files that contain sources of virtual datasets or targets of external links, and DMR++ sidecars.

use std::{collections::BTreeSet, sync::Arc};

use futures::StreamExt;
use virtualize_bytes::{Budget, Budgeted, ByteRange, Limits, ReadError, ReadErrorKind, ReadRanges};
use virtualize_dmrpp::DataFile;
use virtualize_hdf5::model::File;
use virtualize_map::hdf5::{
    DatasetKey, HeapTask, HeapValues, NumberedFiles, OtherFile, OtherFiles, flatten, heap_tasks, link_files,
    map_file_among, numbered_files, resolve_extents, virtual_source_files,
};
use virtualize_map::{MapOptions, Mapped};
use virtualize_store::{Object, StoreOptions};
use virtualize_zarr::{Source, SourceId};

use crate::{
    error::Error,
    options::{Hdf5Reader, Options},
    sources::{Sources, Unopened, head, source_of},
};

/// At offset 0 or any power of two from 512 on (HDF5 file format specification, II.A).
const SIGNATURE: &[u8] = b"\x89HDF\r\n\x1a\n";

/// What the name of a DMR++ sidecar appends to that of its data file.
const SIDECAR: &str = ".dmrpp";

/// Largest number of other files that are read for one file.
const FILES: usize = 4096;

/// Largest number of files of a series that are read before it is known whether they belong to it.
const AHEAD: u64 = 64;

/// An HDF5 file, and the files that it refers to.
pub(crate) struct Files {
    file: Box<File>,
    others: OtherFiles,
}

/// Returns whether a file has the signature, at its start or after a user block.
pub(super) async fn has_signature(source: &dyn ReadRanges, head: &[u8]) -> Result<bool, ReadError> {
    if head.starts_with(SIGNATURE) {
        return Ok(true);
    }
    let starts = std::iter::successors(Some(512_u64), |start| start.checked_mul(2));
    let starts = starts.take_while(|start| *start < source.size());
    let places: Vec<_> = starts.map(|start| ByteRange::new(start, SIGNATURE.len() as u64)).collect();
    let found = source.read_ranges(&places).await?;
    Ok(found.iter().any(|bytes| bytes.as_ref() == SIGNATURE))
}

impl Files {
    /// Returns a file that refers to no others.
    pub(super) fn of(file: File) -> Self {
        Self { file: Box::new(file), others: OtherFiles::default() }
    }

    /// Reads the metadata of a file from a DMR++ sidecar: the given one, or the one next to it. The error is the reason why the
    /// file itself must be read, as a clause: a sidecar suffices only if it tells all that the file would.
    pub(crate) async fn of_sidecar(
        object: &Object,
        sidecar: Option<&Arc<Object>>,
        sources: &Sources<'_>,
        limits: &Limits,
    ) -> Result<Self, String> {
        if !head(object).await.map_err(|error| error.to_string())?.starts_with(SIGNATURE) {
            return Err("it has a user block, which sidecars do not count in all versions".to_owned());
        }
        let sidecar = match sidecar {
            Some(sidecar) => Arc::clone(sidecar),
            None => {
                let opened = sources.open(&format!("{}{SIDECAR}", object.url())).await;
                opened.map_err(|unopened| unopened.to_string())?
            }
        };
        if let (Some(written), Some(changed)) = (sidecar.modified(), object.modified())
            && written < changed
        {
            return Err(format!("{} is older than the file", sidecar.name()));
        }
        let name = object.name().rsplit('/').next().unwrap_or_default();
        let data = DataFile { name, size: object.bytes() };
        let source = Budgeted::new(sidecar.as_ref(), sources.budget);
        let file = virtualize_dmrpp::read(&source, data, limits).await;
        let file = file.map_err(|error| format!("{}: {error}", sidecar.name()))?;
        sidecar.verify().map_err(|error| error.to_string())?;
        Ok(Self::of(file))
    }

    /// Reads the sources of virtual datasets and, if links are followed, the targets of external links, then the files
    /// that these refer to in turn. Virtual datasets of unlimited extent get the extent of their sources.
    pub(super) async fn read_related(&mut self, sources: &Sources<'_>, options: &Options) {
        let mut search = Search {
            sources,
            options,
            wanted: BTreeSet::new(),
            numbered: BTreeSet::new(),
            found: OtherFiles::default(),
        };
        search.add(&self.file, sources.own);
        self.others = search.run().await;
        resolve_extents(&mut self.file, sources.own, &mut self.others, sources.budget);
    }

    pub(super) fn has_related(&self) -> bool {
        !self.others.files.is_empty()
    }

    pub(super) fn map(&self, source: Source, options: &MapOptions, budget: &Budget<'_>) -> Mapped {
        map_file_among(&self.file, source, &self.others, options, budget)
    }

    /// Lists the datasets whose values have to be read before the file is mapped.
    pub(crate) fn heap_tasks(
        &self,
        source: &Source,
        options: &MapOptions,
        budget: &Budget<'_>,
    ) -> Vec<(DatasetKey, Result<HeapTask, virtualize_map::Error>)> {
        heap_tasks(&self.file, source, &self.others, options, budget)
    }

    /// Records the values of a dataset, or the reason why they cannot be read.
    pub(crate) fn flatten(
        &mut self,
        key: DatasetKey,
        task: Result<HeapTask, virtualize_map::Error>,
        values: Result<HeapValues, String>,
        budget: &Budget<'_>,
    ) {
        let flattened = task.and_then(|task| match values {
            Ok(values) => flatten(&task, &values, budget),
            Err(reason) => Err(virtualize_map::Error::heap_values(&reason)),
        });
        self.others.flattened.insert(key, flattened);
    }

    /// Returns a file by its number among the sources, or by its url.
    pub(crate) fn get(&self, id: SourceId, url: &str) -> Option<&File> {
        match (id, self.others.files.get(url)) {
            (SourceId(0), _) => Some(&self.file),
            (_, Some(OtherFile::Read(file, _))) => Some(file),
            _ => None,
        }
    }
}

/// Search for the files that a file refers to.
struct Search<'a> {
    sources: &'a Sources<'a>,
    options: &'a Options,
    /// Urls still to be read.
    wanted: BTreeSet<String>,
    /// Series of files, of unknown length.
    numbered: BTreeSet<NumberedFiles>,
    found: OtherFiles,
}

impl Search<'_> {
    async fn run(mut self) -> OtherFiles {
        loop {
            if !self.wanted.is_empty() {
                self.read_wanted().await;
            } else if let Some(files) = self.numbered.pop_first() {
                self.read_numbered(&files).await;
            } else {
                return self.found;
            }
        }
    }

    /// Adds the files that a file refers to.
    fn add(&mut self, file: &File, url: &str) {
        self.wanted.extend(virtual_source_files(file, url));
        self.numbered.extend(numbered_files(file, url));
        if self.options.map.follow_external {
            self.wanted.extend(link_files(file, url));
        }
    }

    /// Reads all requested files concurrently.
    async fn read_wanted(&mut self) {
        let own = self.sources.own;
        let mut wanted = std::mem::take(&mut self.wanted);
        wanted.retain(|url| url != own && !self.found.files.contains_key(url));
        let room = FILES.saturating_sub(self.found.files.len());
        let (sources, options) = (self.sources, self.options);
        let reads = wanted.into_iter().enumerate().map(|(at, url)| async move {
            let other = match at < room {
                true => read_other(&url, sources, options).await,
                false => OtherFile::Refused(format!("more than {FILES} other files are needed")),
            };
            (url, other)
        });
        let read: Vec<_> = sources.several(reads).collect().await;
        for (url, other) in read {
            if let OtherFile::Read(file, _) = &other {
                self.add(file, &url);
            }
            self.found.files.insert(url, other);
        }
    }

    /// Reads the files of a series, until one cannot be read. Reads more and more of them concurrently, so that up to
    /// half of the requests are in vain, but a long series takes few round trips.
    async fn read_numbered(&mut self, files: &NumberedFiles) {
        let (mut block, mut ahead) = (0, 1);
        loop {
            let urls: Vec<_> = (block..block + ahead).map(|block| files.url(block)).collect();
            self.wanted.extend(urls.iter().cloned());
            self.read_wanted().await;
            if !urls.iter().all(|url| self.is_read(url)) {
                return;
            }
            block += ahead;
            ahead = (ahead * 2).min(AHEAD);
        }
    }

    fn is_read(&self, url: &str) -> bool {
        url == self.sources.own || matches!(self.found.files.get(url), Some(OtherFile::Read(..)))
    }
}

async fn read_other(url: &str, sources: &Sources<'_>, options: &Options) -> OtherFile {
    let object = match sources.open(url).await {
        Ok(object) => object,
        Err(Unopened::Missing(_)) => return OtherFile::Missing,
        Err(unopened) => return OtherFile::Refused(unopened.to_string()),
    };
    let is_hdf5 = match head(object.as_ref()).await {
        Ok(head) => has_signature(object.as_ref(), &head).await,
        Err(error) => Err(error),
    };
    match is_hdf5 {
        Ok(true) => {}
        Ok(false) => return OtherFile::Refused("not an HDF5 file".to_owned()),
        Err(error) => return OtherFile::Refused(error.to_string()),
    }
    match read(&object, options, sources.budget).await {
        Ok(file) => OtherFile::Read(Box::new(file), source_of(&object)),
        Err(error) => OtherFile::Refused(format!("{}: {error}", object.name())),
    }
}

/// Reads a file with the selected reader.
pub(super) async fn read(
    object: &Object,
    options: &Options,
    budget: &Budget<'_>,
) -> Result<File, virtualize_hdf5::Error> {
    let source = Budgeted::new(object, budget);
    match options.hdf5_reader {
        Hdf5Reader::Native => virtualize_hdf5::read(&source, &options.limits).await,
        #[cfg(feature = "libhdf5")]
        Hdf5Reader::Libhdf5 => match object.path() {
            Some(path) => {
                let mut file = virtualize_libhdf5::read(path)?;
                virtualize_hdf5::complete(&source, &options.limits, &mut file).await?;
                Ok(file)
            }
            None => Err(virtualize_hdf5::Error::Unsupported {
                structure: "file",
                address: 0,
                problem: "libhdf5 reads local files only; the native reader reads remote ones".to_owned(),
            }),
        },
    }
}

/// Opens the data file of a sidecar, which is next to it.
pub(crate) async fn open_data_file(sidecar: &Object, options: &StoreOptions) -> Result<Arc<Object>, Error> {
    let url = sidecar.url().strip_suffix(SIDECAR).ok_or_else(|| {
        let problem = format!(
            "{}: a DMR++ sidecar must have the name of its data file and {SIDECAR}, without a query",
            sidecar.name()
        );
        ReadError::new(ReadErrorKind::Invalid, problem)
    })?;
    Ok(virtualize_store::open(url, options).await?)
}
