//! The OME-XML document in ImageDescription (tag 270) of the first directory: which directories are the planes of which
//! image, and the axes along which they are stacked (OME-TIFF specification, version 6).
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

use crate::{Error, Structure};

const IMAGE_DESCRIPTION: u16 = 270;

/// The images of an OME-XML document.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Ome {
    /// UUID of the file that contains the document.
    pub uuid: Option<String>,
    /// Name of the file with the full document, if this one is a stub (`BinaryOnly`).
    pub metadata_file: Option<String>,
    /// Images in document order.
    pub images: Vec<OmeImage>,
}

/// An `Image` element and its `Pixels`.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct OmeImage {
    /// Name.
    pub name: Option<String>,
    /// The axes after `XY` in `DimensionOrder`, fastest first: `C`, `Z` and `T` with their sizes. The unit is planes, or
    /// samples for `C`.
    pub axes: Vec<(char, u64)>,
    /// `SizeX`, in pixels.
    pub width: u64,
    /// `SizeY`, in pixels.
    pub height: u64,
    /// `SamplesPerPixel` of the channels, if they declare it.
    pub samples: Option<u64>,
    /// Names of the channels; the id of a channel without a name.
    pub channels: Vec<String>,
    /// `PhysicalSizeX`, `PhysicalSizeXUnit`, …, `TimeIncrement` and `SignificantBits` of `Pixels`, verbatim.
    pub physical: Vec<(String, String)>,
    /// Locations of the planes.
    pub data: Vec<TiffData>,
}

/// A `TiffData` element: a run of planes, in the order of the axes, in consecutive directories of one file.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct TiffData {
    /// `FirstC`, `FirstZ`, `FirstT`: index of the first plane along each axis, in the order of [`OmeImage::axes`].
    pub first: Vec<u64>,
    /// Index of the first plane's directory in the main chain.
    pub page: u64,
    /// Number of planes; `None` for all remaining directories.
    pub count: Option<u64>,
    /// UUID of the file that contains the directories, if declared.
    pub uuid: Option<String>,
    /// Name of that file.
    pub file: Option<String>,
}

/// Parses the OME-XML of an image description. `offset` is that of the directory, for errors. Returns `None` if the text
/// is not OME-XML.
pub fn parse(description: &str, offset: u64) -> Option<Result<Ome, Error>> {
    let document = Document { offset, ome: Ome::default() };
    description.contains("<OME").then(|| document.parse(description.trim_end_matches('\0')))
}

struct Document {
    /// Offset of the directory, for errors.
    offset: u64,
    ome: Ome,
}

impl Document {
    fn malformed(&self, problem: impl ToString) -> Error {
        Error::malformed(Structure::Tag(IMAGE_DESCRIPTION), self.offset, problem.to_string())
    }

    fn parse(mut self, text: &str) -> Result<Ome, Error> {
        let mut reader = Reader::from_str(text);
        let mut in_uuid = false;
        loop {
            match reader.read_event().map_err(|error| self.malformed(error))? {
                Event::Start(tag) => {
                    in_uuid = tag.local_name().as_ref() == "UUID";
                    self.open(&tag)?;
                }
                Event::Empty(tag) => self.open(&tag)?,
                Event::Text(text) if in_uuid => {
                    if let Some(data) = self.last_data().filter(|data| data.uuid.is_none()) {
                        data.uuid = Some(text.xml10_content().trim().to_owned());
                    }
                }
                Event::End(_) => in_uuid = false,
                Event::DocType(_) => {
                    return Err(self.malformed("OME-XML with a document type declaration, expected none"));
                }
                Event::Eof => return Ok(self.ome),
                _ => {}
            }
        }
    }

    fn open(&mut self, tag: &BytesStart<'_>) -> Result<(), Error> {
        match tag.local_name().as_ref() {
            "OME" => self.ome.uuid = attribute(tag, "UUID"),
            "BinaryOnly" => self.ome.metadata_file = Some(attribute(tag, "MetadataFile").unwrap_or_default()),
            "BinData" => return Err(self.malformed("OME-XML with pixels in the document (BinData)")),
            "Image" => {
                self.ome.images.push(OmeImage { name: attribute(tag, "Name"), ..OmeImage::default() });
            }
            "Pixels" => self.pixels(tag)?,
            "Channel" => self.channel(tag)?,
            "TiffData" => self.tiff_data(tag)?,
            "UUID" => {
                let data = self.last_data().filter(|data| data.file.is_none());
                data.into_iter()
                    .for_each(|data| data.file = Some(attribute(tag, "FileName").unwrap_or_default()));
            }
            _ => {}
        }
        Ok(())
    }

    fn last_image(&mut self) -> Result<&mut OmeImage, Error> {
        let (tag, offset) = (Structure::Tag(IMAGE_DESCRIPTION), self.offset);
        let outside = || Error::malformed(tag, offset, "OME-XML with pixels outside of an Image element");
        self.ome.images.last_mut().ok_or_else(outside)
    }

    fn last_data(&mut self) -> Option<&mut TiffData> {
        self.ome.images.last_mut()?.data.last_mut()
    }

    fn pixels(&mut self, tag: &BytesStart<'_>) -> Result<(), Error> {
        if !self.last_image()?.axes.is_empty() {
            return Err(self.malformed("OME-XML with a second Pixels element in an Image"));
        }
        let order = attribute(tag, "DimensionOrder").unwrap_or_default();
        let names: Vec<char> = order.strip_prefix("XY").unwrap_or_default().chars().collect();
        let mut sorted = names.clone();
        sorted.sort_unstable();
        if sorted != ['C', 'T', 'Z'] {
            return Err(self.malformed(format!("DimensionOrder {order:?}, expected XY and then C, Z and T")));
        }
        let size = |name: char| match self.number(tag, &format!("Size{name}"))? {
            Some(size @ 1..) => Ok(size),
            other => Err(self.malformed(format!("Size{name} {}, expected 1 or more", other.unwrap_or(0)))),
        };
        let axes = names.into_iter().map(|name| Ok((name, size(name)?))).collect::<Result<_, Error>>()?;
        let (width, height) = (size('X')?, size('Y')?);
        let physical = ["PhysicalSizeX", "PhysicalSizeY", "PhysicalSizeZ", "TimeIncrement"]
            .into_iter()
            .flat_map(|name| [name.to_owned(), format!("{name}Unit")])
            .chain(["SignificantBits".to_owned()])
            .filter_map(|name| attribute(tag, &name).map(|value| (name, value)))
            .collect();
        let image = self.last_image()?;
        (image.axes, image.width, image.height, image.physical) = (axes, width, height, physical);
        Ok(())
    }

    fn channel(&mut self, tag: &BytesStart<'_>) -> Result<(), Error> {
        let samples = self.number(tag, "SamplesPerPixel")?;
        let known = self.last_image()?.samples;
        if known.is_some() && samples.is_some() && samples != known {
            return Err(self.malformed("OME-XML with channels that differ in SamplesPerPixel"));
        }
        let name = attribute(tag, "Name").filter(|name| !name.is_empty()).or_else(|| attribute(tag, "ID"));
        let image = self.last_image()?;
        image.samples = known.or(samples);
        image.channels.push(name.unwrap_or_default());
        Ok(())
    }

    fn tiff_data(&mut self, tag: &BytesStart<'_>) -> Result<(), Error> {
        let page = self.number(tag, "IFD")?;
        let count = self.number(tag, "PlaneCount")?.or(self.number(tag, "NumPlanes")?);
        let axes = self.last_image()?.axes.clone();
        let first = |(name, _): &(char, u64)| Ok(self.number(tag, &format!("First{name}"))?.unwrap_or(0));
        let first = axes.iter().map(first).collect::<Result<_, Error>>()?;
        self.last_image()?.data.push(TiffData {
            first,
            page: page.unwrap_or(0),
            count: count.filter(|count| *count > 0).or(page.map(|_| 1)),
            uuid: None,
            file: None,
        });
        Ok(())
    }

    fn number(&self, tag: &BytesStart<'_>, name: &str) -> Result<Option<u64>, Error> {
        let Some(text) = attribute(tag, name) else { return Ok(None) };
        let number = text.trim().parse().map(Some);
        number.map_err(|_| self.malformed(format!("{name} {text:?}, expected a whole number")))
    }
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

    fn ome(pixels: &str, data: &str) -> Result<Ome, Error> {
        let text = format!(
            "<?xml version=\"1.0\"?><OME UUID=\"urn:1\"><Image Name=\"a &amp; b\"><Pixels {pixels}>{data}</Pixels></Image></OME>"
        );
        parse(&text, 0).unwrap()
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
        let ome = parse(stub, 0).unwrap().unwrap();
        assert_eq!(ome.metadata_file.as_deref(), Some("a.companion.ome"));
        assert!(parse("a description", 0).is_none());
    }

    #[test]
    fn rejects_invalid_documents() {
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
        assert!(parse("<!DOCTYPE OME [<!ENTITY a \"a\">]><OME/>", 0).unwrap().is_err());
        assert!(parse("<OME><TiffData/></OME>", 0).unwrap().is_err());
    }
}
