//! Mapping of one image to one array with its coordinates and georeferencing.

use virtualize_bytes::Budget;
use virtualize_remedy::{Code, OptionName, Remedy};
use virtualize_tiff::model::{Cut, File, Ifd, Image, SampleFormat, Value};
use virtualize_zarr::node::join;
use virtualize_zarr::{Array, ChunkGrid, Codec, DataType, Endian, Node, ZarrFormat};

use super::attributes::Described;
use super::chunks::{ChunkMaker, Chunks};
use super::compression::Encoding;
use super::crs::Crs;
use super::georeference::{Georeference, add, add_band_names, has_axes};
use super::multiscales::is_reduced;
use super::nodata::{Nodata, Question};
use super::ome::{add_axes, add_axes_to_content};
use super::planes::Directories;
use super::sample::Sample;
use super::{ARRAY, attributes, compression, group_path, missing_images, planes, sample, zarr_endian};
use crate::mapped::{chunk_bytes, task_bytes};
use crate::{
    ArrayReport, ChunkGridChoice, Diagnostic, Error, InlineTask, MapOptions, Mapped, Result, Severity,
};

/// Bytes of memory for an image, without its metadata items.
const IMAGE: u64 = 2 << 10;

/// Bytes of memory for a metadata item, without its text.
const ITEM: u64 = 128;

/// Bytes of memory for a palette in JSON.
const COLORS: u64 = 3 * 256 * 48;

/// Maps the images of a file.
pub(super) struct ImageMapper<'a> {
    /// Byte order of the file.
    endian: Endian,
    /// The main chain. The first image is the main one.
    ifds: &'a [Ifd],
    /// Directories of the main chain, which limit the planes behind an image.
    directories: Directories,
    /// Size of the file in bytes.
    file_size: u64,
    /// Choices of the user.
    pub(super) options: &'a MapOptions,
    /// Memory that the file may take.
    pub(super) budget: &'a Budget<'a>,
}

/// The parts of an array before they are assembled.
struct Parts {
    geometry: Geometry,
    sample: Sample,
    nodata: Nodata,
    chunks: Chunks,
    /// Axes of the planes behind the image.
    axes: Vec<(String, u64)>,
}

impl<'a> ImageMapper<'a> {
    /// Prepares the mapping of the images of a file of `file_size` bytes.
    pub(super) fn new(
        file: &'a File,
        file_size: u64,
        options: &'a MapOptions,
        budget: &'a Budget<'a>,
    ) -> Self {
        let endian = zarr_endian(file.endian);
        let directories = Directories::of(&file.ifds);
        Self { endian, ifds: &file.ifds, directories, file_size, options, budget }
    }

    /// Maps an image to an array in `group`, or reports why it is omitted.
    pub(super) fn map(&self, ifd: &Ifd, group: &str, mapped: &mut Mapped) {
        let path = join(group, ARRAY);
        let mut report = ArrayReport::default();
        let mapping = match &ifd.image {
            Ok(image) => {
                report = describe(image, self.endian);
                check(ifd, image, &path, &mut mapped.report.diagnostics)
                    .and_then(|()| self.parts(ifd, image, &path, mapped))
            }
            Err(error) => Err(Error::image(error)),
        };
        match mapping {
            Ok(mut parts) => {
                report.fill = Some(parts.nodata.decision.clone());
                let mut tasks: Vec<InlineTask> = std::mem::take(&mut parts.chunks.tasks);
                tasks.iter_mut().for_each(|task| add_axes_to_content(&mut task.content, parts.axes.len()));
                mapped.tasks.extend(tasks);
                self.add(ifd, group, parts, mapped);
            }
            Err(error) => {
                report.omitted = Some(error.to_string());
                mapped.warn(&path, error.image_code(), format!("omitted: {error}"), error.remedy());
            }
        }
        mapped.report.arrays.insert(path, report);
    }

    fn parts(&self, ifd: &Ifd, image: &Image, path: &str, mapped: &mut Mapped) -> Result<Parts> {
        let items = ifd.gdal_metadata.iter().map(|item| (item.name.len() + item.value.len()) as u64 + ITEM);
        let colors = if image.color_map.is_some() { COLORS } else { 0 };
        let bytes = items.fold(IMAGE + colors, u64::saturating_add).saturating_add(4 * path.len() as u64);
        self.budget.take("images", bytes)?;
        // NDPI files with CaptureMode 6 and above have images of 16 bits although their tags declare 8.
        const VERSION: u16 = 65420;
        const CAPTURE_MODE: u16 = 65441;
        let tags = self.ifds.first().map(|main| &main.tags).filter(|tags| tags.contains_key(&VERSION));
        if let Some(Value::Unsigned(mode)) = tags.and_then(|tags| tags.get(&CAPTURE_MODE))
            && mode.first().is_some_and(|mode| *mode >= 6)
        {
            let feature = "images of Hamamatsu's CaptureMode 6 and above";
            return Err(Error::unsupported(feature, "they have other samples than their tags declare"));
        }
        let planes = planes::of(ifd, image, &self.directories, self.file_size).and_then(|planes| {
            let report = |why| mapped.report.diagnostics.push(missing_images(&group_path(ifd), &why));
            planes.map_err(report).ok()
        });
        let memory = planes.as_ref().map(|planes| self.budget.take("planes", planes.memory()));
        memory.transpose()?;
        let copies = planes.as_ref().map_or(1, |planes| planes.count);
        let stack = planes.as_ref().map(|planes| planes.stack(image));
        let image = stack.as_ref().unwrap_or(image);
        let sample = Sample::of(image, self.endian, self.options.complex_integers)?;
        let main = self.ifds.first().and_then(|main| main.image.as_ref().ok());
        let own_bands = main.is_none_or(|main| main.samples_per_pixel != image.samples_per_pixel);
        let geometry = Geometry::of(image, Names::of(&ifd.path, own_bands), self.options.format)?;
        let axes = planes.map_or(Vec::new(), |planes| planes.named_axes(&geometry));
        let MapOptions { format, own_codecs, .. } = *self.options;
        let mut encoding =
            Encoding { image, sample: &sample, endian: self.endian, format, own_codecs, decodes_jpeg: false };
        let rectilinear = self.options.chunk_grid == ChunkGridChoice::Rectilinear && format == ZarrFormat::V3;
        let rest = if geometry.tiled || rectilinear { 0 } else { geometry.height % geometry.segment[1] };
        let bytes = geometry.width.saturating_mul(geometry.height).saturating_mul(geometry.bands);
        encoding.decodes_jpeg =
            encoding.depends_on_further_rows(rest) && bytes <= self.options.inline_limit && !own_codecs;
        let maker = ChunkMaker {
            path,
            geometry: &geometry,
            encoding,
            file_size: self.file_size,
            rectilinear,
            inline_limit: self.options.inline_limit,
            copies,
        };
        let chunks = maker.make()?;
        let sizes = geometry.shape().into_iter().zip(geometry.chunk_shape(chunks.rows));
        let all = sizes.fold(copies, |all: u64, (size, chunk)| all.saturating_mul(size.div_ceil(chunk)));
        let question = Question {
            ifd,
            main: self.main_of(ifd),
            data_type: &sample.data_type,
            path,
            format,
            is_sparse: chunks.manifest.len().saturating_add(chunks.tasks.len() as u64) < all,
        };
        let nodata = question.decide(&mut mapped.report.diagnostics)?;
        self.budget.take("chunk tables", chunk_bytes(chunks.manifest.len(), path))?;
        let made = chunks.tasks.len() as u64;
        let size = sample.data_type.size().unwrap_or(1);
        let bytes = geometry.chunk_shape(chunks.rows).iter().fold(size, |size, n| size.saturating_mul(*n));
        self.budget.take("inlined chunks", task_bytes(made, made, bytes.saturating_mul(made), path))?;
        let is_georeferenced =
            ifd.geo.is_some() || self.whole_of(ifd).is_some_and(|whole| whole.geo.is_some());
        // Coordinates that are small enough are inlined.
        if is_georeferenced && has_axes(geometry.width, geometry.height, self.options) {
            self.budget.take("coordinates", (geometry.width + geometry.height) * 8)?;
        }
        Ok(Parts { geometry, sample, nodata, chunks, axes })
    }

    /// Returns the image that an image would be an overview or mask of: of a SubIFD its page, of a mask of full size the page
    /// before it, otherwise the main image.
    fn whole_of(&self, ifd: &Ifd) -> Option<&'a Ifd> {
        let (page, below) = ifd.path.split_first()?;
        let kind = |ifd: &Ifd| ifd.image.as_ref().map_or(0, |image| image.subfile_type & 0b101);
        let whole = match kind(ifd) {
            _ if !below.is_empty() => self.ifds.get(*page),
            0b100 => self.ifds.get(..*page)?.iter().rfind(|ifd| kind(ifd) == 0),
            _ => self.ifds.first(),
        };
        whole.filter(|whole| whole.path != ifd.path)
    }

    /// Returns the main image of an overview.
    fn main_of(&self, ifd: &Ifd) -> Option<&Ifd> {
        let main = self.whole_of(ifd)?;
        let (Ok(image), Ok(level)) = (&main.image, &ifd.image) else { return None };
        // Not a mask.
        let is_marked = level.subfile_type & 0b101 == 1;
        (is_marked && is_reduced(image, level)).then_some(main)
    }

    fn add(&self, ifd: &Ifd, group: &str, parts: Parts, mapped: &mut Mapped) {
        let georeference = Georeference::of(ifd, &parts.geometry, self.whole_of(ifd));
        if let Some(georeference) = &georeference {
            let Crs { problem, vertical_problem, .. } = &georeference.crs;
            let omitted = match (problem, vertical_problem) {
                (Some(problem), _) => Some((Code::TiffCrs, "", problem)),
                (None, Some(problem)) => Some((Code::TiffVerticalCrs, "vertical part of the ", problem)),
                (None, None) => None,
            };
            if let Some((code, part, problem)) = omitted {
                let message = format!("the {part}coordinate reference system is omitted: {problem}");
                let remedy = Remedy::advice("assign the coordinate reference system after opening");
                mapped.warn(&join(group, ARRAY), code, message, Some(remedy));
            }
        }
        let (width, height) = (parts.geometry.width, parts.geometry.height);
        if georeference.as_ref().is_some_and(Georeference::is_upright)
            && !has_axes(width, height, self.options)
        {
            let message = format!(
                "x and y are omitted: inlining {width} + {height} coordinates exceeds the limit of {} bytes",
                self.options.inline_limit
            );
            let remedy = Remedy::turn_on(OptionName::InlineLimit, "raise the limit");
            mapped.warn(&join(group, ARRAY), Code::InlineLimit, message, Some(remedy));
        }
        let Some(target) = mapped.hierarchy.root.make_group(group) else { return };
        let described = Described {
            ifd,
            main: self.main_of(ifd),
            geometry: &parts.geometry,
            nodata: &parts.nodata,
            data_type: &parts.sample.data_type,
            path: &join(group, ARRAY),
        };
        let mut attributes = described.attributes(&mut mapped.report.diagnostics);
        if let Some(georeference) = &georeference {
            attributes.insert("grid_mapping".into(), "spatial_ref".into());
            attributes.insert("coordinates".into(), "spatial_ref".into());
            georeference.add_to_group(&parts.geometry, &mut target.attributes);
        }
        add(target, &parts.geometry, georeference.as_ref(), group.is_empty(), self.options);
        if let Some(names) = attributes::band_names(&ifd.gdal_metadata, parts.geometry.bands) {
            add_band_names(target, &parts.geometry, &names, &mut attributes, self.options);
        }
        let array = array(parts, attributes);
        target.children.insert(ARRAY.to_owned(), Node::Array(Box::new(array)));
    }
}

fn array(parts: Parts, mut attributes: serde_json::Map<String, serde_json::Value>) -> Array {
    let Parts { geometry, sample, nodata, chunks, axes } = parts;
    if matches!(sample.data_type, DataType::Struct(_)) || sample.data_type.is_complex() {
        // xarray fails to scale structures, and drops the imaginary parts of scaled complex numbers.
        for (name, by_band) in [("scale_factor", "scales"), ("add_offset", "offsets")] {
            attributes.remove(name).and_then(|value| attributes.insert(by_band.to_owned(), value));
        }
    }
    let chunk = geometry.chunk_shape(chunks.rows);
    let chunk_grid = if chunks.short_end {
        // The last chunks end with the array.
        let edges = |(size, chunk): (u64, u64)| {
            let rest = (!size.is_multiple_of(chunk)).then_some(size % chunk);
            (0..size / chunk).map(|_| chunk).chain(rest).collect()
        };
        ChunkGrid::Rectilinear(geometry.shape().into_iter().zip(chunk).map(edges).collect())
    } else {
        ChunkGrid::Regular(chunk)
    };
    let codecs: Vec<Codec> = geometry.transpose().into_iter().chain(chunks.codecs).collect();
    let mut array = Array {
        shape: geometry.shape(),
        data_type: sample.data_type,
        chunk_grid,
        fill_value: nodata.decision.fill_value,
        codecs,
        dimension_names: geometry.dimensions().into_iter().map(Some).collect(),
        attributes,
        chunks: chunks.manifest,
    };
    add_axes(&mut array, &axes);
    array
}

/// Describes type, layout and compression of an image in the words of the specification.
fn describe(image: &Image, endian: Endian) -> ArrayReport {
    let order = if endian == Endian::Big { "big-endian" } else { "little-endian" };
    let kind = match (image.bits_per_sample.first(), image.sample_format.first()) {
        (Some(bits), Some(format)) => sample::describe(*format, *bits),
        _ => "unknown".into(),
    };
    let arrangement = if image.planar { "planar" } else { "chunky" };
    let cut = match image.cut {
        virtualize_tiff::model::Cut::Strips { rows } => format!("strips of {rows} rows"),
        virtualize_tiff::model::Cut::Tiles { width, height, .. } => format!("tiles of {height} x {width}"),
    };
    let samples = image.samples_per_pixel;
    ArrayReport {
        source_type: format!("{order} {kind}"),
        source_layout: format!("{cut}, {samples} samples a pixel, {arrangement}"),
        source_filters: compression::words(image),
        ..ArrayReport::default()
    }
}

/// Axes of the array of an image, and the strips or tiles that divide them.
///
/// Stored order is that of the file: `band, [z,] y, x` for planar images and those of one band, `[z,] y, x, band` for chunky
/// ones (PlanarConfiguration). Arrays are in stored order, except for chunky images in Zarr v3, where the codec `transpose`
/// makes them `band, [z,] y, x`.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Geometry {
    /// Samples of a pixel.
    pub(super) bands: u64,
    /// Planes of the image (ImageDepth).
    pub(super) depth: u64,
    /// Rows of the image.
    pub(super) height: u64,
    /// Columns of the image.
    pub(super) width: u64,
    /// Size of a strip or tile in planes, rows, columns.
    pub(super) segment: [u64; 3],
    /// Whether the samples of a pixel are stored next to each other.
    pub(super) chunky: bool,
    /// Whether the image has tiles.
    pub(super) tiled: bool,
    names: Names,
    transposed: bool,
}

/// Names of the axes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Names {
    /// Samples of a pixel.
    pub(super) band: String,
    /// Planes.
    pub(super) z: String,
    /// Rows.
    pub(super) y: String,
    /// Columns.
    pub(super) x: String,
}

impl Names {
    /// Returns the names for the image at `path` among the directories.
    ///
    /// In xarray's DataTree, a dimension has one length in a group and in all groups below it. The axes of images in groups
    /// therefore get names of their own, except for `band` if the image has as many bands as the main image
    /// (`own_bands` is false).
    pub(super) fn of(path: &[usize], own_bands: bool) -> Self {
        let suffix = match path {
            [0] => String::new(),
            path => path.iter().map(|index| format!("_{index}")).collect(),
        };
        let band = if own_bands { format!("band{suffix}") } else { "band".into() };
        Self { band, z: format!("z{suffix}"), y: format!("y{suffix}"), x: format!("x{suffix}") }
    }
}

impl Geometry {
    /// Determines the geometry of an image.
    ///
    /// # Errors
    /// An axis has no extent.
    pub(super) fn of(image: &Image, names: Names, format: ZarrFormat) -> Result<Self> {
        let bands = u64::from(image.samples_per_pixel);
        let chunky = !image.planar && bands > 1;
        let (segment, tiled) = match image.cut {
            Cut::Strips { rows } => ([1, rows.min(image.height), image.width], false),
            Cut::Tiles { width, height, depth } => ([depth, height, width], true),
        };
        let geometry = Self {
            bands,
            depth: image.depth,
            height: image.height,
            width: image.width,
            segment,
            chunky,
            tiled,
            names,
            transposed: chunky && format == ZarrFormat::V3,
        };
        let sizes = [bands, image.depth, image.height, image.width];
        if sizes.iter().chain(&geometry.segment).any(|size| *size == 0) {
            let (depth, height, width, segment) = (image.depth, image.height, image.width, geometry.segment);
            let problem = format!(
                "no content: {depth}x{height}x{width} pixels, {bands} samples, pieces of {segment:?}"
            );
            return Err(Error::malformed("image", problem));
        }
        Ok(geometry)
    }

    /// Returns the names of the array's axes.
    pub(super) fn dimensions(&self) -> Vec<String> {
        let Names { band, z, y, x } = &self.names;
        self.in_array_order(band, &[z, y, x]).into_iter().cloned().collect()
    }

    /// Returns the names of the axes by their role.
    pub(super) fn names(&self) -> &Names {
        &self.names
    }

    /// Returns the shape of the array.
    pub(super) fn shape(&self) -> Vec<u64> {
        self.in_array_order(self.bands, &[self.depth, self.height, self.width])
    }

    /// Returns the shape of a chunk with this number of rows, in the array's order.
    pub(super) fn chunk_shape(&self, rows: u64) -> Vec<u64> {
        let [depth, _, width] = self.segment;
        self.in_array_order(self.bands_of_a_segment(), &[depth, rows, width])
    }

    /// Returns the shape of a strip or tile with this number of rows, in stored order.
    pub(super) fn stored_shape(&self, rows: u64) -> Vec<u64> {
        let [depth, _, width] = self.segment;
        self.in_order(self.bands_of_a_segment(), &[depth, rows, width], self.chunky)
    }

    /// Returns the codec between the two orders, if they differ.
    pub(super) fn transpose(&self) -> Option<Codec> {
        let axes = self.shape().len();
        self.transposed.then(|| Codec::Transpose { order: (1..axes).chain([0]).collect() })
    }

    /// Returns the number of samples of a pixel in a strip or tile.
    pub(super) fn bands_of_a_segment(&self) -> u64 {
        if self.chunky { self.bands } else { 1 }
    }

    /// Returns the number of strips or tiles along planes of samples, planes of the volume, rows and columns: the order in
    /// which the file lists them.
    pub(super) fn counts(&self) -> [u64; 4] {
        let [depth, height, width] = self.segment;
        [
            if self.chunky { 1 } else { self.bands },
            self.depth.div_ceil(depth),
            self.height.div_ceil(height),
            self.width.div_ceil(width),
        ]
    }

    /// Returns the stored rows of the `index`-th strip or tile along the rows: the last strip has fewer, the last tile has all.
    pub(super) fn rows_of(&self, index: u64) -> u64 {
        let rows = self.segment[1];
        if self.tiled {
            return rows;
        }
        self.height.saturating_sub(index.saturating_mul(rows)).min(rows)
    }

    fn in_array_order<T: Copy>(&self, band: T, [z, y, x]: &[T; 3]) -> Vec<T> {
        self.in_order(band, &[*z, *y, *x], self.chunky && !self.transposed)
    }

    fn in_order<T: Copy>(&self, band: T, [z, y, x]: &[T; 3], band_last: bool) -> Vec<T> {
        let mut axes = if self.depth > 1 { vec![*z, *y, *x] } else { vec![*y, *x] };
        axes.insert(if band_last { axes.len() } else { 0 }, band);
        axes
    }
}

/// Tags that determine the layout of the samples. A default in place of an unreadable one would be a guess.
const STRUCTURE: [u16; 18] =
    [256, 257, 258, 259, 266, 273, 277, 278, 279, 284, 317, 322, 323, 324, 325, 339, 347, 32997];

/// Tags from which GDAL takes nodata, packing, units and positions.
const INTERPRETED_BY_GDAL: [u16; 8] = [33550, 33922, 34264, 34735, 34736, 34737, 42112, 42113];

/// A tag that can change what some programs show.
struct Interpreted {
    tag: u16,
    name: &'static str,
    /// Values at which it changes nothing.
    inert: &'static [u64],
    effect: &'static str,
    /// A warning for tags that GDAL or tifffile interpret, a note for those of other programs.
    severity: Severity,
}

const ROTATES: &str = "programs for photographs rotate or mirror the image";
const RESPONSE: &str = "programs for prints convert the values to densities";
const CURVE: &str = "programs for photographs convert the values to other intensities";
const RAW: &str = "raw converters show other values, or fewer pixels";
const ORDER: &str = "raw converters show the pixels in another order";
const PLACES: &str = "it positions the image for the programs that wrote it";

/// The tags of [semantics-tiff.md](../../../../docs/semantics-tiff.md) that are reported.
const INTERPRETED: [Interpreted; 29] = [
    note(274, "Orientation", &[1], ROTATES),
    note(290, "GrayResponseUnit", &[], RESPONSE),
    note(291, "GrayResponseCurve", &[], RESPONSE),
    note(301, "TransferFunction", &[], CURVE),
    note(433, "Decode", &[], CURVE),
    note(559, "StripRowCounts", &[], "TIFF/FX readers divide the image into strips of other heights"),
    warning(32995, "Matteing", &[0], "GDAL takes the last band for alpha, which masks pixels"),
    warning(32996, "DataType", &[], "GDAL takes it for the type of the samples, in place of SampleFormat"),
    note(32956, "AffineTransformMat", &[], PLACES),
    warning(33445, "MDFileTag", &[], "tifffile shows squares of the values, times MDScalePixel"),
    note(33918, "IntergraphPacketData", &[], PLACES),
    note(33920, "IntergraphMatrix", &[], PLACES),
    note(34019, "RasterPadding", &[0], "TIFF/IT readers skip padding after each row"),
    note(34263, "JPLCartoIFD", &[], PLACES),
    warning(34362, "MM_Stamp", &[], "tifffile reads further axes of the series"),
    warning(
        43314,
        "NIHImageHeader",
        &[],
        "tifffile reads further images, and NIH Image calibrates the values",
    ),
    note(50712, "LinearizationTable", &[], RAW),
    note(50714, "BlackLevel", &[0], RAW),
    note(50715, "BlackLevelDeltaH", &[0], RAW),
    note(50716, "BlackLevelDeltaV", &[0], RAW),
    note(50717, "WhiteLevel", &[], RAW),
    note(50719, "DefaultCropOrigin", &[0], RAW),
    note(50829, "ActiveArea", &[], RAW),
    note(50975, "RowInterleaveFactor", &[1], ORDER),
    note(51008, "OpcodeList1", &[], RAW),
    note(51009, "OpcodeList2", &[], RAW),
    note(51022, "OpcodeList3", &[], RAW),
    note(52525, "ProfileGainTableMap", &[], RAW),
    note(52547, "ColumnInterleaveFactor", &[1], ORDER),
];

const fn note(tag: u16, name: &'static str, inert: &'static [u64], effect: &'static str) -> Interpreted {
    Interpreted { tag, name, inert, effect, severity: Severity::Info }
}

const fn warning(tag: u16, name: &'static str, inert: &'static [u64], effect: &'static str) -> Interpreted {
    Interpreted { tag, name, inert, effect, severity: Severity::Warning }
}

/// Reports unreadable tags, and tags that are not applied although other programs interpret them.
///
/// # Errors
/// An unreadable one determines the layout of the samples.
pub(super) fn check(ifd: &Ifd, image: &Image, path: &str, diagnostics: &mut Vec<Diagnostic>) -> Result<()> {
    let mut report = |severity, message: String| {
        diagnostics.push(Diagnostic::new(severity, Code::TiffTag, path, message));
    };
    for error in &ifd.unreadable_tags {
        let structural = error.tag().is_some_and(|tag| STRUCTURE.contains(&tag));
        // libtiff and tifffile treat the strips that a short table lacks as missing; so does the reader.
        let is_short = matches!(error, virtualize_tiff::Error::ShortTable { .. });
        if structural && !is_short {
            return Err(Error::tag(error));
        }
        let is_read = error.tag().is_some_and(|tag| INTERPRETED_BY_GDAL.contains(&tag));
        let severity = if structural || is_read { Severity::Warning } else { Severity::Info };
        report(severity, format!("a tag is incomplete: {error}"));
    }
    // Whether all samples have the format that a code of DataType means.
    let is_format = |code: u64| {
        let format = match code {
            1 => SampleFormat::Signed,
            0 | 2 => SampleFormat::Unsigned,
            3 => SampleFormat::Float,
            _ => return false,
        };
        image.sample_format.iter().all(|other| *other == format)
    };
    for Interpreted { tag, name, inert, effect, severity } in &INTERPRETED {
        let Some(value) = ifd.tags.get(tag) else { continue };
        let is_inert = match tag {
            32995 => numbers(value, |all| all == [0]) || image.samples_per_pixel < 2,
            32996 => numbers(value, |all| all.iter().all(|code| is_format(*code))),
            33445 => numbers(value, |all| !matches!(all, [2 | 128, ..])),
            _ => numbers(value, |all| all.iter().all(|number| inert.contains(number))),
        };
        if !is_inert {
            report(*severity, format!("tag {tag} ({name}) is not applied: {effect}"));
        }
    }
    Ok(())
}

/// Whether a value consists of whole numbers that satisfy a condition.
fn numbers(value: &Value, condition: impl Fn(&[u64]) -> bool) -> bool {
    let whole = |(numerator, denominator): &(u32, u32)| {
        numerator.checked_rem(*denominator).filter(|rest| *rest == 0)?;
        numerator.checked_div(*denominator).map(u64::from)
    };
    match value {
        Value::Unsigned(all) => condition(all),
        Value::Rational(all) => {
            all.iter().map(whole).collect::<Option<Vec<_>>>().is_some_and(|all| condition(&all))
        }
        Value::SignedRational(all) => all.iter().all(|(numerator, _)| *numerator == 0) && condition(&[0]),
        _ => false,
    }
}
