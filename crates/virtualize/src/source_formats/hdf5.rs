//! HDF5 files, and the files that contain sources of virtual datasets or targets of external links.

use std::collections::BTreeSet;

use futures::StreamExt;
use virtualize_bytes::{Budget, Budgeted, ByteRange, ReadError, ReadRanges};
use virtualize_hdf5::model::{Datatype, Element, File};
use virtualize_map::hdf5::{
    DatasetKey, HeapPointers, HeapTask, HeapValues, NumberedFiles, OtherFile, OtherFiles, flatten,
    heap_tasks, link_files, map_file_among, numbered_files, reference_part, reference_path, resolve_extents,
    virtual_source_files,
};
use virtualize_map::{MapOptions, Mapped, ReferenceText};
use virtualize_store::Object;
use virtualize_zarr::{Source, SourceId};

use super::{Pointed, Pointers};
use crate::error::Failure;
use crate::options::{Hdf5Reader, Options};
use crate::sources::{Sources, Unopened, head, source_of};

/// At offset 0 or any power of two from 512 on (HDF5 file format specification, II.A).
const SIGNATURE: &[u8] = b"\x89HDF\r\n\x1a\n";

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

/// Returns whether a file has the signature at its start.
pub(super) async fn starts_with_signature(source: &dyn ReadRanges) -> Result<bool, ReadError> {
    Ok(head(source).await?.starts_with(SIGNATURE))
}

impl Files {
    /// Returns a file that refers to no others.
    pub(super) fn of(file: File) -> Self {
        Self { file: Box::new(file), others: OtherFiles::default() }
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
        search.add(&self.file, sources.own());
        self.others = search.run().await;
        resolve_extents(&mut self.file, sources.own(), &mut self.others, sources.budget());
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

    /// Follows pointers into the global heap.
    pub(super) async fn resolve(&self, stored: Pointers<'_>) -> Result<Vec<Pointed>, Failure> {
        let Pointers { reader, limits, raw, references, most, .. } = stored;
        let HeapPointers { datatype, objects } = stored.context;
        let file = match (stored.source, self.others.files.get(stored.url)) {
            (SourceId(0), _) => &self.file,
            (_, Some(OtherFile::Read(file, _))) => file,
            _ => return Err(format!("source {} is not an HDF5 file that was read", stored.source.0).into()),
        };
        if let Datatype::Sequence { base, .. } = datatype {
            let read = virtualize_hdf5::read_sequences(reader, limits, file, base.size(), raw).await;
            let read = read.map_err(failed)?;
            return Ok(read.into_iter().map(Pointed::Bytes).collect());
        }
        let elements = virtualize_hdf5::resolve_elements(reader, limits, file, datatype, raw).await;
        let elements = elements.map_err(failed)?;
        let mut text = 0_u64;
        let mut pointed = Vec::with_capacity(elements.len());
        for element in elements {
            pointed.push(match (element, references) {
                (Element::Text(text), _) => Pointed::Text(text),
                (Element::Bytes(bytes), _) => Pointed::Bytes(bytes.into()),
                (reference, Some(what)) => {
                    let path = reference_path(&reference, objects).map_err(|error| error.to_string())?;
                    let shown = match what {
                        ReferenceText::Whole if reference_part(&reference).is_some() => {
                            return Err(Failure::chunk("a reference leads to a part of an object"));
                        }
                        ReferenceText::Path | ReferenceText::Whole => path,
                        ReferenceText::Part => reference_part(&reference)
                            .map_or(String::new(), |part| serde_json::Value::Object(part).to_string()),
                    };
                    // Many references may point to one object with a long path.
                    text = text.saturating_add(shown.len() as u64);
                    if text > most {
                        return Err(format!("its text takes more than {most} bytes").into());
                    }
                    Pointed::Text(shown)
                }
                _ => return Err(Failure::chunk("an element is neither text nor bytes")),
            });
        }
        Ok(pointed)
    }
}

/// Returns the failure of a read from the global heap.
fn failed(error: virtualize_hdf5::Error) -> Failure {
    match error {
        virtualize_hdf5::Error::Read(error) => Failure::Read(error),
        error => Failure::Chunk(error.to_string()),
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
        let own = self.sources.own();
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
        url == self.sources.own() || matches!(self.found.files.get(url), Some(OtherFile::Read(..)))
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
    match read(&object, options, sources.budget()).await {
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
