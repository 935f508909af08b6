//! Walks fixed arrays: headers, then data blocks, then the pages of paged data blocks.

use bytes::Bytes;
use virtualize_bytes::ByteRange;

use crate::{
    Error,
    batch::read_whole,
    checksum::checked,
    chunk_element::ElementFormat,
    chunk_grid::ChunkNumbering,
    chunk_request::Job,
    context::Format,
    fixed_array::{BLOCK, FixedArray, HEADER, PAGE},
    io::Io,
};

/// An array in progress.
struct Array<'a> {
    job: Job<'a>,
    state: Result<Header, Error>,
}

/// Properties that follow from the header and the dataset.
struct Header {
    array: FixedArray,
    elements: ElementFormat,
    numbering: ChunkNumbering,
}

/// A page to read.
struct Page {
    array: usize,
    first: u64,
    range: ByteRange,
}

/// Fills the chunk tables of the arrays.
pub(super) async fn read_fixed_arrays<'a>(
    io: &Io<'_>,
    format: Format,
    jobs: Vec<Job<'a>>,
) -> Vec<(Job<'a>, Result<(), Error>)> {
    let size = FixedArray::header_size(format);
    let ranges: Vec<_> = jobs.iter().map(|job| ByteRange::new(job.address, size)).collect();
    let headers = read_whole(io, HEADER, &ranges).await;
    let open = |(job, bytes): (Job<'a>, Result<Bytes, Error>)| {
        let state = bytes.and_then(|bytes| Header::parse(&bytes, &job, format));
        Array { job, state }
    };
    let mut arrays: Vec<_> = jobs.into_iter().zip(headers).map(open).collect();
    let pages = read_blocks(io, format, &mut arrays).await;
    read_pages(io, &mut arrays, &pages).await;
    arrays.into_iter().map(|array| (array.job, array.state.map(drop))).collect()
}

/// Reads the data blocks. Returns the pages of paged ones.
async fn read_blocks(io: &Io<'_>, format: Format, arrays: &mut [Array<'_>]) -> Vec<Page> {
    let ranges: Vec<_> =
        arrays.iter().enumerate().filter_map(|(place, array)| array.block(place, format)).collect();
    let only: Vec<_> = ranges.iter().map(|(_, range)| *range).collect();
    let mut pages = Vec::new();
    for ((place, range), bytes) in ranges.into_iter().zip(read_whole(io, BLOCK, &only).await) {
        if let Some(array) = arrays.get_mut(place) {
            let result = bytes.and_then(|bytes| array.read_block(place, range, &bytes, format, &mut pages));
            array.note(result);
        }
    }
    pages
}

async fn read_pages(io: &Io<'_>, arrays: &mut [Array<'_>], pages: &[Page]) {
    for batch in pages.chunks(io.batch()) {
        let ranges: Vec<_> = batch.iter().map(|page| page.range).collect();
        for (page, bytes) in batch.iter().zip(read_whole(io, PAGE, &ranges).await) {
            if let Some(array) = arrays.get_mut(page.array) {
                let result = bytes.and_then(|bytes| array.read_page(page, &bytes));
                array.note(result);
            }
        }
    }
}

impl Header {
    fn parse(bytes: &[u8], job: &Job<'_>, format: Format) -> Result<Self, Error> {
        let array = FixedArray::parse(bytes, job.address, format)?;
        let numbering = job.numbering(false)?;
        if array.filtered != job.request.filtered || Some(array.elements) != numbering.most {
            let problem = format!(
                "{} elements, filtered: {}; expected {:?}, filtered: {}",
                array.elements, array.filtered, numbering.most, job.request.filtered
            );
            return Err(Error::malformed(HEADER, job.address, problem));
        }
        let size = array.element_size.into();
        let elements =
            ElementFormat::new(format, job.request.size_width(format), size, 0, HEADER, job.address)?;
        Ok(Self { array, elements, numbering })
    }
}

impl Array<'_> {
    fn note(&mut self, result: Result<(), Error>) {
        if let Err(error) = result {
            self.state = Err(error);
        }
    }

    /// Returns the range of the data block, if there is one.
    fn block(&self, place: usize, format: Format) -> Option<(usize, ByteRange)> {
        let array = &self.state.as_ref().ok()?.array;
        Some((place, array.block_range(array.block?, format)))
    }

    fn read_block(
        &mut self,
        place: usize,
        range: ByteRange,
        bytes: &[u8],
        format: Format,
        pages: &mut Vec<Page>,
    ) -> Result<(), Error> {
        let Ok(Header { array, numbering, .. }) = &self.state else { return Ok(()) };
        let content = array.parse_block(bytes, range.start, format)?;
        if !array.is_paged() {
            return self.list(0, content);
        }
        let ranges = array.page_ranges(content, range.start, numbering.end, format);
        pages.extend(ranges.map(|(first, range)| Page { array: place, first, range }));
        self.job.columns.reserve(numbering.end);
        Ok(())
    }

    fn read_page(&mut self, page: &Page, bytes: &[u8]) -> Result<(), Error> {
        let content = checked(PAGE, page.range.start, bytes)?;
        self.list(page.first, content)
    }

    /// Adds the chunks of consecutive elements to the table.
    fn list(&mut self, first: u64, content: &[u8]) -> Result<(), Error> {
        match &self.state {
            Ok(header) => self.job.list(first, content, header.elements, &header.numbering),
            Err(_) => Ok(()),
        }
    }
}
