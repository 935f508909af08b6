//! Mapping of one image to one array with its coordinates and georeferencing.

use virtualize_bytes::Budget;
use virtualize_remedy::{Code, Remedy};
use virtualize_tiff::model::{File, Ifd, Image, Value};
use virtualize_zarr::{Array, ChunkGrid, Codec, DataType, Endian, Node, ZarrFormat, node::join};

use super::{
    ARRAY,
    attributes::{self, Described},
    chunks::{ChunkMaker, Chunks},
    compression::{self, Encoding},
    coordinates,
    crs::Crs,
    geometry::{Geometry, Names},
    georeference::Georeference,
    group_path,
    join::{add_axes, add_axes_to_content},
    missing_images, multiscales,
    nodata::{Nodata, Question},
    planes::{self, Directories},
    sample::{self, Sample},
    tags, zarr_endian,
};
use crate::budget::{chunk_bytes, task_bytes};
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
    /// The main image, whose georeferencing its overviews and masks share.
    main: Option<&'a Ifd>,
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
        Self { endian, main: file.ifds.first(), directories, file_size, options, budget }
    }

    /// Maps an image to an array in `group`, or reports why it is left out.
    pub(super) fn map(&self, ifd: &Ifd, group: &str, mapped: &mut Mapped) {
        let path = join(group, ARRAY);
        let mut report = ArrayReport::default();
        let mapping = match &ifd.image {
            Ok(image) => {
                report = describe(image, self.endian);
                tags::check(ifd, image, &path, &mut mapped.report.diagnostics)
                    .and_then(|()| self.parts(ifd, image, &path, mapped))
            }
            Err(error) => Err(Error::Image(error.clone())),
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
                report.left_out = Some(error.to_string());
                mapped.report.diagnostics.push(diagnostic(&error, &path));
            }
        }
        mapped.report.arrays.insert(path, report);
    }

    fn parts(&self, ifd: &Ifd, image: &Image, path: &str, mapped: &mut Mapped) -> Result<Parts> {
        self.budget.take("images", image_bytes(ifd, image, path))?;
        check_capture_mode(self.main)?;
        let planes = match planes::of(ifd, image, &self.directories, self.file_size) {
            Some(Ok(planes)) => Some(planes),
            Some(Err(why)) => {
                mapped.report.diagnostics.push(missing_images(&group_path(ifd), &why));
                None
            }
            None => None,
        };
        let copies = planes.as_ref().map_or(1, |planes| planes.count);
        let stack = match &planes {
            Some(planes) => {
                self.budget.take("planes", planes.memory())?;
                Some(planes.stack(image))
            }
            None => None,
        };
        let image = stack.as_ref().unwrap_or(image);
        let sample = Sample::of(image, self.endian, self.options.complex_integers)?;
        let geometry = Geometry::of(image, self.names(ifd, image), self.options.format)?;
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
        let question = Question {
            ifd,
            main: self.main_of(ifd),
            data_type: &sample.data_type,
            path,
            format,
            is_sparse: is_sparse(&geometry, &chunks, copies),
        };
        let nodata = question.decide(&mut mapped.report.diagnostics)?;
        let parts = Parts { geometry, sample, nodata, chunks, axes };
        self.take_chunks(ifd, path, &parts)?;
        Ok(parts)
    }

    /// Takes memory for the chunks of an image, and for its coordinates if they are small enough to be inlined.
    fn take_chunks(&self, ifd: &Ifd, path: &str, parts: &Parts) -> Result<()> {
        let Parts { geometry, sample, chunks, .. } = parts;
        self.budget.take("chunk tables", chunk_bytes(chunks.manifest.len(), path))?;
        let made = chunks.tasks.len() as u64;
        let size = sample.data_type.size().unwrap_or(1);
        let bytes = geometry.chunk_shape(chunks.rows).iter().fold(size, |size, n| size.saturating_mul(*n));
        self.budget.take("inlined chunks", task_bytes(made, made, bytes.saturating_mul(made), path))?;
        let coordinates = geometry.width.saturating_add(geometry.height).saturating_mul(8);
        let is_georeferenced = ifd.geo.is_some() || self.main.is_some_and(|main| main.geo.is_some());
        if is_georeferenced && coordinates <= self.options.inline_limit {
            self.budget.take("coordinates", coordinates)?;
        }
        Ok(())
    }

    fn names(&self, ifd: &Ifd, image: &Image) -> Names {
        let main = self.main.and_then(|main| main.image.as_ref().ok());
        Names::of(&ifd.path, main.is_none_or(|main| main.samples_per_pixel != image.samples_per_pixel))
    }

    /// Returns the main image of an overview.
    fn main_of(&self, ifd: &Ifd) -> Option<&Ifd> {
        let main = self.main.filter(|main| main.path != ifd.path)?;
        let (Ok(image), Ok(level)) = (&main.image, &ifd.image) else { return None };
        multiscales::is_overview(image, level).then_some(main)
    }

    fn add(&self, ifd: &Ifd, group: &str, parts: Parts, mapped: &mut Mapped) {
        let georeference = Georeference::of(ifd, &parts.geometry, self.main);
        if let Some(georeference) = &georeference {
            mapped.report.diagnostics.extend(of_crs(&georeference.crs, &join(group, ARRAY)));
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
            georeference.add_to_array(&mut attributes);
            georeference.add_to_group(&parts.geometry, &mut target.attributes);
        }
        coordinates::add(target, &parts.geometry, georeference.as_ref(), group.is_empty(), self.options);
        if let Some(names) = attributes::band_names(&ifd.gdal_metadata, parts.geometry.bands) {
            coordinates::add_band_names(target, &parts.geometry, &names, &mut attributes, self.options);
        }
        let array = array(parts, attributes);
        target.children.insert(ARRAY.to_owned(), Node::Array(Box::new(array)));
    }
}

/// Rejects NDPI files whose images have 16 bits although their tags declare 8, as those with CaptureMode 6 and above do.
fn check_capture_mode(main: Option<&Ifd>) -> Result<()> {
    const VERSION: u16 = 65420;
    const CAPTURE_MODE: u16 = 65441;
    let tags = main.map(|main| &main.tags).filter(|tags| tags.contains_key(&VERSION));
    match tags.and_then(|tags| tags.get(&CAPTURE_MODE)) {
        Some(Value::Unsigned(mode)) if mode.first().is_some_and(|mode| *mode >= 6) => {
            Err(Error::unsupported(
                "images of Hamamatsu's CaptureMode 6 and above",
                "they have other samples than their tags declare",
            ))
        }
        _ => Ok(()),
    }
}

/// Returns the memory for an image and its attributes, without its chunks.
fn image_bytes(ifd: &Ifd, image: &Image, path: &str) -> u64 {
    let items = ifd.gdal_metadata.iter().map(|item| (item.name.len() + item.value.len()) as u64 + ITEM);
    let colors = if image.color_map.is_some() { COLORS } else { 0 };
    items.fold(IMAGE + colors, u64::saturating_add).saturating_add(4 * path.len() as u64)
}

fn is_sparse(geometry: &Geometry, chunks: &Chunks, copies: u64) -> bool {
    let sizes = geometry.shape().into_iter().zip(geometry.chunk_shape(chunks.rows));
    let all = sizes.fold(copies, |all: u64, (size, chunk)| all.saturating_mul(size.div_ceil(chunk)));
    chunks.manifest.len().saturating_add(chunks.tasks.len() as u64) < all
}

fn grid(geometry: &Geometry, chunks: &Chunks) -> ChunkGrid {
    if chunks.short_end {
        ChunkGrid::Rectilinear(geometry.chunk_edges(chunks.rows))
    } else {
        ChunkGrid::Regular(geometry.chunk_shape(chunks.rows))
    }
}

fn array(parts: Parts, mut attributes: serde_json::Map<String, serde_json::Value>) -> Array {
    let Parts { geometry, sample, nodata, chunks, axes } = parts;
    if matches!(sample.data_type, DataType::Struct(_)) {
        // xarray fails to scale structures.
        for (name, by_band) in [("scale_factor", "scales"), ("add_offset", "offsets")] {
            attributes.remove(name).and_then(|value| attributes.insert(by_band.to_owned(), value));
        }
    }
    let chunk_grid = grid(&geometry, &chunks);
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

/// Returns the diagnostic of a coordinate reference system that is omitted, at least in part.
fn of_crs(crs: &Crs, path: &str) -> Option<Diagnostic> {
    let (code, omitted, problem) = match (&crs.problem, &crs.vertical_problem) {
        (Some(problem), _) => (Code::TiffCrs, "coordinate reference system", problem),
        (None, Some(problem)) => {
            (Code::TiffVerticalCrs, "vertical part of the coordinate reference system", problem)
        }
        (None, None) => return None,
    };
    Some(Diagnostic {
        severity: Severity::Warning,
        code,
        path: format!("/{path}"),
        message: format!("the {omitted} is omitted: {problem}"),
        remedy: Some(Remedy::advice("assign the coordinate reference system after opening")),
    })
}

/// The diagnostic of an image that is left out.
fn diagnostic(error: &Error, path: &str) -> Diagnostic {
    let code = match error {
        Error::InlineLimit { .. } | Error::ComplexIntegers { .. } => Code::InlineLimit,
        Error::Budget(_) => Code::TooLarge,
        Error::Image(_) => Code::TiffImage,
        Error::Truncated { .. } => Code::TiffTruncated,
        Error::Malformed { .. } | Error::Tag(_) | Error::Overflow(_) => Code::TiffMalformed,
        _ => Code::TiffUnsupported,
    };
    Diagnostic {
        severity: Severity::Warning,
        code,
        path: format!("/{path}"),
        message: format!("left out: {error}"),
        remedy: error.remedy(),
    }
}
