//! The elements and texts of a document, one at a time, with the line of each for errors. No entities are expanded but those
//! of XML itself, and a document type declaration is refused.

use std::borrow::Cow;

use quick_xml::{
    Reader,
    escape::unescape,
    events::{BytesStart, Event},
};
use virtualize_bytes::{Limits, ReadRanges};

use crate::{Error, Result};

/// Decodes a document. Hyrax declares ISO 8859-1, other writers UTF-8.
pub(crate) fn decode(bytes: &[u8]) -> Result<Cow<'_, str>> {
    let end = bytes.iter().position(|byte| *byte == b'>').unwrap_or(0);
    let declaration = String::from_utf8_lossy(bytes.get(..end).unwrap_or_default()).to_ascii_lowercase();
    let is_latin = declaration.starts_with("<?xml") && declaration.contains("iso-8859-1");
    match std::str::from_utf8(bytes) {
        Ok(text) if text.is_ascii() || !is_latin => Ok(text.into()),
        Ok(_) => Err(Error::new("it declares ISO 8859-1, but may be UTF-8")),
        Err(_) if is_latin => Ok(bytes.iter().map(|byte| char::from(*byte)).collect::<String>().into()),
        Err(_) => Err(Error::new("bytes that are not UTF-8")),
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
    pub(crate) fn attribute(&self, name: &str) -> Result<Option<String>> {
        let mut found = None;
        self.each_attribute(|key, value| {
            if key == name {
                found = Some(value.to_owned());
            }
            Ok(())
        })?;
        Ok(found)
    }

    /// Returns the value of an attribute that must be there.
    pub(crate) fn required(&self, name: &str) -> Result<String> {
        self.attribute(name)?.ok_or_else(|| Error::new(format!("no attribute {name}")))
    }

    /// Calls `each` with the name and the value of every attribute.
    pub(crate) fn each_attribute(&self, mut each: impl FnMut(&str, &str) -> Result<()>) -> Result<()> {
        for attribute in self.0.attributes().with_checks(false) {
            let attribute = attribute.map_err(malformed)?;
            each(attribute.key.as_ref(), &unescape(&attribute.value).map_err(malformed)?)?;
        }
        Ok(())
    }
}

fn malformed(error: impl std::fmt::Display) -> Error {
    Error::new(error.to_string())
}

/// A document that is being read.
pub(crate) struct Xml<'a> {
    text: &'a str,
    reader: Reader<&'a [u8]>,
    depth: u64,
    source: &'a dyn ReadRanges,
    pub(crate) limits: Limits,
    /// Number of chunks so far.
    pub(crate) chunks: u64,
    /// Name of the variable or element in work, for errors.
    pub(crate) element: String,
}

impl<'a> Xml<'a> {
    pub(crate) fn new(text: &'a str, limits: &Limits, source: &'a dyn ReadRanges) -> Self {
        let mut reader = Reader::from_str(text);
        reader.config_mut().expand_empty_elements = true;
        Self { text, reader, depth: 0, source, limits: *limits, chunks: 0, element: "document".to_owned() }
    }

    /// Charges memory for parsed content.
    pub(crate) fn hold(&self, what: &str, bytes: usize) -> Result<()> {
        Ok(self.source.hold(what, bytes as u64)?)
    }

    /// Returns the line that was read last, from 1.
    pub(crate) fn line(&self) -> u64 {
        let position = usize::try_from(self.reader.buffer_position()).unwrap_or(usize::MAX);
        let read = self.text.as_bytes().get(..position).unwrap_or(self.text.as_bytes());
        (read.iter().filter(|byte| **byte == b'\n').count() as u64).saturating_add(1)
    }

    /// Returns the next part.
    pub(crate) fn next(&mut self) -> Result<Node<'a>> {
        loop {
            return Ok(match self.reader.read_event().map_err(malformed)? {
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
                    Node::Text(unescape(&text).map_err(malformed)?.into_owned().into())
                }
                Event::Eof if self.depth > 0 => {
                    return Err(Error::new("the document ends, expected a closing tag"));
                }
                Event::Eof => Node::End,
                Event::DocType(_) => {
                    return Err(Error::new("a document type declaration, expected none"));
                }
                Event::Empty(_) | Event::Comment(_) | Event::Decl(_) | Event::PI(_) => continue,
            });
        }
    }

    /// Returns the next child of the element that was opened last; `None` at its end. Text is refused unless it is blank.
    pub(crate) fn child(&mut self) -> Result<Option<Element<'a>>> {
        loop {
            match self.next()? {
                Node::Open(element) => return Ok(Some(element)),
                Node::Close | Node::End => return Ok(None),
                Node::Text(text) if text.trim().is_empty() => {}
                Node::Text(_) => return Err(Error::new("text, expected elements")),
            }
        }
    }

    /// Returns the text of the element that was opened last, up to its end.
    pub(crate) fn text(&mut self) -> Result<String> {
        let mut text = String::new();
        loop {
            match self.next()? {
                Node::Text(part) => {
                    self.hold("texts", part.len())?;
                    text.push_str(&part);
                }
                Node::Close | Node::End => return Ok(text),
                Node::Open(element) => {
                    return Err(Error::new(format!("element {}, expected text", element.name())));
                }
            }
        }
    }

    /// Skips the rest of the element that was opened last.
    pub(crate) fn skip(&mut self) -> Result<()> {
        let outside = self.depth.saturating_sub(1);
        while self.depth > outside {
            self.next()?;
        }
        Ok(())
    }
}
