//! What zarr-python and xarray need beyond their own dependencies before they decode a set of arrays.

use std::{collections::BTreeSet, fmt};

use super::{ChunkFacts, Compatibility, Need, Reader, chain::Document, rules};
use crate::{Array, Hierarchy, ZarrFormat};

/// Packages to install, and Python statements to run before references are opened with zarr-python or xarray. Empty
/// where zarr-python needs neither.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct ReaderSetup {
    /// Packages of PyPI to install.
    pub packages: BTreeSet<&'static str>,
    /// Python statements to run, in any order.
    pub statements: BTreeSet<&'static str>,
}

/// Registers the codecs of imagecodecs with zarr-python for one of the formats. imagecodecs has no entry points.
const REGISTER_V2: [&str; 2] = ["import imagecodecs.numcodecs", "imagecodecs.numcodecs.register_codecs()"];
const REGISTER_V3: [&str; 2] = ["import imagecodecs.zarr", "imagecodecs.zarr.register_codecs()"];
const RECTILINEAR: [&str; 2] = ["import zarr", "zarr.config.set({\"array.rectilinear_chunks\": True})"];

impl ReaderSetup {
    /// Returns what the arrays of a hierarchy need together. Arrays that no reader decodes add nothing.
    pub fn of(hierarchy: &Hierarchy) -> Self {
        let mut all = Self::default();
        hierarchy.arrays().iter().for_each(|(_, array)| all.add(array, hierarchy.format));
        all
    }

    /// Adds what another set needs.
    pub fn merge(&mut self, other: Self) {
        self.packages.extend(other.packages);
        self.statements.extend(other.statements);
    }

    /// Adds what an array needs.
    fn add(&mut self, array: &Array, format: ZarrFormat) {
        // zarr-python does not depend on these facts.
        let facts = ChunkFacts { shows_fill_value: false, has_odd_length: false };
        let Ok(document) = Document::new(array, facts, format) else { return };
        let check = |reader| rules::check(reader, "", array, &document);
        match check(Reader::ZarrPython) {
            Compatibility::Yes => {}
            Compatibility::Needs(needs) => self.add_needs(&needs, format),
            Compatibility::No(_) => match check(Reader::Virtualize) {
                Compatibility::No(_) => {}
                found => {
                    self.packages.insert("virtualize");
                    if let Compatibility::Needs(needs) = found {
                        self.add_needs(&needs, format);
                    }
                }
            },
        }
    }

    /// Adds packages and settings. zarr-python depends on numcodecs, so that it is always there.
    fn add_needs(&mut self, needs: &[Need], format: ZarrFormat) {
        for need in needs {
            match need {
                Need::Imagecodecs => {
                    self.packages.insert("imagecodecs");
                    self.statements.extend(match format {
                        ZarrFormat::V2 => REGISTER_V2,
                        ZarrFormat::V3 => REGISTER_V3,
                    });
                }
                Need::CastValueRs => drop(self.packages.insert("cast-value-rs")),
                Need::RectilinearChunks => self.statements.extend(RECTILINEAR),
                Need::Numcodecs | Need::Float16Array => {}
            }
        }
    }

    /// Whether zarr-python and xarray need nothing.
    pub fn is_empty(&self) -> bool {
        self.packages.is_empty() && self.statements.is_empty()
    }

    /// Returns the command that installs the packages, if there are any.
    pub fn install(&self) -> Option<String> {
        let packages: Vec<_> = self.packages.iter().copied().collect();
        (!packages.is_empty()).then(|| format!("pip install {}", packages.join(" ")))
    }

    /// Returns the statements as one line of Python: imports first. `None` if there are none.
    pub fn python(&self) -> Option<String> {
        let (imports, calls): (Vec<_>, Vec<_>) =
            self.statements.iter().copied().partition(|statement| statement.starts_with("import "));
        let all = [imports, calls].concat();
        (!all.is_empty()).then(|| all.join("; "))
    }

    /// Returns what to do before references are read, in one line; `None` if zarr-python and xarray need nothing.
    pub fn hint(&self) -> Option<String> {
        (!self.is_empty()).then(|| format!("to read this with xarray or zarr-python: {self}"))
    }
}

/// `pip install imagecodecs; in Python, before opening: import imagecodecs.zarr; …`, one line.
impl fmt::Display for ReaderSetup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let python = self.python().map(|python| format!("in Python, before opening: {python}"));
        let steps: Vec<_> = [self.install(), python].into_iter().flatten().collect();
        f.write_str(&steps.join("; "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ChunkGrid, ChunkManifest, Codec, DataType, Endian, Node};

    fn setup(arrays: &[&Array], format: ZarrFormat) -> ReaderSetup {
        let mut hierarchy = Hierarchy::new(format);
        for (number, array) in arrays.iter().enumerate() {
            hierarchy.root.children.insert(number.to_string(), Node::Array(Box::new((*array).clone())));
        }
        ReaderSetup::of(&hierarchy)
    }

    fn array(codecs: Vec<Codec>) -> Array {
        Array {
            shape: vec![4],
            data_type: DataType::UInt8,
            chunk_grid: ChunkGrid::Regular(vec![4]),
            fill_value: None,
            codecs: [vec![Codec::Bytes { endian: Some(Endian::Little) }], codecs].concat(),
            dimension_names: vec![None],
            attributes: serde_json::Map::new(),
            chunks: ChunkManifest::default(),
        }
    }

    #[test]
    fn only_codecs_outside_zarr_python_need_a_setup() {
        let plain = array(vec![Codec::Zlib { level: 1 }]);
        let foreign = array(vec![Codec::Lzw]);
        for (format, module) in [(ZarrFormat::V2, "numcodecs"), (ZarrFormat::V3, "zarr")] {
            assert!(setup(&[&plain], format).is_empty());
            let found = setup(&[&plain, &foreign], format);
            let expected = format!(
                "pip install imagecodecs; in Python, before opening: import imagecodecs.{module}; \
                 imagecodecs.{module}.register_codecs()"
            );
            assert_eq!(found.to_string(), expected);
        }
    }

    #[test]
    fn a_rectilinear_grid_needs_a_setting_and_no_package() {
        let mut rectilinear = array(Vec::new());
        rectilinear.chunk_grid = ChunkGrid::Rectilinear(vec![vec![1, 3]]);
        rectilinear.fill_value = Some(crate::FillValue::zero(&rectilinear.data_type));
        let found = setup(&[&rectilinear], ZarrFormat::V3);
        assert_eq!(found.install(), None);
        assert_eq!(
            found.python().as_deref(),
            Some("import zarr; zarr.config.set({\"array.rectilinear_chunks\": True})")
        );
    }
}
