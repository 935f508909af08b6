//! The GDAL_METADATA tag (42112): an XML document with one `<Item>` per metadata item (GDAL's GTiff driver documentation,
//! "Metadata").
//!
//! ```xml
//! <GDALMetadata>
//!   <Item name="SCALE" sample="0" role="scale">0.01</Item>
//! </GDALMetadata>
//! ```
//!
//! GDAL escapes the text of an item twice on writing: once itself and once in its XML serializer. The parser therefore
//! unescapes it twice.

use std::borrow::Cow;

use quick_xml::{
    Reader,
    escape::unescape,
    events::{BytesStart, Event},
};

use super::tag;
use crate::{Error, Structure, model::GdalItem};

/// Parses the items in document order, at most `most`. `offset` is that of the directory, for errors.
///
/// # Errors
/// The document is not well-formed, or has a document type declaration: without declared entities, the parsed text is
/// never larger than the tag's value.
pub(crate) fn parse(xml: &str, offset: u64, most: u64) -> Result<Vec<GdalItem>, Error> {
    let mut reader = Reader::from_str(xml.trim_end_matches('\0'));
    let mut document = Document { offset, depth: 0, in_metadata: false, item: None, items: Vec::new() };
    loop {
        match reader.read_event().map_err(|error| document.malformed(error))? {
            Event::Start(start) => document.open(&start)?,
            Event::Empty(start) => {
                document.open(&start)?;
                document.close();
            }
            Event::End(_) => document.close(),
            Event::Text(text) => document.text(&text.xml10_content()),
            Event::CData(text) => document.text(&text.xml10_content()),
            Event::GeneralRef(reference) => {
                let text = format!("&{};", &*reference);
                // An undeclared entity is kept verbatim.
                document.text(&unescape(&text).unwrap_or(Cow::Borrowed(&text)));
            }
            Event::DocType(_) => return Err(document.malformed("a document type declaration, expected none")),
            Event::Eof if document.depth > 0 => {
                return Err(document.malformed("end of the document, expected a closing tag"));
            }
            Event::Eof => return Ok(document.items),
            Event::Comment(_) | Event::Decl(_) | Event::PI(_) => {}
        }
        if document.items.len() as u64 > most {
            return Err(document.malformed(format!("more than {most} items")));
        }
    }
}

struct Document {
    /// Offset of the directory, for errors.
    offset: u64,
    /// Number of open elements.
    depth: usize,
    /// Whether the root element is `GDALMetadata`.
    in_metadata: bool,
    /// The item whose text is being read.
    item: Option<GdalItem>,
    items: Vec<GdalItem>,
}

impl Document {
    fn malformed(&self, problem: impl ToString) -> Error {
        Error::malformed(Structure::Tag(tag::GDAL_METADATA), self.offset, problem.to_string())
    }

    fn open(&mut self, start: &BytesStart<'_>) -> Result<(), Error> {
        let name = start.name();
        match self.depth {
            0 => self.in_metadata = name.as_ref() == "GDALMetadata",
            1 if self.in_metadata && name.as_ref() == "Item" => self.item = self.parse_item(start)?,
            _ => {}
        }
        self.depth = self.depth.saturating_add(1);
        Ok(())
    }

    fn close(&mut self) {
        self.depth = self.depth.saturating_sub(1);
        if self.depth == 1 {
            self.items.extend(self.item.take().and_then(finished));
        }
    }

    fn text(&mut self, text: &str) {
        if self.depth == 2
            && let Some(item) = &mut self.item
        {
            item.value.push_str(text);
        }
    }

    /// Parses an item up to its text. Returns `None` for an item without a name, which GDAL ignores.
    fn parse_item(&self, start: &BytesStart<'_>) -> Result<Option<GdalItem>, Error> {
        let attribute = |name: &str| match start.try_get_attribute(name) {
            Ok(Some(attribute)) => {
                let text = unescape(&attribute.value).map_err(|error| self.malformed(error))?;
                Ok(Some(text.into_owned()))
            }
            Ok(None) => Ok(None),
            Err(error) => Err(self.malformed(error)),
        };
        let Some(name) = attribute("name")? else { return Ok(None) };
        Ok(Some(GdalItem {
            domain: attribute("domain")?.unwrap_or_default(),
            name,
            sample: attribute("sample")?.and_then(|sample| sample.trim().parse().ok()),
            role: attribute("role")?,
            value: String::new(),
        }))
    }
}

/// Returns the item as GDAL reports it: with its text unescaped and without leading white space, or `None` if it is empty.
fn finished(item: GdalItem) -> Option<GdalItem> {
    let text = item.value.trim_start();
    let value = unescape(text).unwrap_or(Cow::Borrowed(text)).into_owned();
    (!value.is_empty()).then_some(GdalItem { value, ..item })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(xml: &str) -> String {
        parse(&format!("<GDALMetadata><Item name='a'>{xml}</Item></GDALMetadata>"), 0, 9)
            .unwrap()
            .remove(0)
            .value
    }

    #[test]
    fn reads_items_with_their_attributes() {
        let xml = "<?xml version='1.0'?>\n<GDALMetadata>\n  <Item name=\"AREA\">x</Item>\n  \
            <Item name=\"SCALE\" domain=\"d&amp;e\" sample=\"1\" role=\"scale\">0.5</Item><Item>nameless</Item>\
            <Item name=\"empty\"/><Other name=\"no\">y</Other></GDALMetadata>";
        let items = parse(xml, 0, 9).unwrap();
        let names: Vec<_> = items.iter().map(|item| (item.name.as_str(), item.value.as_str())).collect();
        assert_eq!(names, [("AREA", "x"), ("SCALE", "0.5")], "GDAL omits items without text");
        assert_eq!((items[0].sample, items[0].role.as_deref()), (None, None));
        assert_eq!((items[1].domain.as_str(), items[1].sample), ("d&e", Some(1)));
        assert_eq!(items[1].role.as_deref(), Some("scale"));
    }

    #[test]
    fn unescapes_text_twice() {
        assert_eq!(value("a &amp;amp; &amp;lt;b&amp;gt; é"), "a & <b> é");
        assert_eq!(value("x&amp;amp;amp;y"), "x&amp;y");
        assert_eq!(value("once &lt; &#65;"), "once < A");
        assert_eq!(value("AT&amp;T, &amp;no;"), "AT&T, &no;");
        assert_eq!(value("<![CDATA[1 < 2]]>"), "1 < 2");
        assert_eq!(value(" \n blanks &undeclared; "), "blanks &undeclared; ");
    }

    #[test]
    fn rejects_declarations_malformed_documents_and_too_many_items() {
        let bomb = "<!DOCTYPE b [<!ENTITY a \"aaaa\"><!ENTITY b \"&a;&a;\">]><GDALMetadata/>";
        assert!(parse(bomb, 0, 9).unwrap_err().to_string().contains("document type"));
        assert!(parse("<GDALMetadata><Item name='a'>x", 0, 9).is_err());
        assert!(parse("<GDALMetadata></Item></GDALMetadata>", 0, 9).is_err());
        assert!(
            parse(&format!("<GDALMetadata>{}</GDALMetadata>", "<Item name='a'>b</Item>".repeat(10)), 0, 9)
                .is_err()
        );
        assert_eq!(parse("not XML", 0, 9).unwrap(), []);
    }

    #[test]
    fn deep_nesting_does_not_overflow_the_stack() {
        let deep = format!("<GDALMetadata>{}{}</GDALMetadata>", "<a>".repeat(50_000), "</a>".repeat(50_000));
        assert_eq!(parse(&deep, 0, 9).unwrap(), []);
    }
}
