//! Walks extensible arrays: headers, index blocks, secondary blocks, then all data blocks or their pages.

use bytes::Bytes;
use virtualize_bytes::ByteRange;

use crate::{
    Error,
    batch::read_whole,
    chunk_element::ElementFormat,
    chunk_grid::ChunkNumbering,
    chunk_request::Job,
    context::Format,
    extensible_array::{
        DATA_BLOCK, DataBlock, ExtensibleArray, HEADER, INDEX_BLOCK, Part, SUPER_BLOCK, SuperBlock,
    },
    io::Io,
};

/// An array in progress.
struct Array<'a> {
    job: Job<'a>,
    state: Result<Header, Error>,
    super_blocks: Vec<SuperBlock>,
    data_blocks: Vec<DataBlock>,
}

/// Properties that follow from the header and the dataset.
struct Header {
    array: ExtensibleArray,
    elements: ElementFormat,
    /// Ends after the last element that was set and lies within the extent.
    numbering: ChunkNumbering,
}

/// A data block, or a page of one, to read.
struct Wanted {
    array: usize,
    block: usize,
    part: Part,
    range: ByteRange,
}

/// Fills the chunk tables of the arrays.
pub(super) async fn read_extensible_arrays<'a>(
    io: &Io<'_>,
    format: Format,
    jobs: Vec<Job<'a>>,
) -> Vec<(Job<'a>, Result<(), Error>)> {
    let size = ExtensibleArray::header_size(format);
    let ranges: Vec<_> = jobs.iter().map(|job| ByteRange::new(job.address, size)).collect();
    let headers = read_whole(io, HEADER, &ranges).await;
    let open = |(job, bytes): (Job<'a>, Result<Bytes, Error>)| {
        let state = bytes.and_then(|bytes| Header::parse(&bytes, &job, format));
        Array { job, state, super_blocks: Vec::new(), data_blocks: Vec::new() }
    };
    let mut arrays: Vec<_> = jobs.into_iter().zip(headers).map(open).collect();
    read_index_blocks(io, format, &mut arrays).await;
    read_super_blocks(io, format, &mut arrays).await;
    read_data_blocks(io, format, &mut arrays).await;
    arrays.into_iter().map(|array| (array.job, array.state.map(drop))).collect()
}

async fn read_index_blocks(io: &Io<'_>, format: Format, arrays: &mut [Array<'_>]) {
    let index = |(place, array): (usize, &Array<'_>)| {
        let array = &array.state.as_ref().ok()?.array;
        Some((place, array.index_range(array.index_block?, format)))
    };
    let wanted: Vec<_> = arrays.iter().enumerate().filter_map(index).collect();
    let ranges: Vec<_> = wanted.iter().map(|(_, range)| *range).collect();
    for ((place, range), bytes) in wanted.into_iter().zip(read_whole(io, INDEX_BLOCK, &ranges).await) {
        if let Some(array) = arrays.get_mut(place) {
            let result = bytes.and_then(|bytes| array.read_index_block(&bytes, range.start, format));
            array.note(result);
        }
    }
}

async fn read_super_blocks(io: &Io<'_>, format: Format, arrays: &mut [Array<'_>]) {
    let mut wanted = Vec::new();
    for (place, array) in arrays.iter().enumerate() {
        let Ok(header) = &array.state else { continue };
        let blocks = array.super_blocks.iter();
        wanted.extend(blocks.map(|block| (place, *block, header.array.super_range(*block, format))));
    }
    let ranges: Vec<_> = wanted.iter().map(|(.., range)| *range).collect();
    for ((place, block, _), bytes) in wanted.into_iter().zip(read_whole(io, SUPER_BLOCK, &ranges).await) {
        if let Some(array) = arrays.get_mut(place) {
            let result = bytes.and_then(|bytes| array.read_super_block(&bytes, block, format));
            array.note(result);
        }
    }
}

async fn read_data_blocks(io: &Io<'_>, format: Format, arrays: &mut [Array<'_>]) {
    let parts: Vec<_> =
        arrays.iter().enumerate().flat_map(|(place, array)| array.parts(place, format)).collect();
    for batch in parts.chunks(io.batch()) {
        let ranges: Vec<_> = batch.iter().map(|part| part.range).collect();
        for (part, bytes) in batch.iter().zip(read_whole(io, DATA_BLOCK, &ranges).await) {
            if let Some(array) = arrays.get_mut(part.array) {
                let result = bytes.and_then(|bytes| array.read_part(part, &bytes, format));
                array.note(result);
            }
        }
    }
}

impl Header {
    fn parse(bytes: &[u8], job: &Job<'_>, format: Format) -> Result<Self, Error> {
        let array = ExtensibleArray::parse(bytes, job.address, format)?;
        if array.filtered != job.request.filtered {
            let problem = format!("filtered: {}, expected {}", array.filtered, job.request.filtered);
            return Err(Error::malformed(HEADER, job.address, problem));
        }
        let mut numbering = job.numbering(true)?;
        let size = array.element_size.into();
        let elements =
            ElementFormat::new(format, job.request.size_width(format), size, 0, HEADER, job.address)?;
        numbering.end = numbering.end.min(array.end);
        Ok(Self { array, elements, numbering })
    }
}

impl Array<'_> {
    fn note(&mut self, result: Result<(), Error>) {
        if let Err(error) = result {
            self.state = Err(error);
        }
    }

    fn read_index_block(&mut self, bytes: &[u8], address: u64, format: Format) -> Result<(), Error> {
        let Ok(header) = &self.state else { return Ok(()) };
        let block = header.array.parse_index_block(bytes, address, header.numbering.end, format)?;
        (self.data_blocks, self.super_blocks) = (block.data_blocks, block.super_blocks);
        self.job.list(0, block.elements, header.elements, &header.numbering)
    }

    fn read_super_block(&mut self, bytes: &[u8], block: SuperBlock, format: Format) -> Result<(), Error> {
        let Ok(header) = &self.state else { return Ok(()) };
        self.data_blocks.extend(header.array.parse_super_block(
            bytes,
            block,
            header.numbering.end,
            format,
        )?);
        Ok(())
    }

    /// Returns the parts of all data blocks.
    fn parts(&self, place: usize, format: Format) -> Vec<Wanted> {
        let Ok(header) = &self.state else { return Vec::new() };
        let mut found = Vec::new();
        for (number, block) in self.data_blocks.iter().enumerate() {
            let parts = header.array.parts(block, header.numbering.end, format).into_iter();
            found.extend(parts.map(|(part, range)| Wanted { array: place, block: number, part, range }));
        }
        found
    }

    fn read_part(&mut self, wanted: &Wanted, bytes: &[u8], format: Format) -> Result<(), Error> {
        let (Ok(header), Some(block)) = (&self.state, self.data_blocks.get(wanted.block)) else {
            return Ok(());
        };
        let (first, content) = header.array.parse_part(bytes, block, wanted.part, format)?;
        self.job.list(first, content, header.elements, &header.numbering)
    }
}
