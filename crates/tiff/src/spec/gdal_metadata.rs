//! GDAL_METADATA (tag 42112): an XML document with one `<Item>` for each piece of metadata.
//!
//! ```xml
//! <GDALMetadata>
//!   <Item name="SCALE" sample="0" role="scale">0.01</Item>
//! </GDALMetadata>
//! ```
//!
//! GDAL escapes an item's text before it writes the XML, which escapes it again; so it is unescaped twice.

use std::borrow::Cow;

use quick_xml::{
    Reader,
    escape::unescape,
    events::{BytesStart, Event},
};

use crate::model::GdalItem;

/// The items, in the order of the document; or why it is not read. Declared entities are refused, so that a text can
/// never grow beyond its size in the file.
pub(crate) fn parse(xml: &str, most: u64) -> Result<Vec<GdalItem>, String> {
    let mut reader = Reader::from_str(xml.trim_end_matches('\0'));
    let mut document = Document::default();
    loop {
        match reader.read_event().map_err(|error| error.to_string())? {
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
                // An entity that nobody declared stays as it is written.
                document.text(&unescape(&text).unwrap_or(Cow::Borrowed(&text)));
            }
            Event::DocType(_) => return Err("a document type declaration, expected none".into()),
            Event::Eof if document.depth > 0 => return Err("an element is not closed".into()),
            Event::Eof => return Ok(document.items),
            Event::Comment(_) | Event::Decl(_) | Event::PI(_) => {}
        }
        if document.items.len() as u64 > most {
            return Err(format!("more than {most} items"));
        }
    }
}

#[derive(Default)]
struct Document {
    /// Open elements.
    depth: usize,
    /// Whether the outermost element is GDALMetadata.
    in_metadata: bool,
    /// The item whose text is being read.
    item: Option<GdalItem>,
    items: Vec<GdalItem>,
}

impl Document {
    fn open(&mut self, start: &BytesStart<'_>) -> Result<(), String> {
        let name = start.name();
        match self.depth {
            0 => self.in_metadata = name.as_ref() == "GDALMetadata",
            1 if self.in_metadata && name.as_ref() == "Item" => self.item = item(start)?,
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
}

/// An item without its text; `None` where it has no name, as GDAL passes over it.
fn item(start: &BytesStart<'_>) -> Result<Option<GdalItem>, String> {
    let attribute = |name: &str| match start.try_get_attribute(name) {
        Ok(Some(attribute)) => {
            let text = unescape(&attribute.value).map_err(|error| error.to_string())?;
            Ok(Some(text.into_owned()))
        }
        Ok(None) => Ok(None),
        Err(error) => Err(error.to_string()),
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

/// The item with its text as GDAL shows it: without blanks at its start, and not at all where there is no text.
fn finished(item: GdalItem) -> Option<GdalItem> {
    let text = item.value.trim_start();
    let value = unescape(text).unwrap_or(Cow::Borrowed(text)).into_owned();
    (!value.is_empty()).then_some(GdalItem { value, ..item })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(xml: &str) -> String {
        parse(&format!("<GDALMetadata><Item name='a'>{xml}</Item></GDALMetadata>"), 9)
            .unwrap()
            .remove(0)
            .value
    }

    #[test]
    fn reads_items_with_their_attributes() {
        let xml = "<?xml version='1.0'?>\n<GDALMetadata>\n  <Item name=\"AREA\">x</Item>\n  \
            <Item name=\"SCALE\" domain=\"d&amp;e\" sample=\"1\" role=\"scale\">0.5</Item><Item>nameless</Item>\
            <Item name=\"empty\"/><Other name=\"no\">y</Other></GDALMetadata>";
        let items = parse(xml, 9).unwrap();
        let names: Vec<_> = items.iter().map(|item| (item.name.as_str(), item.value.as_str())).collect();
        assert_eq!(names, [("AREA", "x"), ("SCALE", "0.5")], "GDAL shows no item without text");
        assert_eq!((items[0].sample, items[0].role.as_deref()), (None, None));
        assert_eq!((items[1].domain.as_str(), items[1].sample), ("d&e", Some(1)));
        assert_eq!(items[1].role.as_deref(), Some("scale"));
    }

    #[test]
    fn unescapes_twice_as_gdal_writes_it() {
        assert_eq!(value("a &amp;amp; &amp;lt;b&amp;gt; é"), "a & <b> é");
        assert_eq!(value("x&amp;amp;amp;y"), "x&amp;y");
        assert_eq!(value("once &lt; &#65;"), "once < A");
        assert_eq!(value("AT&amp;T, &amp;no;"), "AT&T, &no;");
        assert_eq!(value("<![CDATA[1 < 2]]>"), "1 < 2");
        assert_eq!(value(" \n blanks &undeclared; "), "blanks &undeclared; ");
    }

    #[test]
    fn refuses_what_is_no_plain_document() {
        let bomb = "<!DOCTYPE b [<!ENTITY a \"aaaa\"><!ENTITY b \"&a;&a;\">]><GDALMetadata/>";
        assert!(parse(bomb, 9).unwrap_err().contains("document type"));
        assert!(parse("<GDALMetadata><Item name='a'>x", 9).is_err());
        assert!(parse("<GDALMetadata></Item></GDALMetadata>", 9).is_err());
        assert!(
            parse(&format!("<GDALMetadata>{}</GDALMetadata>", "<Item name='a'>b</Item>".repeat(10)), 9)
                .is_err()
        );
        assert_eq!(parse("not XML", 9), Ok(vec![]));
    }

    #[test]
    fn deep_nesting_is_no_burden() {
        let deep = format!("<GDALMetadata>{}{}</GDALMetadata>", "<a>".repeat(50_000), "</a>".repeat(50_000));
        assert_eq!(parse(&deep, 9), Ok(vec![]));
    }
}
