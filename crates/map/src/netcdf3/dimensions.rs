//! Names of dimensions. Those of different lengths need different names, or xarray does not open the group.

use std::collections::BTreeMap;

use virtualize_netcdf3::model::Variable;
use virtualize_remedy::Code;

use super::Mapper;
use crate::Severity;

impl Mapper<'_> {
    /// Returns the names of all dimensions by id. The second of two with one name and different lengths is renamed, and
    /// reported.
    pub(super) fn name_dimensions(&mut self) -> Vec<String> {
        let mut lengths: BTreeMap<String, u64> = BTreeMap::new();
        let mut names = Vec::new();
        for dimension in &self.file.dimensions {
            let length = dimension.length.unwrap_or(self.file.records.count);
            let mut name = dimension.name.clone();
            if lengths.get(&name).is_some_and(|known| *known != length) {
                name = format!("{name}_{length}");
                while lengths.get(&name).is_some_and(|known| *known != length) {
                    name.push('_');
                }
                let message = format!(
                    "two dimensions are called \"{}\"; that of length {length} is called \"{name}\"",
                    dimension.name
                );
                self.diagnose(Severity::Warning, Code::DimensionRenamed, "", message);
            }
            lengths.insert(name.clone(), length);
            names.push(name);
        }
        if self.options.source_attributes {
            let records = self.file.dimensions.iter().zip(&names).filter(|(one, _)| one.length.is_none());
            let records: Vec<String> = records.map(|(_, name)| name.clone()).collect();
            if !records.is_empty() {
                self.mapped.report.unlimited.insert(String::new(), records);
            }
        }
        names
    }

    /// Returns the names of a variable's dimensions.
    pub(super) fn dimension_names(&self, variable: &Variable) -> Vec<Option<String>> {
        variable.dimensions.iter().map(|id| self.dimension_names.get(*id).cloned()).collect()
    }
}
