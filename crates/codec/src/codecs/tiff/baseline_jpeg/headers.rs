//! Tables and frame of a stream: in its own segments (T.81, annex B), or at the offsets that TIFF's tags give.

use super::{huffman::Huffman, malformed};
use crate::CodecFailure;

/// What decoding a scan takes.
#[derive(Debug)]
pub(in super::super) struct Stream<'a> {
    pub(in super::super) width: usize,
    pub(in super::super) height: usize,
    pub(in super::super) components: Vec<Component>,
    /// Units between restart markers; 0 for none.
    pub(in super::super) restart_interval: usize,
    /// Entropy-coded data.
    pub(in super::super) scan: &'a [u8],
}

/// A component with its tables.
#[derive(Debug)]
pub(in super::super) struct Component {
    pub(super) horizontal: u8,
    pub(super) vertical: u8,
    /// Steps in the order of the stream.
    pub(super) quantization: [u16; 64],
    pub(super) dc: Huffman,
    pub(super) ac: Huffman,
}

/// Parses the quantization, DC and AC tables of three components at offsets, the first of which is sampled by `luma`.
pub(in super::super) fn of_tables(
    bytes: &[u8],
    [quantization, dc, ac]: [[usize; 3]; 3],
    luma: (u8, u8),
) -> Result<Vec<Component>, CodecFailure> {
    let from = |start: usize| bytes.get(start..).ok_or_else(|| malformed("a table outside of its chunk"));
    let factors = [luma, (1, 1), (1, 1)];
    let places = quantization.into_iter().zip(dc).zip(ac).zip(factors);
    let component = |(((quantization, dc), ac), (horizontal, vertical))| {
        Ok(Component {
            horizontal,
            vertical,
            quantization: bytes_of_steps(from(quantization)?)?,
            dc: Huffman::parse(from(dc)?)?.0.of_dc()?,
            ac: Huffman::parse(from(ac)?)?.0,
        })
    };
    places.map(component).collect()
}

fn bytes_of_steps(bytes: &[u8]) -> Result<[u16; 64], CodecFailure> {
    let steps = bytes.first_chunk::<64>().ok_or_else(|| malformed("a table is cut off"))?;
    Ok(steps.map(u16::from))
}

fn words_of_steps(bytes: &[u8]) -> Result<[u16; 64], CodecFailure> {
    let steps = bytes.first_chunk::<128>().ok_or_else(|| malformed("a table is cut off"))?;
    let mut words = [0; 64];
    for (word, pair) in words.iter_mut().zip(steps.as_chunks().0) {
        *word = u16::from_be_bytes(*pair);
    }
    Ok(words)
}

/// Contents of the segments before a scan.
#[derive(Default)]
pub(in super::super) struct Segments {
    quantization: [Option<[u16; 64]>; 4],
    dc: [Option<Huffman>; 4],
    ac: [Option<Huffman>; 4],
    restart_interval: usize,
    has_jfif: bool,
    /// The color transform of Adobe's marker.
    adobe: Option<u8>,
    frame: Option<(usize, usize)>,
    /// Name, sampling factors and quantization table.
    components: Vec<[u8; 3]>,
    /// Name and tables, in the order of the scan.
    selectors: Vec<[u8; 2]>,
}

impl Segments {
    /// Reads a stream that holds only tables (TIFF's JPEGTables).
    pub(in super::super) fn read_tables(&mut self, stream: &[u8]) -> Result<(), CodecFailure> {
        self.read_until(stream, 0xd9).map(|_| ())
    }

    /// Reads up to the start of the scan, and returns what follows it.
    pub(in super::super) fn read<'a>(&mut self, stream: &'a [u8]) -> Result<&'a [u8], CodecFailure> {
        self.read_until(stream, 0xda)
    }

    /// Reads up to a segment, with that of a scan, and returns what follows.
    fn read_until<'a>(&mut self, stream: &'a [u8], last: u8) -> Result<&'a [u8], CodecFailure> {
        let cut_off = || malformed("its headers are cut off");
        let mut rest = stream.strip_prefix(b"\xff\xd8").ok_or_else(|| malformed("no start of image"))?;
        loop {
            rest = rest.strip_prefix(b"\xff").ok_or_else(|| malformed("no marker where one should be"))?;
            let (&kind, after) = rest.split_first().ok_or_else(cut_off)?;
            if kind == 0xff {
                continue; // Markers may be filled up.
            }
            if kind == 0xd9 && kind == last {
                return Ok(after);
            }
            let (length, _) = after.split_first_chunk().ok_or_else(cut_off)?;
            let length = usize::from(u16::from_be_bytes(*length));
            let (segment, next) = after.split_at_checked(length).ok_or_else(cut_off)?;
            let body = segment.get(2..).ok_or_else(cut_off)?;
            match kind {
                0xc0 | 0xc1 => self.frame(body)?,
                0xc4 => self.huffman(body)?,
                0xda if kind == last => return self.scan(body).map(|()| next),
                0xdb => self.quantization(body)?,
                0xdd => self.restart_interval = usize::from(word(body)?),
                0xe0 if body.starts_with(b"JFIF\0") => self.has_jfif = true,
                0xee if body.starts_with(b"Adobe") => self.adobe = body.get(11).copied(),
                0xe0..=0xef | 0xfe => {}
                other => return Err(malformed(format!("segment {other:#x}, expected a sequential frame"))),
            }
            rest = next;
        }
    }

    /// Whether libjpeg would take three components for RGB.
    pub(in super::super) fn is_rgb(&self) -> bool {
        let names = || self.components.iter().map(|[name, ..]| *name).eq(*b"RGB");
        self.components.len() == 3
            && !self.has_jfif
            && self.adobe.map_or_else(names, |transform| transform == 0)
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
            let (steps, length) = match place >> 4 {
                0 => (bytes_of_steps(rest)?, 64),
                _ => (words_of_steps(rest)?, 128),
            };
            *slot(&mut self.quantization, place & 15)? = Some(steps);
            body = rest.get(length..).unwrap_or_default();
        }
        Ok(())
    }

    pub(in super::super) fn stream<'a>(
        &self,
        scan: &'a [u8],
        expected: (usize, usize),
    ) -> Result<Stream<'a>, CodecFailure> {
        let (width, height) = self.frame.ok_or_else(|| malformed("no frame header"))?;
        let (columns, rows) = expected;
        if width != columns || height < rows {
            return Err(malformed(format!("a stream of {height} x {width}, expected {rows} x {columns}")));
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
