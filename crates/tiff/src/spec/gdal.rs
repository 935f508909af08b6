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
use crate::{
    Error, Structure,
    model::{GdalItem, Pam, PamPoints},
};

/// Parses the items in document order, at most `most`. `offset` is that of the directory, for errors.
///
/// # Errors
/// The document is not well-formed, or has a document type declaration: without declared entities, the parsed text is
/// never larger than the tag's value.
pub(crate) fn parse_metadata(xml: &str, offset: u64, most: u64) -> Result<Vec<GdalItem>, Error> {
    let mut reader = Reader::from_str(xml.split('\0').next().unwrap_or_default());
    let mut document = Document { offset, depth: 0, in_metadata: false, item: None, items: Vec::new() };
    loop {
        match reader.read_event().map_err(|error| document.malformed(error))? {
            Event::Start(start) => document.open(&start)?,
            Event::Empty(start) => {
                document.open(&start)?;
                document.close();
            }
            Event::End(_) => document.close(),
            Event::Text(text) => document.text(&text),
            Event::CData(text) => document.text(&text),
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
            // GDAL takes only the text before or behind them.
            Event::Comment(_) | Event::PI(_) if document.item.is_some() => {
                return Err(document.malformed("a comment within an item"));
            }
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
            0 if self.in_metadata => return Err(self.malformed("more than one document")),
            0 => self.in_metadata = name.as_ref().eq_ignore_ascii_case("GDALMetadata"),
            1 if self.in_metadata && name.as_ref().eq_ignore_ascii_case("Item") => {
                self.item = self.parse_item(start)?
            }
            _ => {}
        }
        self.depth = self.depth.saturating_add(1);
        Ok(())
    }

    fn close(&mut self) {
        self.depth = self.depth.saturating_sub(1);
        if self.depth == 1 {
            // GDAL shows the text unescaped and without leading white space, and no empty item.
            let Some(item) = self.item.take() else { return };
            let text = item.value.trim_start();
            let value = unescape(text).unwrap_or(Cow::Borrowed(text)).into_owned();
            if !value.is_empty() {
                self.items.push(GdalItem { value, ..item });
            }
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
        let attribute = |name: &str| {
            for attribute in start.attributes() {
                let attribute = attribute.map_err(|error| self.malformed(error))?;
                if attribute.key.as_ref().eq_ignore_ascii_case(name) {
                    let text = unescape(&attribute.value).map_err(|error| self.malformed(error))?;
                    return Ok(Some(text.into_owned()));
                }
            }
            Ok::<_, Error>(None)
        };
        let Some(name) = attribute("name")? else { return Ok(None) };
        Ok(Some(GdalItem {
            domain: attribute("domain")?.unwrap_or_default(),
            name,
            sample: attribute("sample")?
                .filter(|sample| !sample.trim_start().starts_with('-'))
                .map(|sample| whole(&sample)),
            role: attribute("role")?,
            value: String::new(),
        }))
    }
}

// Files that GDAL reads next to a TIFF: `.aux.xml` (GDAL's documentation, "PAM"), world files, and metadata of ArcGIS.
//
// ```xml
// <PAMDataset>
//   <SRS>PROJCS[…]</SRS>
//   <GeoTransform>300000, 10, 0, 5000000, 0, -10</GeoTransform>
//   <PAMRasterBand band="1"><NoDataValue>7</NoDataValue><Scale>0.5</Scale></PAMRasterBand>
// </PAMDataset>
// ```
//
// As in GDAL, names of elements are compared without regard to case, and the first of several counts.

/// Maximum depth of nested elements.
const MAX_DEPTH: usize = 64;

/// Elements whose content is not needed. It can be large.
const SKIPPED: [&str; 4] = ["Histograms", "GDALRasterAttributeTable", "ColorTable", "CategoryNames"];

/// Maximum length of a number in bytes.
const MAX_NUMBER: usize = 400;

/// Parses an `.aux.xml` with at most `most` elements.
///
/// # Errors
/// The document is not well-formed, has a document type declaration, or is too large.
pub fn parse_pam(xml: &str, most: u64) -> Result<Pam, String> {
    if ["<?", "<!--"].iter().any(|start| xml.trim_start_matches('\u{feff}').trim_start().starts_with(start)) {
        return Err(
            "a declaration or comment before the root element, for which GDAL ignores the file".to_owned()
        );
    }
    let root = parse(xml, most)?;
    let mut pam = Pam {
        srs: root.child("SRS").map(|srs| srs.text.clone()),
        transform: root.text_of("GeoTransform").map(transform).transpose()?,
        points: root.child("GCPList").map(points).filter(|points| !points.points.is_empty()),
        has_subdatasets: root.child("Subdataset").is_some(),
        ..Pam::default()
    };
    items(&root, None, &mut pam.items);
    let of_arcgis = |domain: &&Element| domain.attribute("domain") == Some("xml:ESRI");
    let xform = if root.is("GeodataXform") {
        Some(&root)
    } else {
        root.children("Metadata").find(of_arcgis).and_then(|domain| domain.child("GeodataXform"))
    };
    if let Some(xform) = xform.filter(|_| pam.srs.is_none()) {
        pam.srs = xform.child("SpatialReference").and_then(|srs| srs.text_of("WKT")).map(str::to_owned);
        pam.has_arcgis_points = xform.child("SourceGCPs").is_some();
    }
    for element in root.children("PAMRasterBand") {
        let Some(sample) = element.value("band").and_then(|band| whole(band).checked_sub(1)) else {
            continue;
        };
        let band = pam.bands.entry(sample).or_default();
        let text = |name: &str| element.text_of(name).map(str::to_owned);
        band.nodata = nodata(element).or(band.nodata.take());
        if let (scale, offset) = (element.text_of("Scale"), element.text_of("Offset"))
            && (scale.is_some() || offset.is_some())
        {
            band.packing = Some((scale.map_or(1.0, number), offset.map_or(0.0, number)));
        }
        band.unit = text("UnitType").or(band.unit.take());
        band.description = text("Description").or(band.description.take());
        band.color = text("ColorInterp").or(band.color.take());
        items(element, Some(sample), &mut pam.items);
    }
    Ok(pam)
}

/// Parses a world file to GDAL's six numbers, which start at the outer corner of the first pixel; `None` if GDAL ignores it.
pub fn parse_world_file(text: &str) -> Option<[f64; 6]> {
    let lines = text.split(['\n', '\r']).filter(|line| !line.trim().is_empty());
    // Unlike in XML, the decimal point may be a comma.
    let numbers: Vec<f64> = lines
        .take(6)
        .map(|line| match line.find([',', '.']).and_then(|at| line.get(at..)) {
            Some(rest) if rest.starts_with(',') => number(&line.replacen(',', ".", 1)),
            _ => number(line),
        })
        .collect();
    let [a, d, b, e, x, y] = numbers[..].try_into().ok()?;
    let is_used = (a != 0.0 || b != 0.0) && (e != 0.0 || d != 0.0);
    is_used.then_some([x - 0.5 * a - 0.5 * b, a, b, y - 0.5 * d - 0.5 * e, d, e])
}

/// Returns the EPSG code in ArcGIS metadata, the `.xml` that has the name of the TIFF without its extension; `None` for other
/// documents.
pub fn parse_arcgis_code(xml: &str, most: u64) -> Option<u32> {
    let root = parse(xml, most).ok().filter(|root| root.is("metadata"))?;
    let steps = ["refSysInfo", "RefSystem", "refSysID", "identCode"];
    let code = steps.iter().try_fold(&root, |element, step| element.child(step))?;
    Some(whole(code.value("code")?)).filter(|code| ![0, 32767].contains(code))
}

/// An element with its content.
#[derive(Default)]
struct Element {
    name: String,
    attributes: Vec<(String, String)>,
    text: String,
    children: Vec<Element>,
}

impl Element {
    fn is(&self, name: &str) -> bool {
        self.name.eq_ignore_ascii_case(name)
    }

    fn children(&self, name: &str) -> impl Iterator<Item = &Self> {
        self.children.iter().filter(move |child| child.is(name))
    }

    fn child(&self, name: &str) -> Option<&Self> {
        self.children(name).next()
    }

    fn attribute(&self, name: &str) -> Option<&str> {
        let mut attributes = self.attributes.iter();
        attributes.find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }

    /// Returns the text of a child, if it has any.
    fn text_of(&self, name: &str) -> Option<&str> {
        self.child(name).map(|child| child.text.as_str()).filter(|text| !text.is_empty())
    }

    /// Returns an attribute, or the text of a child.
    fn value(&self, name: &str) -> Option<&str> {
        self.attribute(name).or_else(|| self.text_of(name))
    }
}

fn parse(xml: &str, most: u64) -> Result<Element, String> {
    let mut reader = Reader::from_str(xml.trim_start_matches('\u{feff}'));
    let (mut open, mut root, mut count) = (Vec::<Element>::new(), None, 0_u64);
    loop {
        let event = reader.read_event().map_err(|error| error.to_string())?;
        let text = match &event {
            Event::Text(text) => Cow::Borrowed(&**text),
            Event::CData(text) => Cow::Borrowed(&**text),
            Event::GeneralRef(reference) => {
                let text = format!("&{};", &**reference);
                Cow::Owned(unescape(&text).unwrap_or(Cow::Borrowed(&text)).into_owned())
            }
            _ => Cow::Borrowed(""),
        };
        if let Some(element) = open.last_mut() {
            let text = if element.text.is_empty() { text.trim_start() } else { &text };
            element.text.push_str(text);
        }
        let closed = match &event {
            Event::Start(start) => {
                if SKIPPED.iter().any(|name| start.name().as_ref().eq_ignore_ascii_case(name)) {
                    reader.read_to_end(start.name()).map_err(|error| error.to_string())?;
                } else {
                    open.push(element(start)?);
                }
                None
            }
            Event::Empty(start) => Some(element(start)?),
            Event::End(_) => open.pop(),
            Event::DocType(_) => return Err("a document type declaration, expected none".to_owned()),
            Event::Eof => break,
            _ => None,
        };
        count = count.saturating_add(u64::from(matches!(event, Event::Start(_) | Event::Empty(_))));
        if open.len() > MAX_DEPTH || count > most {
            return Err(format!("more than {most} elements, or more than {MAX_DEPTH} nested ones"));
        }
        match (closed, open.last_mut()) {
            (Some(element), Some(parent)) => parent.children.push(element),
            (Some(element), None) => root = root.or(Some(element)),
            (None, _) => {}
        }
    }
    root.filter(|_| open.is_empty()).ok_or_else(|| "end of the document, expected an element".to_owned())
}

fn element(start: &BytesStart<'_>) -> Result<Element, String> {
    let mut attributes = Vec::new();
    for attribute in start.attributes() {
        let attribute = attribute.map_err(|error| error.to_string())?;
        let value = unescape(&attribute.value).map_err(|error| error.to_string())?.into_owned();
        attributes.push((attribute.key.as_ref().to_owned(), value));
    }
    Ok(Element { name: start.name().as_ref().to_owned(), attributes, ..Element::default() })
}

/// Appends the metadata items of an element. Those of domains that are XML documents are omitted.
fn items(element: &Element, sample: Option<u32>, items: &mut Vec<GdalItem>) {
    for metadata in element.children("Metadata") {
        let domain = metadata.attribute("domain").unwrap_or_default();
        if metadata.attribute("format").is_some_and(|format| format.eq_ignore_ascii_case("xml")) {
            continue;
        }
        for item in metadata.children("MDI").filter(|item| !item.text.is_empty()) {
            let Some((_, name)) = item.attributes.first() else { continue };
            let (domain, name, value) = (domain.to_owned(), name.clone(), item.text.clone());
            items.push(GdalItem { domain, name, sample, role: None, value });
        }
    }
}

/// Returns the nodata value as text. Its bytes take precedence.
fn nodata(band: &Element) -> Option<String> {
    let element = band.child("NoDataValue")?;
    let text = element.text.trim();
    // 16 hexadecimal digits, the least significant byte first.
    let hex = element.attribute("le_hex_equiv").filter(|hex| hex.len() == 16);
    let hex = hex.and_then(|hex| u64::from_str_radix(hex, 16).ok());
    let hex = hex.map(|bits| f64::from_bits(bits.swap_bytes()));
    let value = hex.unwrap_or_else(|| number(text));
    let same = |stored: f64| stored == value || stored.is_nan() && value.is_nan();
    match text.parse::<f64>() {
        _ if text.is_empty() && hex.is_none() => None,
        // The text of a 64-bit integer has more digits than the number.
        Ok(stored) if same(stored) => Some(text.to_owned()),
        _ => Some(format!("{value:?}")),
    }
}

fn points(list: &Element) -> PamPoints {
    let points = list.children("GCP").map(|point| {
        let of = |name: &str| point.value(name).map_or(0.0, number);
        [of("Pixel"), of("Line"), of("X"), of("Y"), of("Z")]
    });
    PamPoints { points: points.collect(), srs: list.value("Projection").map(str::to_owned) }
}

fn transform(text: &str) -> Result<[f64; 6], String> {
    let numbers: Vec<f64> = text.split(',').map(number).collect();
    numbers
        .try_into()
        .map_err(|found: Vec<f64>| format!("GeoTransform has {} numbers, expected 6", found.len()))
}

/// Returns the number at the start of a text, as C's `atof` does: 0 if there is none.
fn number(text: &str) -> f64 {
    let text = text.trim_start();
    let unsigned = text.trim_start_matches(['+', '-']).to_ascii_lowercase();
    if unsigned.starts_with("nan") {
        return f64::NAN;
    }
    if unsigned.starts_with("inf") {
        return if text.starts_with('-') { f64::NEG_INFINITY } else { f64::INFINITY };
    }
    let is_part = |c: char| c.is_ascii_digit() || matches!(c, '+' | '-' | '.' | 'e' | 'E');
    let length = text.find(|c| !is_part(c)).unwrap_or(text.len()).min(MAX_NUMBER);
    (1..=length).rev().find_map(|end| text.get(..end)?.parse().ok()).unwrap_or(0.0)
}

/// Returns the integer at the start of a text, as C's `atoi` does: 0 if there is none, or if it is out of range.
fn whole(text: &str) -> u32 {
    let text = text.trim_start();
    let length = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    text.get(..length).and_then(|digits| digits.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::PamBand;

    fn value(xml: &str) -> String {
        parse_metadata(&format!("<GDALMetadata><Item name='a'>{xml}</Item></GDALMetadata>"), 0, 9)
            .unwrap()
            .remove(0)
            .value
    }

    #[test]
    fn reads_items_with_their_attributes() {
        let xml = "<?xml version='1.0'?>\n<GDALMetadata>\n  <Item name=\"AREA\">x</Item>\n  \
            <Item name=\"SCALE\" domain=\"d&amp;e\" sample=\"1\" role=\"scale\">0.5</Item><Item>nameless</Item>\
            <Item name=\"empty\"/><Other name=\"no\">y</Other></GDALMetadata>";
        let items = parse_metadata(xml, 0, 9).unwrap();
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
        assert_eq!(value("two\r\nlines"), "two\r\nlines", "GDAL does not normalize line ends");
        assert_eq!(value(" \n blanks &undeclared; "), "blanks &undeclared; ");
    }

    #[test]
    fn rejects_declarations_malformed_documents_and_too_many_items() {
        let bomb = "<!DOCTYPE b [<!ENTITY a \"aaaa\"><!ENTITY b \"&a;&a;\">]><GDALMetadata/>";
        assert!(parse_metadata(bomb, 0, 9).unwrap_err().to_string().contains("document type"));
        assert!(parse_metadata("<GDALMetadata><Item name='a'>x", 0, 9).is_err());
        assert!(parse_metadata("<GDALMetadata></Item></GDALMetadata>", 0, 9).is_err());
        assert!(
            parse_metadata(
                &format!("<GDALMetadata>{}</GDALMetadata>", "<Item name='a'>b</Item>".repeat(10)),
                0,
                9
            )
            .is_err()
        );
        assert_eq!(parse_metadata("not XML", 0, 9).unwrap(), []);
    }

    #[test]
    fn deep_nesting_does_not_overflow_the_stack() {
        let deep = format!("<GDALMetadata>{}{}</GDALMetadata>", "<a>".repeat(50_000), "</a>".repeat(50_000));
        assert_eq!(parse_metadata(&deep, 0, 9).unwrap(), []);
    }

    fn band(xml: &str) -> PamBand {
        let xml = format!("<PAMDataset><PAMRasterBand band='1'>{xml}</PAMRasterBand></PAMDataset>");
        parse_pam(&xml, 99).unwrap().bands.remove(&0).unwrap()
    }

    /// What GDAL 3.12 reads.
    #[test]
    fn reads_bands() {
        let nodata = |xml: &str| band(xml).nodata;
        for (xml, expected) in [
            ("<NoDataValue>7</NoDataValue>", "7"),
            ("<nodatavalue>9007199254740993</nodatavalue>", "9007199254740993"),
            ("<NoDataValue>7,5</NoDataValue>", "7.0"),
            ("<NoDataValue>abc</NoDataValue>", "0.0"),
            ("<NoDataValue>nan</NoDataValue>", "nan"),
            ("<NoDataValue>1</NoDataValue><NoDataValue>2</NoDataValue>", "1"),
            ("<NoDataValue le_hex_equiv='000000000000F87F'>7</NoDataValue>", "NaN"),
            ("<NoDataValue le_hex_equiv='00'>7</NoDataValue>", "7"),
        ] {
            assert_eq!(nodata(xml).as_deref(), Some(expected), "{xml}");
        }
        assert_eq!(nodata("<NoDataValue></NoDataValue>"), None);
        assert_eq!(band("<Scale>0.5 m</Scale>").packing, Some((0.5, 0.0)));
        assert_eq!(band("<Offset>x</Offset>").packing, Some((1.0, 0.0)));
        assert_eq!(band("<Scale>0,5</Scale>").packing, Some((0.0, 0.0)));
        assert_eq!(band("<UnitType> K</UnitType>").unit.as_deref(), Some("K"));
    }

    #[test]
    fn reads_the_dataset() {
        let xml = "<PAMDataset><SRS>EPSG:4326</SRS>\
            <GeoTransform> 4.0e+05, 10, 0,6000000,0,-10</GeoTransform>\
            <Metadata domain='d'><MDI key='a'>b &amp; c</MDI><MDI key='empty'/></Metadata>\
            <PAMRasterBand band='2'><Histograms><x/></Histograms><Metadata><MDI key='n'>1</MDI></Metadata></PAMRasterBand>\
            <PAMRasterBand band='0'/></PAMDataset>";
        let pam = parse_pam(xml, 99).unwrap();
        assert_eq!(pam.srs.as_deref(), Some("EPSG:4326"));
        assert_eq!(pam.transform, Some([4e5, 10.0, 0.0, 6e6, 0.0, -10.0]));
        let items: Vec<_> = pam.items.iter().map(|item| (&*item.domain, &*item.name, &*item.value)).collect();
        assert_eq!(items, [("d", "a", "b & c"), ("", "n", "1")]);
        assert_eq!(pam.items[1].sample, Some(1));
        assert_eq!(pam.bands.len(), 1);
    }

    #[test]
    fn reads_control_points_and_arcgis() {
        let points = "<PAMDataset><GCPList Projection='EPSG:4326'><GCP Pixel='1' Line='2' X='3' Y='4'/></GCPList></PAMDataset>";
        let points = parse_pam(points, 9).unwrap().points.unwrap();
        assert_eq!(
            (points.points, points.srs.as_deref()),
            (vec![[1.0, 2.0, 3.0, 4.0, 0.0]], Some("EPSG:4326"))
        );
        let xform = "<GeodataXform><SpatialReference><WKT>GEOGCS[]</WKT></SpatialReference><SourceGCPs/></GeodataXform>";
        let inner =
            format!("<PAMDataset><Metadata domain='xml:ESRI' format='xml'>{xform}</Metadata></PAMDataset>");
        for xml in [xform, &inner] {
            let pam = parse_pam(xml, 9).unwrap();
            assert_eq!((pam.srs.as_deref(), pam.has_arcgis_points), (Some("GEOGCS[]"), true));
        }
        let code = |xml: &str| parse_arcgis_code(xml, 9);
        let of = |root: &str| {
            format!(
                "<{root}><refSysInfo><RefSystem><refSysID><identCode code='32634'/></refSysID></RefSystem></refSysInfo></{root}>"
            )
        };
        assert_eq!(
            (code(&of("metadata")), code(&of("x")), code("<metadata/>"), code("no")),
            (Some(32634), None, None, None)
        );
    }

    #[test]
    fn rejects_what_is_not_a_document() {
        for xml in [
            "",
            "<PAMDataset>",
            "<PAMDataset></x>",
            "<!-- c --><PAMDataset/>",
            "<?xml version='1.0'?><PAMDataset/>",
            "<!DOCTYPE a [<!ENTITY b 'c'>]><PAMDataset/>",
            "<PAMDataset><GeoTransform>1 2 3</GeoTransform></PAMDataset>",
        ] {
            assert!(parse_pam(xml, 99).is_err(), "{xml}");
        }
        let many = |inner: &str, count: usize| format!("<PAMDataset>{}</PAMDataset>", inner.repeat(count));
        assert!(parse_pam(&many("<a/>", 100), 99).is_err());
        assert!(parse_pam(&format!("{}{}", "<a>".repeat(50_000), "</a>".repeat(50_000)), 1_000_000).is_err());
    }

    /// What GDAL 3.12 reads.
    #[test]
    fn reads_world_files() {
        let half = Some([99.5, 1.0, 0.0, 200.5, 0.0, -1.0]);
        for text in [
            "1\n0\n0\n-1\n100\n200\n",
            "1\r\n0\r\n0\r\n-1\r\n100\r\n200\r\n",
            "1\r0\r0\r-1\r100\r200",
            "1\n\n0\n0\n-1\n100\n200\n300",
            "1 m\n0\n0\n-1\n100\n200",
            "1,0\n0\n0\n-1,0\n100,0\n200",
        ] {
            assert_eq!(parse_world_file(text), half, "{text:?}");
        }
        for text in [
            "",
            "1 0 0 -1 100 200",
            "1\n0\n0\n-1\n100",
            "0\n0\n0\n0\n1\n1",
            "1\n0\n0\n0\n1\n1",
            "\u{feff}1\n0\n0\n-1\n100\n200",
        ] {
            assert_eq!(parse_world_file(text), None, "{text:?}");
        }
        assert_eq!(parse_world_file("0\n2\n2\n0\n100\n200"), Some([99.0, 0.0, 2.0, 199.0, 2.0, 0.0]));
    }
}
