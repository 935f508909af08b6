//! OME-XML in ImageDescription (270) of the first image: which axes the pages of a file lie along (OME-TIFF
//! specification). Only files whose pages are all planes of one image, in the order of their axes, are understood.
//!
//! ```xml
//! <OME><Image><Pixels DimensionOrder="XYCZT" SizeC="2" SizeT="1" SizeX="5" SizeY="4" SizeZ="3">
//!   <TiffData FirstC="0" FirstT="0" FirstZ="0" IFD="0" PlaneCount="6"/>
//! </Pixels></Image></OME>
//! ```

use quick_xml::{
    Reader,
    events::{BytesStart, Event},
};

/// Axes of the planes of an OME-TIFF, slowest first: `t`, `c` or `z`, with how many planes lie along each; axes of one
/// plane are left out. `None` where the text is no OME-XML, or says something else than the order of the pages; pages
/// have `samples` samples a pixel, which count as channels.
pub fn ome_axes(description: &str, samples: u64) -> Option<Vec<(char, u64)>> {
    if !description.contains("<OME") {
        return None;
    }
    let mut reader = Reader::from_str(description.trim_end_matches('\0'));
    let mut pixels: Option<Pixels> = None;
    loop {
        match reader.read_event().ok()? {
            Event::Start(tag) | Event::Empty(tag) => match tag.local_name().as_ref() {
                "Pixels" if pixels.is_some() => return None,
                "Pixels" => pixels = Some(Pixels::of(&tag, samples)?),
                "TiffData" => pixels.as_mut()?.place(&tag, samples)?,
                "BinData" => return None,
                _ => {}
            },
            Event::DocType(_) => return None,
            Event::Eof => break,
            _ => {}
        }
    }
    let pixels = pixels?;
    (pixels.placed == pixels.planes()?)
        .then(|| pixels.axes.into_iter().rev().filter(|(_, size)| *size > 1).collect())
}

/// The planes of an image, and how many of them have been found at their place.
struct Pixels {
    /// Fastest first.
    axes: Vec<(char, u64)>,
    placed: u64,
}

impl Pixels {
    fn of(tag: &BytesStart<'_>, samples: u64) -> Option<Self> {
        let order = attribute(tag, "DimensionOrder")?;
        let axis = |name: char| {
            let size: u64 = attribute(tag, &format!("Size{name}"))?.parse().ok()?;
            let planes = if name == 'C' { size.checked_div(samples)? } else { size };
            let whole = name != 'C' || planes.checked_mul(samples) == Some(size);
            (planes > 0 && whole).then_some((name.to_ascii_lowercase(), planes))
        };
        let axes: Vec<_> = order.strip_prefix("XY")?.chars().map(axis).collect::<Option<_>>()?;
        let mut names: Vec<char> = axes.iter().map(|(name, _)| *name).collect();
        names.sort_unstable();
        (names == ['c', 't', 'z']).then_some(Self { axes, placed: 0 })
    }

    fn planes(&self) -> Option<u64> {
        self.axes.iter().try_fold(1_u64, |product, (_, size)| product.checked_mul(*size))
    }

    /// Counts the planes of a `TiffData`, which must be the next ones, in the pages of the same numbers.
    fn place(&mut self, tag: &BytesStart<'_>, samples: u64) -> Option<()> {
        let number = |name: &str| match attribute(tag, name) {
            Some(text) => text.parse::<u64>().ok().map(Some),
            None => Some(None),
        };
        let (page, count) = (number("IFD")?, number("PlaneCount")?);
        let (mut plane, mut stride) = (0_u64, 1_u64);
        for (name, size) in &self.axes {
            let first = number(&format!("First{}", name.to_ascii_uppercase()))?.unwrap_or(0);
            let first = if *name == 'c' { first.checked_div(samples)? } else { first };
            plane = plane.checked_add(first.checked_mul(stride)?)?;
            stride = stride.checked_mul(*size)?;
        }
        let rest = stride.checked_sub(self.placed)?;
        let count = count.unwrap_or(if page.is_some() { 1 } else { rest });
        if plane != self.placed || page.unwrap_or(0) != plane || count > rest {
            return None;
        }
        self.placed = self.placed.checked_add(count)?;
        Some(())
    }
}

fn attribute(tag: &BytesStart<'_>, name: &str) -> Option<String> {
    let found = tag.attributes().flatten().find(|attribute| attribute.key.as_ref() == name)?;
    Some(found.value.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ome(pixels: &str, data: &str) -> String {
        format!("<?xml version=\"1.0\"?><OME><Image><Pixels {pixels}>{data}</Pixels></Image></OME>")
    }

    const SIZES: &str = r#"DimensionOrder="XYCZT" SizeC="2" SizeT="1" SizeX="5" SizeY="4" SizeZ="3""#;

    #[test]
    fn pages_in_order_have_axes() {
        let axes = Some(vec![('z', 3), ('c', 2)]);
        assert_eq!(ome_axes(&ome(SIZES, "<TiffData/>"), 1), axes);
        assert_eq!(ome_axes(&ome(SIZES, r#"<TiffData IFD="0" PlaneCount="6"/>"#), 1), axes);
        let planes: String = (0..6)
            .map(|n| format!(r#"<TiffData IFD="{n}" FirstC="{}" FirstZ="{}"/>"#, n % 2, n / 2))
            .collect();
        assert_eq!(ome_axes(&ome(SIZES, &planes), 1), axes);
        assert_eq!(ome_axes(&ome(SIZES, "<TiffData/>"), 2), Some(vec![('z', 3)]), "two samples a pixel");
    }

    #[test]
    fn other_orders_have_none() {
        let planes: String = (0..6)
            .map(|n| format!(r#"<TiffData IFD="{n}" FirstZ="{}" FirstC="{}"/>"#, n % 3, n / 3))
            .collect();
        assert_eq!(ome_axes(&ome(SIZES, &planes), 1), None, "planes in another order than they say");
        assert_eq!(ome_axes(&ome(SIZES, r#"<TiffData IFD="1"/>"#), 1), None);
        assert_eq!(ome_axes(&ome(SIZES, r#"<TiffData IFD="0"/>"#), 1), None, "planes without a page");
        assert_eq!(ome_axes(&ome(SIZES, r#"<TiffData PlaneCount="7"/>"#), 1), None);
        assert_eq!(ome_axes(&ome(SIZES, ""), 1), None);
        assert_eq!(ome_axes("a description", 1), None);
        let two = ome(SIZES, "<TiffData/>").replace("</Image>", "</Image><Image><Pixels/></Image>");
        assert_eq!(ome_axes(&two, 1), None);
    }
}
