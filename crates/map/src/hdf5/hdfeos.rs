//! Dimension names of HDF-EOS5 files. They are not attached to datasets, but listed in the text
//! `/HDFEOS INFORMATION/StructMetadata.0`, which consists of lines `KEY=VALUE` in nested groups and objects (Object
//! Description Language).

use std::collections::BTreeMap;

/// Dimensions of the fields of a file.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Fields {
    /// Names of each field's axes, slowest first, by (group of the structure, field).
    names: BTreeMap<(String, String), Vec<String>>,
    /// Fixed sizes by (group of the structure, dimension).
    sizes: BTreeMap<(String, String), u64>,
}

impl Fields {
    /// Parses the text. Unknown keys and incomplete objects are skipped.
    pub(super) fn new(text: &str) -> Self {
        let mut fields = Self::default();
        let (mut kind, mut structure, mut field, mut dimension) = ("", String::new(), None, None);
        for (key, value) in text.lines().filter_map(|line| line.trim().split_once('=')) {
            match key {
                "GROUP" => kind = kind_of(value).unwrap_or(kind),
                "SwathName" | "GridName" | "ZaName" => {
                    structure = format!("HDFEOS/{kind}/{}", value.trim_matches('"'));
                }
                "OBJECT" => (field, dimension) = (None, None),
                "DimensionName" => dimension = Some(value.trim_matches('"').to_owned()),
                "Size" | "XDim" | "YDim" => {
                    let name = if key == "Size" { dimension.take() } else { Some(key.to_owned()) };
                    if let (Some(name), Ok(size)) = (name, value.parse()) {
                        fields.sizes.insert((structure.clone(), name), size);
                    }
                }
                "GeoFieldName" | "DataFieldName" | "ProfileFieldName" => {
                    field = Some(value.trim_matches('"').to_owned());
                }
                "DimList" => {
                    if let Some(field) = field.take() {
                        fields.names.insert((structure.clone(), field), list(value));
                    }
                }
                _ => {}
            }
        }
        fields.remove_clashes();
        fields
    }

    /// Returns the names of a field's axes; `None` if the sizes differ from its shape. `group` is the path of its group, such
    /// as `HDFEOS/SWATHS/Swath1/Data Fields`.
    pub(super) fn of(&self, group: &str, field: &str, shape: &[u64]) -> Option<&[String]> {
        if self.names.is_empty() {
            return None;
        }
        let (structure, _) = group.rsplit_once('/')?;
        let names = self.names.get(&(structure.to_owned(), field.to_owned()))?;
        let fits = |(name, size): (&String, &u64)| {
            self.sizes.get(&(structure.to_owned(), name.clone())).is_none_or(|known| known == size)
        };
        (names.len() == shape.len() && names.iter().zip(shape).all(fits)).then_some(names)
    }

    /// Removes names that a field has, too. xarray opens no group with a variable that has the name of a dimension, unless
    /// the variable is one-dimensional along it.
    fn remove_clashes(&mut self) {
        let all = self.names.clone();
        let clashes = |structure: &str, name: &String| {
            let field = all.get(&(structure.to_owned(), name.clone()));
            field.is_some_and(|names| names.as_slice() != [name.clone()])
        };
        self.names.retain(|(structure, _), names| !names.iter().any(|name| clashes(structure, name)));
    }
}

/// Returns the group that contains the structures of a kind.
fn kind_of(group: &str) -> Option<&'static str> {
    match group {
        "SwathStructure" => Some("SWATHS"),
        "GridStructure" => Some("GRIDS"),
        "ZaStructure" => Some("ZAS"),
        _ => None,
    }
}

/// Parses a list such as `("YDim","XDim")`.
fn list(value: &str) -> Vec<String> {
    let inner = value.trim().trim_start_matches('(').trim_end_matches(')');
    inner.split(',').map(|name| name.trim().trim_matches('"').to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"
GROUP=SwathStructure
	GROUP=SWATH_1
		SwathName="S"
		GROUP=Dimension
			OBJECT=Dimension_1
				DimensionName="GeoTrack"
				Size=20
			END_OBJECT=Dimension_1
			OBJECT=Dimension_2
				DimensionName="GeoXtrack"
				Size=-1
			END_OBJECT=Dimension_2
		END_GROUP=Dimension
		GROUP=GeoField
			OBJECT=GeoField_1
				GeoFieldName="Longitude"
				DimList=("GeoTrack","GeoXtrack")
				MaxdimList=("GeoTrack","GeoXtrack")
			END_OBJECT=GeoField_1
			OBJECT=GeoField_2
				GeoFieldName="Time"
				DimList=("GeoTrack")
			END_OBJECT=GeoField_2
		END_GROUP=GeoField
		GROUP=DataField
			OBJECT=DataField_1
				DataFieldName="Count"
				DimList=("Time","GeoTrack")
			END_OBJECT=DataField_1
		END_GROUP=DataField
	END_GROUP=SWATH_1
END_GROUP=SwathStructure
GROUP=GridStructure
	GROUP=GRID_1
		GridName="G"
		XDim=5
		YDim=7
		GROUP=DataField
			OBJECT=DataField_1
				DataFieldName="Voltage"
				DimList=("YDim","XDim")
			END_OBJECT=DataField_1
END
"#;

    #[test]
    fn fields_have_the_names_of_their_lists() {
        let fields = Fields::new(TEXT);
        let of = |group, field, shape: &[u64]| fields.of(group, field, shape).map(|names| names.join(" "));
        let geolocation = "HDFEOS/SWATHS/S/Geolocation Fields";
        assert_eq!(of(geolocation, "Longitude", &[20, 9]).as_deref(), Some("GeoTrack GeoXtrack"));
        assert_eq!(of(geolocation, "Longitude", &[32, 9]), None, "GeoTrack has 20");
        assert_eq!(of(geolocation, "Time", &[20, 1]), None, "one axis");
        assert_eq!(of("HDFEOS/GRIDS/G/Data Fields", "Voltage", &[7, 5]).as_deref(), Some("YDim XDim"));
        assert_eq!(of("HDFEOS/GRIDS/G/Data Fields", "Voltage", &[5, 7]), None);
        assert_eq!(of("HDFEOS/GRIDS/G/Data Fields", "Longitude", &[20, 9]), None);
        assert_eq!(
            of("HDFEOS/SWATHS/S/Data Fields", "Count", &[3, 20]),
            None,
            "Time is a field of another dimension"
        );
    }

    #[test]
    fn what_is_no_such_text_names_nothing() {
        for text in ["", "GROUP", "DimList=(\"x\")", "OBJECT=a\nDimList=", "a=b\0=c"] {
            assert_eq!(Fields::new(text), Fields::default(), "{text}");
        }
    }
}
