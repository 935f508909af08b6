//! Reference JSON that was written earlier, with one entry per line: first the metadata documents, then the chunks of each
//! array in order of position.

use std::{
    cmp::Ordering,
    io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Write},
    ops::Range,
};

use serde_json::{Map, Value};
use virtualize_zarr::chunk_indices;

use crate::{EmitError, Existing};

const HEADER: &[u8] = b"{\"version\":1,\"refs\":{\n";
const TRAILER: &[u8] = b"\n}}\n";
const DOCUMENT: &str = "zarr.json";

/// References with Zarr v3 keys.
pub(crate) struct OldReferences {
    key: String,
    file: BufReader<Box<dyn Existing>>,
    /// Paths of the arrays, in the order of their chunks.
    arrays: Vec<String>,
    /// Offsets of the lines with chunks.
    lines: Range<u64>,
}

/// Array and indices of a chunk; chunks of a file are in this order.
type ChunkKey = (usize, Vec<u64>);

impl OldReferences {
    /// Reads the metadata documents.
    pub(crate) fn open(key: &str, file: Box<dyn Existing>) -> Result<Self, EmitError> {
        let file = BufReader::new(file);
        let mut this = Self { key: key.to_owned(), file, arrays: Vec::new(), lines: 0..0 };
        let size = this.file.seek(SeekFrom::End(0))?;
        let end = size.checked_sub(TRAILER.len() as u64);
        let header = this.bytes(0, HEADER.len())?;
        match end {
            Some(end) if header == HEADER && this.bytes(end, TRAILER.len())? == TRAILER => {
                this.lines = HEADER.len() as u64..end + 1;
            }
            _ => return Err(this.damaged("it does not start and end as expected")),
        }
        while this.read_document()? {}
        Ok(this)
    }

    fn damaged(&self, reason: &str) -> EmitError {
        EmitError::Existing { key: self.key.clone(), reason: reason.to_owned() }
    }

    /// Reads a number of bytes, or fewer at the end of the file.
    fn bytes(&mut self, offset: u64, count: usize) -> io::Result<Vec<u8>> {
        self.file.seek(SeekFrom::Start(offset))?;
        let mut bytes = Vec::with_capacity(count);
        self.file.by_ref().take(count as u64).read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    /// Reads the document on the first of the remaining lines, and moves on to the next line. Returns `false` if there is
    /// none.
    fn read_document(&mut self) -> Result<bool, EmitError> {
        if self.lines.is_empty() {
            return Ok(false);
        }
        let (key, _) = self.key_at(self.lines.start)?;
        if key != DOCUMENT && !key.ends_with(&format!("/{DOCUMENT}")) {
            return Ok(false);
        }
        self.file.seek(SeekFrom::Start(self.lines.start))?;
        let mut line = b"{".to_vec();
        let length = self.file.read_until(b'\n', &mut line)?;
        let entry = line.trim_ascii_end();
        let entry = entry.strip_suffix(b",").unwrap_or(entry);
        let entry: Option<Map<String, Value>> = serde_json::from_slice(&[entry, b"}"].concat()).ok();
        let text = entry.as_ref().and_then(|entry| entry.values().next()?.as_str());
        let document: Option<Value> = text.and_then(|text| serde_json::from_str(text).ok());
        let document = document.ok_or_else(|| self.damaged("a metadata document is not JSON"))?;
        if document.get("node_type").and_then(Value::as_str) == Some("array") {
            self.arrays.push(key.trim_end_matches(DOCUMENT).trim_end_matches('/').to_owned());
        }
        self.lines.start += length as u64;
        Ok(true)
    }

    /// Returns the key of the entry at the start of a line, and whether its value is an array.
    fn key_at(&mut self, line: u64) -> Result<(String, bool), EmitError> {
        self.file.seek(SeekFrom::Start(line))?;
        let mut text = Vec::new();
        loop {
            let count = self.file.read_until(b'"', &mut text)?;
            let ends = text.len() > 1
                && text.iter().rev().skip(1).take_while(|byte| **byte == b'\\').count() % 2 == 0;
            if ends || count == 0 {
                break;
            }
        }
        let mut value = [0; 2];
        self.file.read_exact(&mut value)?;
        let key = serde_json::from_slice(&text).ok().filter(|_| value[0] == b':');
        Ok((key.ok_or_else(|| self.damaged("a line has no key"))?, value[1] == b'['))
    }

    /// Returns array and indices of the chunk at the start of a line.
    fn chunk_at(&mut self, line: u64) -> Result<ChunkKey, EmitError> {
        let (key, _) = self.key_at(line)?;
        let parsed = key.rmatch_indices("/c").find_map(|(at, _)| {
            let array = self.arrays.iter().position(|path| Some(path.as_str()) == key.get(..at))?;
            let indices = key.get(at + 2..)?.split('/').skip(1).map(|index| index.parse().ok());
            Some((array, indices.collect::<Option<Vec<u64>>>()?))
        });
        parsed.ok_or_else(|| self.damaged(&format!("{key:?} is not the key of a chunk")))
    }

    /// Returns the start of the first line at or after an offset.
    fn line_from(&mut self, offset: u64) -> Result<u64, EmitError> {
        let before = offset.saturating_sub(1);
        self.file.seek(SeekFrom::Start(before))?;
        match self.file.skip_until(b'\n')? {
            0 => Err(self.damaged("a line does not end")),
            count => Ok(before + count as u64),
        }
    }

    /// Returns the start of the first line whose chunk does not come before `key`.
    fn lower_bound(&mut self, key: &ChunkKey) -> Result<u64, EmitError> {
        let Range { start: mut low, end: mut high } = self.lines;
        while low < high {
            let mut middle = self.line_from(low + (high - low) / 2)?;
            if middle >= high {
                middle = low;
            }
            match self.chunk_at(middle)?.cmp(key) {
                Ordering::Less => low = self.line_from(middle + 1)?,
                _ => high = middle,
            }
        }
        Ok(low)
    }

    /// Returns the offsets of the entries of an array's chunks before a position, without the separator that follows them.
    /// `counts` are the numbers of chunks along each axis.
    pub(crate) fn entries(&mut self, path: &str, counts: &[u64], end: u64) -> Result<Range<u64>, EmitError> {
        let Some(array) = self.arrays.iter().position(|other| other == path) else { return Ok(0..0) };
        let start = self.lower_bound(&(array, Vec::new()))?;
        // The earlier grid may have had more rows.
        let rows = counts.first().map(|_| u64::MAX);
        let counts: Vec<u64> = rows.into_iter().chain(counts.iter().skip(1).copied()).collect();
        let end = match chunk_indices(end, &counts) {
            Some(indices) => self.lower_bound(&(array, indices))?,
            None => self.lower_bound(&(array + 1, Vec::new()))?,
        };
        let separator = if end == self.lines.end { 1 } else { 2 };
        Ok(start..if end > start { end - separator } else { start })
    }

    /// Returns whether one of the entries is a reference.
    pub(crate) fn has_reference(&mut self, entries: &Range<u64>) -> Result<bool, EmitError> {
        let mut line = entries.start;
        while line < entries.end {
            if self.key_at(line)?.1 {
                return Ok(true);
            }
            line = self.line_from(line + 1)?;
        }
        Ok(false)
    }

    /// Copies entries.
    pub(crate) fn copy(&mut self, entries: &Range<u64>, out: &mut dyn Write) -> Result<(), EmitError> {
        self.file.seek(SeekFrom::Start(entries.start))?;
        let length = entries.end - entries.start;
        match io::copy(&mut self.file.by_ref().take(length), out)? == length {
            true => Ok(()),
            false => Err(self.damaged("it is truncated")),
        }
    }
}
