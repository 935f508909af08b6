//! Incremental writer of reference JSON. It writes its buffer out when the buffer is full.

use std::io;

use base64::{Engine, prelude::BASE64_STANDARD};

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
        self.next()?;
        escape(key, &mut self.buffer);
        self.buffer.push(b':');
        escape(text, &mut self.buffer);
        Ok(())
    }

    /// Starts an entry and returns the buffer to write it to.
    pub(crate) fn entry(&mut self) -> io::Result<&mut Vec<u8>> {
        self.next()?;
        Ok(&mut self.buffer)
    }

    /// Writes the buffer out if it is full, then appends the separator of the next entry.
    fn next(&mut self) -> io::Result<()> {
        if self.buffer.len() >= FULL {
            self.out.write_all(&self.buffer)?;
            self.buffer.clear();
        }
        self.buffer.extend_from_slice(if self.first { b"\n" } else { b",\n" });
        self.first = false;
        Ok(())
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
