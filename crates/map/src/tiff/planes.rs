//! Planes without directories of their own. Some programs describe only the first image of a stack, declare the number of
//! planes in a tag, and store them one after the other behind it.
//!
//! | program | declaration | axes |
//! |---|---|---|
//! | tifffile | ImageDescription `{"shape": [6, 20, 30], "axes": "TYX"}` or `shape=(6, 20, 30)` | as declared, or `q` |
//! | ImageJ | ImageDescription `ImageJ=…`, with `images`, `channels`, `slices`, `frames` | `t`, `z`, `c`, or `i` |
//! | MetaMorph (STK) | the count of UIC2Tag | `z` or `t`, by its distances and times, or `i` |
//! | NIH Image | the number of slices in tag 43314 | `i` |

use virtualize_tiff::model::{Cut, Ifd, Image, SampleFormat, Value};

use super::image::Geometry;

const UIC2: u16 = 33629;
const NIH_IMAGE_HEADER: u16 = 43314;

/// The planes of a directory that declares more than one.
#[derive(PartialEq, Eq, Debug)]
pub(super) struct Planes {
    /// Number of planes.
    pub(super) count: u64,
    /// Axes of the planes with their sizes, slowest first.
    axes: Vec<(char, u64)>,
    /// Offset of the first plane.
    offset: u64,
    /// Size of a strip in bytes, and number of strips of a plane: one for each stored array of rows and columns.
    strip: u64,
    strips: u64,
}

/// The directories of the main chain.
pub(super) struct Directories {
    /// Their offsets, sorted.
    offsets: Vec<u64>,
    /// Number of pages, which are neither reduced images nor masks, from each directory on.
    pages_from: Vec<u64>,
}

impl Directories {
    pub(super) fn of(ifds: &[Ifd]) -> Self {
        let mut offsets: Vec<u64> = ifds.iter().map(|ifd| ifd.offset).collect();
        offsets.sort_unstable();
        let mut pages = 0;
        let from_last = ifds.iter().rev().map(|ifd| {
            pages += u64::from(ifd.is_page());
            pages
        });
        let mut pages_from: Vec<u64> = from_last.collect();
        pages_from.reverse();
        Self { offsets, pages_from }
    }
}

/// A declaration of planes.
struct Declared {
    by: &'static str,
    axes: Vec<(char, u64)>,
    /// Whether directories may describe the planes too.
    may_have_directories: bool,
}

/// Returns the planes of a directory, in a file of `size` bytes. `None` if it declares a single one, or if there is a directory
/// for each. An error is the reason why the declared planes cannot be mapped.
pub(super) fn of(
    ifd: &Ifd,
    image: &Image,
    directories: &Directories,
    size: u64,
) -> Option<Result<Planes, String>> {
    let &[at] = ifd.path.as_slice() else { return None };
    let declared = match declared(ifd, image, at)? {
        Ok(declared) => declared,
        Err(why) => return Some(Err(why)),
    };
    let by = declared.by;
    let count = declared.axes.iter().try_fold(1_u64, |count, (_, size)| count.checked_mul(*size));
    let pages = directories.pages_from.get(at).copied().unwrap_or(1);
    if count == Some(1) || declared.may_have_directories && count.is_some_and(|count| count <= pages) {
        return None;
    }
    let refuse = |why: &str| {
        let count = count.map_or_else(|| "too many".to_owned(), |count| count.to_string());
        Some(Err(format!("{by} declares {count} planes, for which there are no directories; {why}")))
    };
    let Some((offset, strip)) = contiguous(image, by == STK) else {
        return refuse("the image is not stored as one contiguous block of plain numbers");
    };
    let strips = if image.planar { u64::from(image.samples_per_pixel) } else { 1 }.checked_mul(image.depth);
    let end = || strip.checked_mul(strips?)?.checked_mul(count?)?.checked_add(offset);
    let (Some(end), Some(count), Some(strips)) = (end(), count, strips) else {
        return refuse("the file ends before them");
    };
    if end > size {
        return refuse("the file ends before them");
    }
    let next = directories.offsets.partition_point(|directory| *directory < offset);
    if directories.offsets.get(next).is_some_and(|directory| *directory < end) {
        return refuse("a directory follows the image");
    }
    let axes = declared.axes.into_iter().filter(|(_, size)| *size > 1).collect();
    Some(Ok(Planes { count, axes, offset, strip, strips }))
}

impl Planes {
    /// Returns the memory in bytes for the strips of all planes.
    pub(super) fn memory(&self) -> u64 {
        self.count.saturating_mul(self.strips).saturating_mul(16)
    }

    /// Returns the image with the strips of all planes.
    pub(super) fn stack(&self, image: &Image) -> Image {
        let strips = self.count * self.strips;
        let mut stack = image.clone();
        stack.cut = Cut::Strips { rows: image.height };
        stack.offsets = (0..strips).map(|strip| self.offset + strip * self.strip).collect();
        stack.byte_counts = stack.offsets.iter().map(|_| self.strip).collect();
        stack
    }

    /// Returns the axes with names that differ from those of the image's own axes, slowest first.
    pub(super) fn named_axes(&self, geometry: &Geometry) -> Vec<(String, u64)> {
        let suffix = geometry.names().x.strip_prefix('x').unwrap_or_default();
        let mut used = geometry.dimensions();
        let named = self.axes.iter().map(|(axis, size)| {
            let axis = axis.to_ascii_lowercase();
            let numbered = (2_usize..).map(|number| format!("{axis}{number}{suffix}"));
            let mut names = std::iter::once(format!("{axis}{suffix}")).chain(numbered);
            let name = names.find(|name| !used.contains(name)).unwrap_or_default();
            used.push(name.clone());
            (name, *size)
        });
        named.collect()
    }
}

/// Returns the offset of an image that is stored like an array in memory, and the size in bytes of each array of rows and
/// columns. MetaMorph's planes follow the first strip, wherever the other ones are (`follow_first`).
fn contiguous(image: &Image, follow_first: bool) -> Option<(u64, u64)> {
    let bits = *image.bits_per_sample.first()?;
    let is_subsampled =
        image.photometric == Some(6) && image.samples_per_pixel == 3 && image.ycbcr_subsampling != (1, 1);
    let are_plain = matches!(bits, 8 | 16 | 32 | 64)
        && image.bits_per_sample.iter().all(|other| *other == bits)
        && !image.sample_format.contains(&SampleFormat::ComplexInteger);
    if image.compression != 1 || image.reversed_bits || is_subsampled || !are_plain {
        return None;
    }
    if let Cut::Tiles { width, height, depth } = image.cut
        && (width != image.width
            || !image.height.is_multiple_of(height)
            || !image.depth.is_multiple_of(depth)
            || depth > 1 && height != image.height)
    {
        return None;
    }
    let samples = if image.planar { 1 } else { u64::from(image.samples_per_pixel) };
    let row = image.width.checked_mul(samples)?.checked_mul(u64::from(bits / 8))?;
    let ends = image.offsets.iter().zip(&image.byte_counts).map(|(offset, count)| offset.checked_add(*count));
    let follow = ends.zip(image.offsets.iter().skip(1)).all(|(end, next)| end == Some(*next));
    let offset = *image.offsets.first()?;
    ((follow || follow_first) && offset != 0).then_some((offset, row.checked_mul(image.height)?))
}

const STK: &str = "UIC2Tag (MetaMorph)";

/// Returns the planes that the `at`-th directory declares, if it does.
fn declared(ifd: &Ifd, image: &Image, at: usize) -> Option<Result<Declared, String>> {
    // Like tifffile, ignores white space around the text.
    let texts = || ifd.description().into_iter().chain(ifd.second_description.as_deref()).map(str::trim);
    if let Some(shape) = texts().find_map(Shape::parse) {
        return shape.planes(image).map(Ok);
    }
    if at > 0 {
        return None;
    }
    if let Some(text) = texts().find(|text| text.starts_with("ImageJ=") || text.starts_with("SCIFIO=")) {
        return imagej(text, image);
    }
    stk(ifd).or_else(|| {
        const SLICES: usize = 260;
        let byte = |at: usize| match ifd.tags.get(&NIH_IMAGE_HEADER)? {
            Value::Bytes(bytes) => bytes.get(at).copied(),
            Value::Unsigned(bytes) => u8::try_from(*bytes.get(at)?).ok(),
            _ => None,
        };
        let slices = i16::from_be_bytes([byte(SLICES)?, byte(SLICES + 1)?]);
        let axes = vec![('i', u64::try_from(slices).ok().filter(|slices| *slices > 1)?)];
        Some(Ok(Declared { by: "NIHImageHeader", axes, may_have_directories: true }))
    })
}

/// The shape of an array that tifffile wrote.
struct Shape {
    sizes: Vec<u64>,
    axes: Option<String>,
    is_truncated: bool,
}

impl Shape {
    fn parse(text: &str) -> Option<Self> {
        let number = |text: &str| text.trim().parse::<u64>().ok();
        if let Some(tuple) = text.strip_prefix("shape=(") {
            let sizes = tuple.split(')').next()?.split(',').filter(|size| !size.trim().is_empty());
            return Some(Self {
                sizes: sizes.map(number).collect::<Option<_>>()?,
                axes: None,
                is_truncated: false,
            });
        }
        let is_json = text.starts_with('{') && text.contains("\"shape\":") && !text.contains("\"mibi.");
        let json: serde_json::Value = is_json.then(|| serde_json::from_str(text).ok())??;
        let sizes = json.get("shape")?.as_array()?.iter().map(serde_json::Value::as_u64);
        Some(Self {
            sizes: sizes.collect::<Option<_>>()?,
            axes: json.get("axes").and_then(serde_json::Value::as_str).map(str::to_owned),
            is_truncated: json.get("truncated").and_then(serde_json::Value::as_bool).unwrap_or(false),
        })
    }

    /// Returns the planes: the axes before those of the image. `None` if the array does not end with the axes of the image, which
    /// another program has changed then. Axes of length 1 do not count.
    fn planes(&self, image: &Image) -> Option<Declared> {
        let samples = u64::from(image.samples_per_pixel);
        let (before, behind) = if image.planar { (samples, 1) } else { (1, samples) };
        let of_image =
            [before, image.depth, image.height, image.width, behind].into_iter().filter(|size| *size != 1);
        let of_image: Vec<u64> = of_image.collect();
        let names: Vec<char> = self.axes.iter().flat_map(|axes| axes.chars()).collect();
        let name =
            |at: usize| names.get(at).copied().filter(|_| names.len() == self.sizes.len()).unwrap_or('q');
        let sizes = self.sizes.iter().enumerate().filter(|(_, size)| **size != 1);
        let mut axes: Vec<(char, u64)> = sizes.map(|(at, size)| (name(at), *size)).collect();
        let rest = axes.split_off(axes.len().checked_sub(of_image.len())?);
        let ends_with_image = rest.iter().map(|(_, size)| size).eq(&of_image);
        (ends_with_image && axes.iter().all(|(_, size)| *size > 0)).then_some(Declared {
            by: "ImageDescription (tifffile)",
            axes,
            may_have_directories: !self.is_truncated,
        })
    }
}

/// Returns the planes of an ImageJ hyperstack. Channels may be the samples of a pixel.
fn imagej(text: &str, image: &Image) -> Option<Result<Declared, String>> {
    let number = |name: &str| {
        let mut lines = text.lines().rev().filter_map(|line| line.split_once('='));
        let (_, value) = lines.find(|(key, _)| key.trim() == name)?;
        value.trim().parse::<u64>().ok()
    };
    let [images, channels, slices, frames] =
        ["images", "channels", "slices", "frames"].map(|name| number(name).unwrap_or(1));
    let stacked = slices.checked_mul(frames)?;
    let all = stacked.checked_mul(channels)?;
    let are_samples = channels == u64::from(image.samples_per_pixel) && (image.planar || images == stacked);
    let (count, channels) = if are_samples { (stacked, 1) } else { (all, channels) };
    if all == 0 {
        return None;
    }
    let axes = if all == 1 {
        vec![('i', images)]
    } else if images == 1 || images == count || images == all {
        let order = text.lines().find_map(|line| line.strip_prefix("order=")).unwrap_or_default();
        let mut order: Vec<char> = order.trim().to_ascii_lowercase().chars().collect();
        let mut sorted = order.clone();
        sorted.sort_unstable();
        if sorted != ['c', 't', 'z'] {
            order = vec!['c', 'z', 't'];
        }
        let size = |axis| match axis {
            'c' => channels,
            'z' => slices,
            _ => frames,
        };
        order.into_iter().rev().map(|axis| (axis, size(axis))).collect()
    } else {
        return Some(Err(format!(
            "ImageDescription (ImageJ) declares {images} images, but {channels} channels, {slices} slices and {frames} frames"
        )));
    };
    Some(Ok(Declared { by: "ImageDescription (ImageJ)", axes, may_have_directories: true }))
}

/// Returns the planes of a MetaMorph stack.
fn stk(ifd: &Ifd) -> Option<Result<Declared, String>> {
    if ifd.unreadable_tags.iter().any(|error| error.tag() == Some(UIC2)) {
        return Some(Err(format!("{STK}, which counts the planes, cannot be read")));
    }
    let Some(Value::Rational(pairs)) = ifd.tags.get(&UIC2) else { return None };
    let (planes, _) = pairs.as_chunks::<3>();
    let times: Vec<u32> = planes.iter().map(|[_, (_, time), _]| *time).collect();
    let axis = if planes.iter().all(|[(over, under), ..]| *over != 0 && *under != 0) {
        'z'
    } else if times.iter().zip(times.iter().skip(1)).all(|(time, next)| time != next) {
        't'
    } else {
        'i'
    };
    Some(Ok(Declared { by: STK, axes: vec![(axis, planes.len() as u64)], may_have_directories: false }))
}

#[cfg(test)]
mod tests {
    use virtualize_zarr::ZarrFormat;

    use super::*;
    use crate::tiff::image::Names;
    use crate::tiff::tests::ifd;
    use crate::tiff::tests::image;

    /// An image of 4 × 6 pixels of 2 bytes at offset 100, in strips of 2 rows.
    fn plain() -> Image {
        let image = image(4, 6, 1, 2);
        Image { compression: 1, offsets: vec![100, 116, 132], byte_counts: vec![16; 3], ..image }
    }

    fn planes(description: &str, image: &Image, size: u64) -> Option<Result<Planes, String>> {
        let mut ifd = ifd(image.clone());
        ifd.tags.insert(270, Value::Text(vec![description.to_owned()]));
        of(&ifd, image, &Directories::of(std::slice::from_ref(&ifd)), size)
    }

    fn axes(description: &str, image: &Image) -> Option<Vec<(char, u64)>> {
        planes(description, image, 10_000).map(|planes| planes.unwrap().axes)
    }

    #[test]
    fn axes_are_those_of_the_description() {
        let plain = plain();
        let sizes = "ImageJ=1.5\nimages=12\nchannels=2\nslices=3\nframes=2\n";
        assert_eq!(axes(sizes, &plain), Some(vec![('t', 2), ('z', 3), ('c', 2)]));
        assert_eq!(axes(&format!("{sizes}order=tcz\n"), &plain), Some(vec![('z', 3), ('c', 2), ('t', 2)]));
        assert_eq!(axes("ImageJ=1.5\nimages=5\n", &plain), Some(vec![('i', 5)]));
        assert_eq!(axes("ImageJ=1.5\nimages=1\n", &plain), None);
        assert_eq!(
            axes(r#"{"shape": [3, 1, 2, 6, 4], "axes": "TCZYX"}"#, &plain),
            Some(vec![('T', 3), ('Z', 2)])
        );
        assert_eq!(axes(r#"{"shape": [3, 6, 4], "axes": "wrong"}"#, &plain), Some(vec![('q', 3)]));
        assert_eq!(axes("shape=(3, 6, 4,)", &plain), Some(vec![('q', 3)]));
        assert_eq!(axes("\n shape=(3, 6, 4)", &plain), Some(vec![('q', 3)]));
        assert_eq!(axes(r#"{"shape": [18, 4]}"#, &plain), None, "an image that was cut");
        assert_eq!(axes(r#"{"shape": [0, 6, 4]}"#, &plain), None);
        assert_eq!(axes(r#"{"shape": [6, 4]}"#, &plain), None);
        let rgb = Image {
            samples_per_pixel: 3,
            bits_per_sample: vec![16; 3],
            byte_counts: vec![48; 3],
            offsets: vec![100, 148, 196],
            ..plain
        };
        assert_eq!(axes("ImageJ=1.5\nimages=2\nchannels=3\nslices=2\n", &rgb), Some(vec![('z', 2)]));
    }

    #[test]
    fn planes_have_strips_of_their_own() {
        let plain = plain();
        let stack = planes("shape=(3, 6, 4)", &plain, 244).unwrap().unwrap().stack(&plain);
        assert_eq!((stack.offsets, stack.byte_counts), (vec![100, 148, 196], vec![48; 3]));
        assert_eq!(stack.cut, Cut::Strips { rows: 6 });
        let names =
            planes(r#"{"shape": [2, 3, 2, 6, 4], "axes": "XTTYX"}"#, &plain, 10_000).unwrap().unwrap();
        let geometry = Geometry::of(&plain, Names::of(&[1], false), ZarrFormat::V3).unwrap();
        let names = names.named_axes(&geometry).into_iter().map(|(name, _)| name);
        assert_eq!(names.collect::<Vec<_>>(), ["x2_1", "t_1", "t2_1"]);
    }

    #[test]
    fn planes_that_are_not_behind_the_image_are_reported() {
        let plain = plain();
        let why =
            |description: &str, image: &Image, size| planes(description, image, size).unwrap().unwrap_err();
        assert!(why("shape=(3, 6, 4)", &plain, 243).ends_with("the file ends before them"));
        assert!(
            why("shape=(4294967296, 4294967296, 6, 4)", &plain, 1000).ends_with("the file ends before them")
        );
        let huge = format!("ImageJ=1\nslices={0}\nframes=2\n", u64::MAX / 3);
        assert!(why(&huge, &plain, 1000).ends_with("the file ends before them"));
        let gap = Image { offsets: vec![100, 120, 136], ..plain.clone() };
        assert!(why("shape=(3, 6, 4)", &gap, 1000).contains("one contiguous block"));
        let before = Image { offsets: vec![2, 18, 34], ..plain };
        assert!(
            why("shape=(3, 6, 4)", &before, 1000).ends_with("a directory follows the image"),
            "at offset 8"
        );
    }
}
