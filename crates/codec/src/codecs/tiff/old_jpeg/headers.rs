//! Tables and frame of a stream: in its own segments (T.81, annex B), or at the offsets that TIFF's tags give.

use virtualize_zarr::{OldJpeg, OldJpegStream};

use super::{huffman::Huffman, malformed, size};
use crate::CodecFailure;

/// What decoding a scan takes.
#[derive(Debug)]
pub(super) struct Stream<'a> {
    pub(super) width: usize,
    pub(super) height: usize,
    pub(super) components: Vec<Component>,
    /// Units between restart markers; 0 for none.
    pub(super) restart_interval: usize,
    /// Entropy-coded data.
    pub(super) scan: &'a [u8],
}

/// A component with its tables.
#[derive(Debug)]
pub(super) struct Component {
    pub(super) horizontal: u8,
    pub(super) vertical: u8,
    /// Steps in the order of the stream.
    pub(super) quantization: [u16; 64],
    pub(super) dc: Huffman,
    pub(super) ac: Huffman,
}

impl<'a> Stream<'a> {
    /// Finds tables and data in the bytes that hold them.
    pub(super) fn find(bytes: &'a [u8], image: &OldJpeg) -> Result<Self, CodecFailure> {
        match image.stream {
            OldJpegStream::Tables { quantization, dc, ac, scan } => {
                of_tables(bytes, image, [quantization, dc, ac], scan)
            }
            OldJpegStream::Interchange { stream, strip } => {
                let segments = part(bytes, stream)?;
                let mut found = Segments::default();
                let rest = found.read(segments)?;
                // Streams that end with their headers are followed by the strip.
                let scan = if rest.is_empty() { part(bytes, strip)? } else { rest };
                found.stream(scan, image)
            }
        }
    }
}

fn part(bytes: &[u8], (start, end): (u64, u64)) -> Result<&[u8], CodecFailure> {
    bytes.get(size(start)..size(end)).ok_or_else(|| malformed("tables or data outside of their chunk"))
}

fn of_tables<'a>(
    bytes: &'a [u8],
    image: &OldJpeg,
    [quantization, dc, ac]: [[u64; 3]; 3],
    scan: (u64, u64),
) -> Result<Stream<'a>, CodecFailure> {
    let from = |start: u64| bytes.get(size(start)..).ok_or_else(|| malformed("a table outside of its chunk"));
    let mut components = Vec::new();
    for index in 0..3 {
        let at = |table: &[u64; 3]| from(table.get(index).copied().unwrap_or(u64::MAX));
        let is_luma = index == 0;
        components.push(Component {
            horizontal: if is_luma { image.horizontal } else { 1 },
            vertical: if is_luma { image.vertical } else { 1 },
            quantization: bytes_of_steps(at(&quantization)?)?,
            dc: Huffman::parse(at(&dc)?)?.0.of_dc()?,
            ac: Huffman::parse(at(&ac)?)?.0,
        });
    }
    Ok(Stream {
        width: size(image.width),
        height: size(image.height),
        components,
        restart_interval: size(image.restart_interval),
        scan: part(bytes, scan)?,
    })
}

fn bytes_of_steps(bytes: &[u8]) -> Result<[u16; 64], CodecFailure> {
    let steps = bytes.first_chunk::<64>().ok_or_else(|| malformed("a table is cut off"))?;
    Ok(steps.map(u16::from))
}

/// Contents of the segments before a scan.
#[derive(Default)]
struct Segments {
    quantization: [Option<[u16; 64]>; 4],
    dc: [Option<Huffman>; 4],
    ac: [Option<Huffman>; 4],
    restart_interval: usize,
    frame: Option<(usize, usize)>,
    /// Name, sampling factors and quantization table.
    components: Vec<[u8; 3]>,
    /// Name and tables, in the order of the scan.
    selectors: Vec<[u8; 2]>,
}

impl Segments {
    /// Reads up to the start of the scan, and returns what follows it.
    fn read<'a>(&mut self, stream: &'a [u8]) -> Result<&'a [u8], CodecFailure> {
        let cut_off = || malformed("its headers are cut off");
        let mut rest = stream.strip_prefix(b"\xff\xd8").ok_or_else(|| malformed("no start of image"))?;
        loop {
            rest = rest.strip_prefix(b"\xff").ok_or_else(|| malformed("no marker where one should be"))?;
            let (&kind, after) = rest.split_first().ok_or_else(cut_off)?;
            if kind == 0xff {
                continue; // Markers may be filled up.
            }
            let (length, _) = after.split_first_chunk().ok_or_else(cut_off)?;
            let length = usize::from(u16::from_be_bytes(*length));
            let (segment, next) = after.split_at_checked(length).ok_or_else(cut_off)?;
            let body = segment.get(2..).ok_or_else(cut_off)?;
            match kind {
                0xc0 | 0xc1 => self.frame(body)?,
                0xc4 => self.huffman(body)?,
                0xda => return self.scan(body).map(|()| next),
                0xdb => self.quantization(body)?,
                0xdd => self.restart_interval = usize::from(word(body)?),
                0xe0..=0xef | 0xfe => {}
                other => return Err(malformed(format!("segment {other:#x}, expected a sequential frame"))),
            }
            rest = next;
        }
    }

    fn frame(&mut self, body: &[u8]) -> Result<(), CodecFailure> {
        let (head, components) =
            body.split_first_chunk::<6>().ok_or_else(|| malformed("a short frame header"))?;
        let [bits, high, low, wide, narrow, count] = *head;
        if bits != 8 || self.frame.is_some() || components.len() != usize::from(count) * 3 {
            return Err(malformed("a frame header of another length, or samples of more than 8 bits"));
        }
        self.frame =
            Some((u16::from_be_bytes([wide, narrow]).into(), u16::from_be_bytes([high, low]).into()));
        self.components = components.as_chunks().0.to_vec();
        Ok(())
    }

    fn scan(&mut self, body: &[u8]) -> Result<(), CodecFailure> {
        let (count, rest) = body.split_first().ok_or_else(|| malformed("a short scan header"))?;
        let selectors =
            rest.get(..usize::from(*count) * 2).ok_or_else(|| malformed("a short scan header"))?;
        self.selectors = selectors.as_chunks().0.to_vec();
        Ok(())
    }

    fn huffman(&mut self, mut body: &[u8]) -> Result<(), CodecFailure> {
        while let Some((place, rest)) = body.split_first() {
            let (table, length) = Huffman::parse(rest)?;
            let tables = if place >> 4 == 0 { &mut self.dc } else { &mut self.ac };
            *slot(tables, place & 15)? = Some(table);
            body = rest.get(length..).unwrap_or_default();
        }
        Ok(())
    }

    fn quantization(&mut self, mut body: &[u8]) -> Result<(), CodecFailure> {
        while let Some((place, rest)) = body.split_first() {
            if place >> 4 != 0 {
                return Err(malformed("a quantization table of 16 bits"));
            }
            *slot(&mut self.quantization, place & 15)? = Some(bytes_of_steps(rest)?);
            body = rest.get(64..).unwrap_or_default();
        }
        Ok(())
    }

    fn stream<'a>(&self, scan: &'a [u8], image: &OldJpeg) -> Result<Stream<'a>, CodecFailure> {
        let (width, height) = self.frame.ok_or_else(|| malformed("no frame header"))?;
        if (width, height) != (size(image.width), size(image.height)) {
            return Err(malformed(format!(
                "a stream of {height} x {width}, expected {} x {}",
                image.height, image.width
            )));
        }
        if self.selectors.len() != self.components.len() {
            return Err(malformed("several scans"));
        }
        let components =
            self.components.iter().zip(&self.selectors).map(|(one, tables)| self.component(*one, *tables));
        let components = components.collect::<Result<_, _>>()?;
        Ok(Stream { width, height, components, restart_interval: self.restart_interval, scan })
    }

    fn component(
        &self,
        [name, sampling, steps]: [u8; 3],
        [selected, tables]: [u8; 2],
    ) -> Result<Component, CodecFailure> {
        let missing = || malformed("a table is missing");
        let (horizontal, vertical) = (sampling >> 4, sampling & 15);
        if name != selected || !(1..=4).contains(&horizontal) || !(1..=4).contains(&vertical) {
            return Err(malformed("components in another order, or sampled otherwise"));
        }
        let quantization = self.quantization.get(usize::from(steps)).copied().flatten();
        let huffman = |all: &[Option<Huffman>; 4], place: u8| all.get(usize::from(place)).cloned().flatten();
        Ok(Component {
            horizontal,
            vertical,
            quantization: quantization.ok_or_else(missing)?,
            dc: huffman(&self.dc, tables >> 4).ok_or_else(missing)?.of_dc()?,
            ac: huffman(&self.ac, tables & 15).ok_or_else(missing)?,
        })
    }
}

fn slot<T>(tables: &mut [T; 4], place: u8) -> Result<&mut T, CodecFailure> {
    tables.get_mut(usize::from(place)).ok_or_else(|| malformed("a table with a number above 3"))
}

fn word(body: &[u8]) -> Result<u16, CodecFailure> {
    body.first_chunk().map(|bytes| u16::from_be_bytes(*bytes)).ok_or_else(|| malformed("a short segment"))
}
