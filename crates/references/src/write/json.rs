//! Reference JSON: metadata as text, chunks as `[url, offset, length]` or inline, written incrementally.

use std::{io, ops::ControlFlow};

use base64::{Engine, prelude::BASE64_STANDARD};
use virtualize_zarr::{Chunk, ChunkReader, Hierarchy, ZarrFormat};

use super::{
    EmitError,
    format::{Entry, Writer, fsspec_python, kerchunk_python},
    metadata::documents,
    visit_chunks,
};

pub(crate) const KERCHUNK_JSON: Entry = Entry {
    name: "kerchunk-json",
    summary: "kerchunk JSON, version 1 (Zarr v2 keys)",
    zarr_format: ZarrFormat::V2,
    extensions: &["json"],
    suffix: ".json",
    python: kerchunk_python,
    writer: Writer::File(write),
};

pub(crate) const ZARR3_JSON: Entry = Entry {
    name: "zarr3-json",
    summary: "The same JSON with Zarr v3 keys",
    zarr_format: ZarrFormat::V3,
    extensions: &[],
    python: fsspec_python,
    ..KERCHUNK_JSON
};

/// Writes the whole reference document.
pub(crate) fn write(
    hierarchy: &Hierarchy,
    chunks: &mut dyn ChunkReader,
    out: &mut dyn io::Write,
) -> Result<(), EmitError> {
    let mut refs = RefsWriter::new(out);
    for (key, document) in documents(hierarchy)? {
        refs.text(&key, &document.to_string())?;
    }
    for (path, array) in hierarchy.arrays() {
        let mut start = vec![b'"'];
        escape_inner(&path, &mut start);
        let counts = array.chunk_grid.counts(&array.shape);
        let mut keys = ChunkKeys::new(start, counts.clone(), hierarchy.format);
        // The url of the last reference, and the text between a chunk's key and its offset.
        let (mut last, mut middle) = (String::new(), Vec::new());
        visit_chunks(chunks, &path, &counts, |position, chunk| {
            let buffer = refs.entry()?;
            keys.write(position, buffer);
            match chunk {
                Chunk::Reference { source, offset, length } => {
                    if middle.is_empty() || last != source.url {
                        last.clone_from(&source.url);
                        middle.clear();
                        middle.extend_from_slice(b"\":[");
                        escape(&last, &mut middle);
                        middle.push(b',');
                    }
                    buffer.extend_from_slice(&middle);
                    number(*offset, buffer);
                    buffer.push(b',');
                    number(*length, buffer);
                    buffer.push(b']');
                }
                Chunk::Inline(bytes) => {
                    buffer.extend_from_slice(b"\":");
                    inline(bytes, buffer);
                }
            }
            Ok(ControlFlow::Continue(()))
        })?;
    }
    Ok(refs.finish()?)
}

/// Serializer of chunk keys, for ascending positions.
pub(crate) struct ChunkKeys {
    prefix: Vec<u8>,
    separator: u8,
    /// Number of chunks along each axis.
    counts: Vec<u64>,
    /// Position of the last key.
    last: u64,
    /// Coordinates of `last`, slowest axis first.
    coordinates: Vec<u64>,
}

impl ChunkKeys {
    /// Returns a serializer for an array's chunks; `start` is the array's path, escaped for the output.
    pub(crate) fn new(start: Vec<u8>, counts: Vec<u64>, format: ZarrFormat) -> Self {
        let mut prefix = start;
        prefix.push(b'/');
        let separator = match format {
            ZarrFormat::V2 => b'.',
            ZarrFormat::V3 => b'/',
        };
        prefix.extend_from_slice(match (format, counts.is_empty()) {
            (ZarrFormat::V2, true) => b"0",
            (ZarrFormat::V2, false) => b"",
            (ZarrFormat::V3, true) => b"c",
            (ZarrFormat::V3, false) => b"c/",
        });
        let coordinates = vec![0; counts.len()];
        Self { prefix, separator, counts, last: 0, coordinates }
    }

    /// Appends the key of a position inside the grid and below 2⁶³.
    pub(crate) fn write(&mut self, position: u64, out: &mut Vec<u8>) {
        if position < self.last {
            self.coordinates.fill(0);
            self.last = 0;
        }
        // The difference from the last position is carried from the fastest axis upwards.
        let mut carry = position - self.last;
        for (coordinate, count) in self.coordinates.iter_mut().zip(&self.counts).rev() {
            let sum = *coordinate + carry;
            if sum < *count {
                *coordinate = sum;
                break;
            }
            (*coordinate, carry) = (sum % count, sum / count);
        }
        self.last = position;
        out.extend_from_slice(&self.prefix);
        for (axis, coordinate) in self.coordinates.iter().enumerate() {
            if axis > 0 {
                out.push(self.separator);
            }
            number(*coordinate, out);
        }
    }
}

/// Size in bytes at which the buffer is written out.
const FULL: usize = 1 << 16;

/// Writer of `{"version":1,"refs":{…}}`, one reference per line.
pub(crate) struct RefsWriter<'a> {
    out: &'a mut dyn io::Write,
    buffer: Vec<u8>,
    first: bool,
}

impl<'a> RefsWriter<'a> {
    pub(crate) fn new(out: &'a mut dyn io::Write) -> Self {
        let mut buffer = Vec::with_capacity(FULL + FULL / 4);
        buffer.extend_from_slice(b"{\"version\":1,\"refs\":{");
        Self { out, buffer, first: true }
    }

    /// Closes the document and flushes the output.
    pub(crate) fn finish(mut self) -> io::Result<()> {
        self.buffer.extend_from_slice(b"\n}}\n");
        self.out.write_all(&self.buffer)?;
        self.out.flush()
    }

    /// Writes an entry whose value is text.
    pub(crate) fn text(&mut self, key: &str, text: &str) -> io::Result<()> {
        let buffer = self.entry()?;
        escape(key, buffer);
        buffer.push(b':');
        escape(text, buffer);
        Ok(())
    }

    /// Starts an entry and returns the buffer to write it to. A full buffer is written out first.
    pub(crate) fn entry(&mut self) -> io::Result<&mut Vec<u8>> {
        if self.buffer.len() >= FULL {
            self.out.write_all(&self.buffer)?;
            self.buffer.clear();
        }
        self.buffer.extend_from_slice(if self.first { b"\n" } else { b",\n" });
        self.first = false;
        Ok(&mut self.buffer)
    }
}

/// Appends text as a JSON string, with its quotation marks.
pub(crate) fn escape(text: &str, out: &mut Vec<u8>) {
    out.push(b'"');
    escape_inner(text, out);
    out.push(b'"');
}

/// Appends text escaped for a JSON string, without quotation marks.
pub(crate) fn escape_inner(text: &str, out: &mut Vec<u8>) {
    if !text.bytes().any(|byte| matches!(byte, b'"' | b'\\' | 0..0x20)) {
        return out.extend_from_slice(text.as_bytes());
    }
    for byte in text.bytes() {
        match byte {
            b'"' => out.extend_from_slice(b"\\\""),
            b'\\' => out.extend_from_slice(b"\\\\"),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\t' => out.extend_from_slice(b"\\t"),
            0..0x20 => out.extend_from_slice(format!("\\u{byte:04x}").as_bytes()),
            _ => out.push(byte),
        }
    }
}

/// Appends the bytes of an inline chunk as a JSON string: verbatim if they are plain text, otherwise in base64.
pub(crate) fn inline(bytes: &[u8], out: &mut Vec<u8>) {
    match std::str::from_utf8(bytes) {
        Ok(text) if is_plain(bytes) => escape(text, out),
        _ => {
            out.extend_from_slice(b"\"base64:");
            out.extend_from_slice(BASE64_STANDARD.encode(bytes).as_bytes());
            out.push(b'"');
        }
    }
}

/// Returns whether bytes are printable ASCII, tabs and line feeds, and do not start with the prefix that marks base64.
fn is_plain(bytes: &[u8]) -> bool {
    bytes.iter().all(|byte| matches!(byte, b' '..=b'~' | b'\n' | b'\t')) && !bytes.starts_with(b"base64:")
}

/// Appends a number in decimal.
pub(crate) fn number(number: u64, out: &mut Vec<u8>) {
    out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escaped_text_is_what_a_json_parser_reads_back() {
        let text = "a\"b\\c\n\t\r\u{0}\u{1f}é😀/";
        let mut out = Vec::new();
        escape(text, &mut out);
        assert_eq!(serde_json::from_slice::<String>(&out).unwrap(), text);
    }

    #[test]
    fn inline_chunks_are_text_or_base64() {
        let cases: [(&[u8], &str); 6] = [
            (b"0.1 2\n", r#""0.1 2\n""#),
            (b"\x00\x01", r#""base64:AAE=""#),
            (b"base64:", r#""base64:YmFzZTY0Og==""#),
            ("é".as_bytes(), r#""base64:w6k=""#),
            (b"a\r", r#""base64:YQ0=""#),
            (b"", r#""""#),
        ];
        for (bytes, expected) in cases {
            let mut out = Vec::new();
            inline(bytes, &mut out);
            assert_eq!(String::from_utf8(out).unwrap(), expected);
        }
    }
}
