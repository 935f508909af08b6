//! The elements and texts of a document, one at a time, with the line of each for errors. No entities are expanded but those
//! of XML itself, and a document type declaration is refused.

use std::borrow::Cow;

use quick_xml::{
    Reader,
    escape::unescape,
    events::{BytesStart, Event},
};
use virtualize_bytes::{Limits, ReadRanges};

use crate::Error;
use crate::error::Problem;

/// Decodes a document. Hyrax declares ISO 8859-1, other writers UTF-8.
pub(crate) fn decode(bytes: &[u8]) -> Result<Cow<'_, str>, Error> {
    let end = bytes.iter().position(|byte| *byte == b'>').unwrap_or(0);
    let declaration = String::from_utf8_lossy(bytes.get(..end).unwrap_or_default()).to_ascii_lowercase();
    let is_latin = declaration.starts_with("<?xml") && declaration.contains("iso-8859-1");
    let error = |problem: Problem| Err(problem.at(1, "document".to_owned()));
    match std::str::from_utf8(bytes) {
        Ok(text) if text.is_ascii() || !is_latin => Ok(text.into()),
        Ok(_) => error(Problem::incomplete("it declares ISO 8859-1, but may be UTF-8")),
        Err(_) if is_latin => Ok(bytes.iter().map(|byte| char::from(*byte)).collect::<String>().into()),
        Err(_) => error(Problem::malformed("bytes that are not UTF-8")),
    }
}

/// The next part of a document.
pub(crate) enum Node<'a> {
    /// A start tag. An empty element yields this and then [`Node::Close`].
    Open(Element<'a>),
    /// An end tag.
    Close,
    /// Text between tags, without references to characters or entities.
    Text(Cow<'a, str>),
    /// The end of the document.
    End,
}

/// A start tag.
pub(crate) struct Element<'a>(BytesStart<'a>);

impl Element<'_> {
    /// Returns the name with its prefix, such as `dmrpp:chunks`.
    pub(crate) fn name(&self) -> String {
        self.0.name().as_ref().to_owned()
    }

    /// Returns whether the element has this name with its prefix.
    pub(crate) fn is(&self, name: &str) -> bool {
        self.0.name().as_ref() == name
    }

    /// Returns the value of an attribute.
    pub(crate) fn attribute(&self, name: &str) -> Result<Option<String>, Problem> {
        let found = self.0.try_get_attribute(name).map_err(|error| Problem::malformed(error.to_string()))?;
        let value = found.map(|attribute| unescape(&attribute.value).map(Cow::into_owned)).transpose();
        value.map_err(|error| Problem::malformed(error.to_string()))
    }

    /// Returns the value of an attribute that must be there.
    pub(crate) fn required(&self, name: &str) -> Result<String, Problem> {
        self.attribute(name)?.ok_or_else(|| Problem::malformed(format!("no attribute {name}")))
    }

    /// Calls `each` with the name and the raw value of every attribute.
    pub(crate) fn each_attribute(
        &self,
        mut each: impl FnMut(&str, &str) -> Result<(), Problem>,
    ) -> Result<(), Problem> {
        for attribute in self.0.attributes().with_checks(false) {
            let attribute = attribute.map_err(|error| Problem::malformed(error.to_string()))?;
            each(attribute.key.as_ref(), &attribute.value)?;
        }
        Ok(())
    }
}

/// A document that is being read.
pub(crate) struct Xml<'a> {
    text: &'a str,
    reader: Reader<&'a [u8]>,
    depth: u64,
    source: &'a dyn ReadRanges,
    limits: Limits,
    chunks: u64,
    /// Names of the variable and element in work, for errors.
    pub(crate) place: Vec<String>,
}

impl<'a> Xml<'a> {
    pub(crate) fn new(text: &'a str, limits: &Limits, source: &'a dyn ReadRanges) -> Self {
        let mut reader = Reader::from_str(text);
        reader.config_mut().expand_empty_elements = true;
        Self { text, reader, depth: 0, source, limits: *limits, chunks: 0, place: Vec::new() }
    }

    pub(crate) fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Charges memory for parsed content.
    pub(crate) fn hold(&self, what: &str, bytes: usize) -> Result<(), Problem> {
        Ok(self.source.hold(what, bytes as u64)?)
    }

    /// Counts a chunk, and charges its memory in steps.
    #[inline]
    pub(crate) fn count_chunk(&mut self) -> Result<(), Problem> {
        const STEP: u64 = 1024;
        const CHUNK_BYTES: u64 = 20;
        if self.chunks.is_multiple_of(STEP) {
            self.source.hold("chunk tables", STEP.saturating_mul(CHUNK_BYTES))?;
        }
        self.chunks = self.chunks.saturating_add(1);
        if self.chunks > self.limits.chunks {
            Err(Problem::Limit(format!("more than {} chunks", self.limits.chunks)))
        } else {
            Ok(())
        }
    }

    /// Adds the place that was read last to a problem.
    pub(crate) fn error(&self, problem: Problem) -> Error {
        let position = usize::try_from(self.reader.buffer_position()).unwrap_or(usize::MAX);
        let read = self.text.as_bytes().get(..position).unwrap_or(self.text.as_bytes());
        let line = read.iter().filter(|byte| **byte == b'\n').count() as u64;
        let element = if self.place.is_empty() { "document".to_owned() } else { self.place.join(" of ") };
        problem.at(line.saturating_add(1), element)
    }

    /// Returns the next part.
    pub(crate) fn next(&mut self) -> Result<Node<'a>, Problem> {
        loop {
            let malformed = |error: &dyn std::fmt::Display| Problem::malformed(error.to_string());
            return Ok(match self.reader.read_event().map_err(|error| malformed(&error))? {
                Event::Start(start) => {
                    self.depth = self.depth.saturating_add(1);
                    Node::Open(Element(start))
                }
                Event::End(_) => {
                    self.depth = self.depth.saturating_sub(1);
                    Node::Close
                }
                Event::Text(text) => Node::Text(text.xml10_content().into_owned().into()),
                Event::CData(text) => Node::Text(text.xml10_content().into_owned().into()),
                Event::GeneralRef(reference) => {
                    let text = format!("&{};", &*reference);
                    Node::Text(unescape(&text).map_err(|error| malformed(&error))?.into_owned().into())
                }
                Event::Eof if self.depth > 0 => {
                    return Err(Problem::malformed("the document ends, expected a closing tag"));
                }
                Event::Eof => Node::End,
                Event::DocType(_) => {
                    return Err(Problem::malformed("a document type declaration, expected none"));
                }
                Event::Empty(_) | Event::Comment(_) | Event::Decl(_) | Event::PI(_) => continue,
            });
        }
    }

    /// Returns the next child of the element that was opened last; `None` at its end. Text is refused unless it is blank.
    pub(crate) fn child(&mut self) -> Result<Option<Element<'a>>, Problem> {
        loop {
            match self.next()? {
                Node::Open(element) => return Ok(Some(element)),
                Node::Close | Node::End => return Ok(None),
                Node::Text(text) if text.trim().is_empty() => {}
                Node::Text(_) => return Err(Problem::malformed("text, expected elements")),
            }
        }
    }

    /// Returns the text of the element that was opened last, up to its end.
    pub(crate) fn text(&mut self) -> Result<String, Problem> {
        let mut text = String::new();
        loop {
            match self.next()? {
                Node::Text(part) => {
                    self.hold("texts", part.len())?;
                    text.push_str(&part);
                }
                Node::Close | Node::End => return Ok(text),
                Node::Open(element) => {
                    return Err(Problem::malformed(format!("element {}, expected text", element.name())));
                }
            }
        }
    }

    /// Skips the rest of the element that was opened last.
    pub(crate) fn skip(&mut self) -> Result<(), Problem> {
        let mut open = 1_u64;
        while open > 0 {
            match self.next()? {
                Node::Open(_) => open = open.saturating_add(1),
                Node::Close => open = open.saturating_sub(1),
                Node::Text(_) => {}
                Node::End => return Ok(()),
            }
        }
        Ok(())
    }
}
