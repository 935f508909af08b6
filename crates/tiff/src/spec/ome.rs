//! OME-XML in ImageDescription (270) of the first image: which pages are the planes of which image, and along which axes
//! they lie (OME-TIFF specification, version 6).
//!
//! ```xml
//! <OME UUID="urn:uuid:…"><Image ID="Image:0" Name="cells">
//!   <Pixels DimensionOrder="XYCZT" SizeC="2" SizeT="1" SizeX="5" SizeY="4" SizeZ="3">
//!     <Channel ID="Channel:0:0" Name="DAPI" SamplesPerPixel="1"/>
//!     <TiffData FirstC="0" FirstT="0" FirstZ="0" IFD="0" PlaneCount="6">
//!       <UUID FileName="other.ome.tif">urn:uuid:…</UUID>
//!     </TiffData>
//!   </Pixels>
//! </Image></OME>
//! ```

use quick_xml::{
    Reader,
    escape::unescape,
    events::{BytesStart, Event},
};

/// What an OME-XML document says of the pages of its files.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Ome {
    /// UUID of the file that holds the document.
    pub uuid: Option<String>,
    /// The document is a stub: what it should say stands in this file (`BinaryOnly`).
    pub metadata_file: Option<String>,
    /// Images in the order of the document.
    pub images: Vec<OmeImage>,
}

/// An `Image` with its `Pixels`.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct OmeImage {
    /// Name.
    pub name: Option<String>,
    /// `DimensionOrder` behind `XY`, fastest first: `C`, `Z` and `T` with their sizes in planes or, of `C`, in samples.
    pub axes: Vec<(char, u64)>,
    /// `SizeX`.
    pub width: u64,
    /// `SizeY`.
    pub height: u64,
    /// `SamplesPerPixel` of its channels, where these say it.
    pub samples: Option<u64>,
    /// Names of channels, or their ids.
    pub channels: Vec<String>,
    /// `PhysicalSizeX`, `PhysicalSizeXUnit`, … and `TimeIncrement` of `Pixels`, as they are written.
    pub physical: Vec<(String, String)>,
    /// Where its planes are.
    pub data: Vec<TiffData>,
}

/// A `TiffData`: a run of planes, in the order of the axes, in consecutive pages of a file.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct TiffData {
    /// `FirstC`, `FirstZ`, `FirstT`: place of the first plane along each axis, in the order of `axes`.
    pub first: Vec<u64>,
    /// Page of the first plane.
    pub page: u64,
    /// How many planes; `None` for all that follow.
    pub count: Option<u64>,
    /// UUID of the file that has the pages, where it is said.
    pub uuid: Option<String>,
    /// Name of that file.
    pub file: Option<String>,
}

/// The OME-XML of an image description; `None` where the text is none, an error where it cannot be understood.
pub fn parse(description: &str) -> Option<Result<Ome, String>> {
    description.contains("<OME").then(|| document(description.trim_end_matches('\0')))
}

fn document(text: &str) -> Result<Ome, String> {
    let mut reader = Reader::from_str(text);
    let mut ome = Ome::default();
    let mut in_uuid = false;
    loop {
        match reader.read_event().map_err(|error| error.to_string())? {
            Event::Start(tag) => {
                in_uuid = tag.local_name().as_ref() == "UUID";
                ome.open(&tag)?;
            }
            Event::Empty(tag) => ome.open(&tag)?,
            Event::Text(text) if in_uuid => ome.uuid_of_data(text.xml10_content().trim()),
            Event::End(_) => in_uuid = false,
            Event::DocType(_) => return Err("it declares a document type".to_owned()),
            Event::Eof => return Ok(ome),
            _ => {}
        }
    }
}

impl Ome {
    fn open(&mut self, tag: &BytesStart<'_>) -> Result<(), String> {
        match tag.local_name().as_ref() {
            "OME" => self.uuid = attribute(tag, "UUID"),
            "BinaryOnly" => self.metadata_file = Some(attribute(tag, "MetadataFile").unwrap_or_default()),
            "BinData" => return Err("its pixels lie in the document (BinData)".to_owned()),
            "Image" => {
                self.images.push(OmeImage { name: attribute(tag, "Name"), ..OmeImage::default() });
            }
            "Pixels" => self.last()?.pixels(tag)?,
            "Channel" => self.last()?.channel(tag)?,
            "TiffData" => self.last()?.tiff_data(tag)?,
            "UUID" => {
                if let Ok(image) = self.last()
                    && let Some(data) = image.data.last_mut().filter(|data| data.file.is_none())
                {
                    data.file = Some(attribute(tag, "FileName").unwrap_or_default());
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn last(&mut self) -> Result<&mut OmeImage, String> {
        self.images.last_mut().ok_or_else(|| "pixels outside of an image".to_owned())
    }

    fn uuid_of_data(&mut self, text: &str) {
        let data = self.images.last_mut().and_then(|image| image.data.last_mut());
        if let Some(data) = data.filter(|data| data.uuid.is_none()) {
            data.uuid = Some(text.to_owned());
        }
    }
}

impl OmeImage {
    fn pixels(&mut self, tag: &BytesStart<'_>) -> Result<(), String> {
        if !self.axes.is_empty() {
            return Err("an image has pixels twice".to_owned());
        }
        let order = attribute(tag, "DimensionOrder").unwrap_or_default();
        let names: Vec<char> = order.strip_prefix("XY").unwrap_or_default().chars().collect();
        let mut sorted = names.clone();
        sorted.sort_unstable();
        if sorted != ['C', 'T', 'Z'] {
            return Err(format!("DimensionOrder is {order:?}"));
        }
        let size = |name: char| match number(tag, &format!("Size{name}"))? {
            Some(size @ 1..) => Ok(size),
            other => Err(format!("Size{name} is {}", other.unwrap_or(0))),
        };
        self.axes = names.into_iter().map(|name| Ok((name, size(name)?))).collect::<Result<_, String>>()?;
        (self.width, self.height) = (size('X')?, size('Y')?);
        self.physical = ["PhysicalSizeX", "PhysicalSizeY", "PhysicalSizeZ", "TimeIncrement"]
            .into_iter()
            .flat_map(|name| [name.to_owned(), format!("{name}Unit")])
            .filter_map(|name| attribute(tag, &name).map(|value| (name, value)))
            .collect();
        Ok(())
    }

    fn channel(&mut self, tag: &BytesStart<'_>) -> Result<(), String> {
        let samples = number(tag, "SamplesPerPixel")?;
        if self.samples.is_some() && samples.is_some() && samples != self.samples {
            return Err("channels differ in SamplesPerPixel".to_owned());
        }
        self.samples = self.samples.or(samples);
        let name = attribute(tag, "Name").filter(|name| !name.is_empty()).or_else(|| attribute(tag, "ID"));
        self.channels.push(name.unwrap_or_default());
        Ok(())
    }

    fn tiff_data(&mut self, tag: &BytesStart<'_>) -> Result<(), String> {
        let first = |(name, _): &(char, u64)| Ok(number(tag, &format!("First{name}"))?.unwrap_or(0));
        let page = number(tag, "IFD")?;
        let count = number(tag, "PlaneCount")?.or(number(tag, "NumPlanes")?).filter(|count| *count > 0);
        self.data.push(TiffData {
            first: self.axes.iter().map(first).collect::<Result<_, String>>()?,
            page: page.unwrap_or(0),
            count: count.or(page.map(|_| 1)),
            uuid: None,
            file: None,
        });
        Ok(())
    }
}

fn number(tag: &BytesStart<'_>, name: &str) -> Result<Option<u64>, String> {
    let Some(text) = attribute(tag, name) else { return Ok(None) };
    text.trim().parse().map(Some).map_err(|_| format!("{name} is {text:?}"))
}

fn attribute(tag: &BytesStart<'_>, name: &str) -> Option<String> {
    let found = tag.attributes().flatten().find(|attribute| attribute.key.as_ref() == name)?;
    let text: &str = &found.value;
    Some(unescape(text).map_or_else(|_| text.to_owned(), |text| text.into_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZES: &str = r#"DimensionOrder="XYCZT" SizeC="2" SizeT="1" SizeX="5" SizeY="4" SizeZ="3""#;

    fn ome(pixels: &str, data: &str) -> Result<Ome, String> {
        let text = format!(
            "<?xml version=\"1.0\"?><OME UUID=\"urn:1\"><Image Name=\"a &amp; b\"><Pixels {pixels}>{data}</Pixels></Image></OME>"
        );
        parse(&text).unwrap()
    }

    #[test]
    fn images_have_axes_and_planes() {
        let data = r#"<Channel ID="C:0" Name="red" SamplesPerPixel="1"/><Channel ID="C:1"/>
            <TiffData IFD="3" FirstC="1" FirstZ="2"><UUID FileName="b.tif">urn:2</UUID></TiffData><TiffData/>"#;
        let ome = ome(&format!("{SIZES} PhysicalSizeX=\"0.5\""), data).unwrap();
        assert_eq!(ome.uuid.as_deref(), Some("urn:1"));
        let image = &ome.images[0];
        assert_eq!(image.name.as_deref(), Some("a & b"));
        assert_eq!(image.axes, [('C', 2), ('Z', 3), ('T', 1)]);
        assert_eq!((image.width, image.height, image.samples), (5, 4, Some(1)));
        assert_eq!(image.channels, ["red", "C:1"]);
        assert_eq!(image.physical, [("PhysicalSizeX".to_owned(), "0.5".to_owned())]);
        let elsewhere = TiffData {
            first: vec![1, 2, 0],
            page: 3,
            count: Some(1),
            uuid: Some("urn:2".into()),
            file: Some("b.tif".into()),
        };
        let all = TiffData { first: vec![0, 0, 0], page: 0, ..TiffData::default() };
        assert_eq!(image.data, [elsewhere, all]);
    }

    #[test]
    fn stubs_name_the_file_with_the_document() {
        let stub = r#"<OME><BinaryOnly MetadataFile="a.companion.ome" UUID="urn:1"/></OME>"#;
        let ome = parse(stub).unwrap().unwrap();
        assert_eq!(ome.metadata_file.as_deref(), Some("a.companion.ome"));
        assert_eq!(parse("a description"), None);
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for pixels in [
            SIZES.replace("XYCZT", "XYZCC"),
            SIZES.replace("SizeC=\"2\"", "SizeC=\"0\""),
            SIZES.replace("SizeC=\"2\"", ""),
            SIZES.replace("SizeC=\"2\"", "SizeC=\"many\""),
        ] {
            assert!(ome(&pixels, "").is_err(), "{pixels}");
        }
        assert!(ome(SIZES, "<BinData/>").is_err());
        assert!(ome(SIZES, "<TiffData IFD=\"-1\"/>").is_err());
        assert!(ome(SIZES, r#"<Channel SamplesPerPixel="1"/><Channel SamplesPerPixel="3"/>"#).is_err());
        assert!(parse("<!DOCTYPE OME [<!ENTITY a \"a\">]><OME/>").unwrap().is_err());
        assert!(parse("<OME><TiffData/></OME>").unwrap().is_err());
    }
}
