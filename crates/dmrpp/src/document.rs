//! The document: groups, dimensions and variables become objects of the model, at addresses of their own.
//!
//! HDF5 has no dimensions. NetCDF-4 writes each as a dataset, a dimension scale: that of the variable with the same name, or one
//! that no reader shows. Variables list their scales in the attribute `DIMENSION_LIST`.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use virtualize_bytes::{Address, Limits, ReadRanges};
use virtualize_hdf5::model::{
    Attribute, ByteOrder, Dataset, Dataspace, Element as Value, File, Group, Layout, Link, LinkTarget, Object,
};

use crate::error::Problem;
use crate::types::{self, Number};
use crate::variable::{self, Axis};
use crate::xml::{Element, Node, Xml};
use crate::{DataFile, Error, attribute};

/// Text by which netCDF-C marks a scale without a variable.
const NOT_A_VARIABLE: &str = "This is a netCDF dimension but not a netCDF variable.";

const ROOT: Address = Address(0);

/// Parses a document.
pub(crate) fn parse(
    text: &str,
    data: DataFile<'_>,
    limits: &Limits,
    source: &dyn ReadRanges,
) -> Result<File, Error> {
    let mut xml = Xml::new(text, limits, source);
    let mut document = Document {
        end: data.size,
        objects: BTreeMap::new(),
        dimensions: HashMap::new(),
        groups: Vec::new(),
        next: 1,
    };
    match document.read(&mut xml, data.name) {
        Ok(()) => Ok(File::of_objects(document.objects)),
        Err(problem) => Err(xml.error(problem)),
    }
}

struct Document {
    /// Size of the data file.
    end: u64,
    objects: BTreeMap<Address, Object>,
    /// Dimensions by their paths.
    dimensions: HashMap<String, Axis>,
    /// Groups from the root to the one in work.
    groups: Vec<OpenGroup>,
    /// Next address.
    next: u64,
}

/// A group whose end was not read yet.
struct OpenGroup {
    address: Address,
    name: String,
    /// Path with a slash at its end.
    path: String,
    group: Group,
    /// Dimensions that have no variable so far, by name.
    unused: BTreeMap<String, Axis>,
    /// Sizes of all dimensions.
    sizes: BTreeSet<u64>,
    /// Names and shapes of the variables with an anonymous dimension, in the order of the document.
    anonymous: Vec<(String, Vec<u64>)>,
    /// Names of unlimited dimensions.
    unlimited: Vec<String>,
}

impl OpenGroup {
    /// Refuses anonymous dimensions whose numbers (`phony_dim_0`, …) depend on what only the file contains. They are counted
    /// in the order of the group's variables, which is that of the document if this is also the order of their names, and
    /// variables share them with dimensions of their size.
    fn check_anonymous(&self) -> Result<(), Problem> {
        let sizes: BTreeSet<_> = self.anonymous.iter().flat_map(|(_, shape)| shape).collect();
        let refuse = |problem: &str| Err(Problem::incomplete(format!("dimensions without names: {problem}")));
        if sizes.is_empty() {
            return Ok(());
        }
        if sizes.iter().any(|size| self.sizes.contains(*size)) {
            return refuse("the group has a dimension of the same size");
        }
        if sizes.len() > 1 && !self.anonymous.is_sorted_by_key(|(name, _)| name) {
            return refuse("the order of the variables is unknown");
        }
        Ok(())
    }
}

impl Document {
    fn read(&mut self, xml: &mut Xml<'_>, name: &str) -> Result<(), Problem> {
        loop {
            match xml.next()? {
                Node::Open(root) if self.groups.is_empty() && self.objects.is_empty() => {
                    xml.place = vec![root.name()];
                    check_root(&root, name)?;
                    self.open_group(xml, String::new())?;
                }
                Node::Open(element) => self.read_child(xml, &element)?,
                Node::Close => self.close_group()?,
                Node::Text(text) if text.trim().is_empty() => {}
                Node::Text(_) => return Err(Problem::malformed("text, expected elements")),
                Node::End if self.objects.is_empty() => return Err(Problem::malformed("no element")),
                Node::End => return Ok(()),
            }
        }
    }

    fn read_child(&mut self, xml: &mut Xml<'_>, element: &Element<'_>) -> Result<(), Problem> {
        let (kind, name) = (element.name(), element.attribute("name")?.unwrap_or_default());
        xml.place = vec![format!("{kind} \"{}{name}\"", self.current()?.path)];
        match kind.as_str() {
            "Attribute" if name == attribute::EXTRA => {
                let unlimited = attribute::read_unlimited(xml)?;
                self.current()?.unlimited.extend(unlimited);
                Ok(())
            }
            "Attribute" => {
                let attribute = attribute::read(xml, element)?;
                let most = xml.limits().attributes;
                let group = &mut self.current()?.group;
                group.attributes.extend(attribute);
                match group.attributes.len() as u64 > most {
                    true => Err(Problem::Limit(format!("more than {most} attributes"))),
                    false => Ok(()),
                }
            }
            _ if name.is_empty() || name.contains('/') => Err(Problem::malformed("no name of an object")),
            "Group" => self.open_group(xml, name),
            "Dimension" => {
                self.add_dimension(xml, element, name)?;
                xml.skip()
            }
            "Enumeration" => xml.skip(),
            _ => self.add_variable(xml, element, name),
        }
    }

    fn current(&mut self) -> Result<&mut OpenGroup, Problem> {
        self.groups.last_mut().ok_or_else(|| Problem::malformed("an element after the end of the document"))
    }

    /// Assigns an address to an object.
    fn allocate(&mut self, xml: &Xml<'_>) -> Result<Address, Problem> {
        let most = xml.limits().objects;
        if self.next > most {
            return Err(Problem::Limit(format!("more than {most} groups, dimensions and variables")));
        }
        xml.hold("objects", size_of::<Dataset>())?;
        let address = Address(self.next);
        self.next = self.next.saturating_add(1);
        Ok(address)
    }

    fn open_group(&mut self, xml: &Xml<'_>, name: String) -> Result<(), Problem> {
        if name == "HDFEOS" {
            let problem = "HDF-EOS5: StructMetadata, with the names of dimensions, is not in sidecars";
            return Err(Problem::incomplete(problem));
        }
        let (address, path) = match self.groups.last() {
            None => (ROOT, "/".to_owned()),
            Some(parent) => {
                let path = format!("{}{name}/", parent.path);
                xml.hold("names", path.len())?;
                (self.allocate(xml)?, path)
            }
        };
        let (group, unused, sizes) = (Group::default(), BTreeMap::new(), BTreeSet::new());
        let (anonymous, unlimited) = (Vec::new(), Vec::new());
        self.groups.push(OpenGroup { address, name, path, group, unused, sizes, anonymous, unlimited });
        Ok(())
    }

    /// Completes the group in work with the scales of dimensions that have no variable.
    fn close_group(&mut self) -> Result<(), Problem> {
        let Some(closed) = self.groups.pop() else { return Ok(()) };
        closed.check_anonymous()?;
        let OpenGroup { address, name, path, mut group, unused, unlimited, .. } = closed;
        for (name, axis) in unused {
            let Some(scale) = axis.scale else { continue };
            group.links.push(link(name, scale));
            self.objects.insert(scale, Object::Dataset(Box::new(scale_without_variable(axis.size))));
        }
        for name in unlimited {
            let scale = self.dimensions.get(&format!("{path}{name}")).and_then(|axis| axis.scale);
            let scale = scale.and_then(|scale| self.objects.get_mut(&scale));
            let Some(Object::Dataset(scale)) = scale else {
                return Err(Problem::incomplete(format!("unlimited dimension {name}, which is unknown")));
            };
            if let Dataspace::Simple { max_shape, .. } = &mut scale.dataspace {
                *max_shape = Some(vec![None]);
            }
        }
        group.links.sort_by(|one, other| one.name.cmp(&other.name));
        let twice = group.links.windows(2).find(|pair| {
            let mut names = pair.iter().map(|link| &link.name);
            names.next() == names.next()
        });
        if let Some(link) = twice.and_then(<[_]>::first) {
            return Err(Problem::malformed(format!("two objects named \"{}\"", link.name)));
        }
        self.objects.insert(address, Object::Group(group));
        if let Some(parent) = self.groups.last_mut() {
            parent.group.links.push(link(name, address));
        }
        Ok(())
    }

    fn add_dimension(&mut self, xml: &Xml<'_>, element: &Element<'_>, name: String) -> Result<(), Problem> {
        let axis = Axis { size: variable::size(element)?, scale: Some(self.allocate(xml)?) };
        let group = self.current()?;
        group.sizes.insert(axis.size);
        let path = format!("{}{name}", group.path);
        xml.hold("names", path.len().saturating_mul(2))?;
        let is_new = group.unused.insert(name, axis).is_none();
        match self.dimensions.insert(path, axis).is_none() && is_new {
            true => Ok(()),
            false => Err(Problem::malformed("two dimensions of one name")),
        }
    }

    fn add_variable(
        &mut self,
        xml: &mut Xml<'_>,
        element: &Element<'_>,
        name: String,
    ) -> Result<(), Problem> {
        let find = |name: &str| self.dimensions.get(name).copied();
        let variable::Variable { axes, mut dataset } = variable::read(xml, element, find, self.end)?;
        if axes.iter().any(|axis| axis.scale.is_none()) {
            xml.hold("names", name.len().saturating_add(axes.len().saturating_mul(8)).saturating_add(64))?;
            let shape = axes.iter().map(|axis| axis.size).collect();
            self.current()?.anonymous.push((name.clone(), shape));
        }
        let own = self.current()?.unused.remove(&name);
        let address = match own {
            None => {
                variable::check_extent(&axes, &dataset)?;
                dataset.attributes.extend(dimension_list(&axes));
                self.allocate(xml)?
            }
            Some(own @ Axis { scale: Some(scale), .. }) if axes == [own] => {
                dataset.attributes.extend(scale_attributes(&name));
                scale
            }
            Some(_) => {
                let problem = "it has the name of a dimension, but is not one-dimensional along it";
                return Err(Problem::incomplete(problem));
            }
        };
        xml.hold("links", size_of::<Link>().saturating_add(name.len()))?;
        self.objects.insert(address, Object::Dataset(Box::new(dataset)));
        self.current()?.group.links.push(link(name, address));
        Ok(())
    }
}

/// Checks the root element. Versions of Hyrax that do not name themselves list filters in a fixed order, and omit variables of
/// types that they do not support.
fn check_root(root: &Element<'_>, data: &str) -> Result<(), Problem> {
    if !root.is("Dataset") {
        return Err(Problem::malformed("expected Dataset"));
    }
    let name = root.attribute("name")?.unwrap_or_default();
    if name.rsplit('/').next() != Some(data) {
        return Err(Problem::incomplete(format!("made for a file named \"{name}\"")));
    }
    if root.attribute("dmrpp:version")?.is_none_or(|version| version.is_empty()) {
        return Err(Problem::incomplete("no dmrpp:version: such sidecars may lack variables"));
    }
    Ok(())
}

fn link(name: String, address: Address) -> Link {
    Link { name, target: LinkTarget::Hard(address) }
}

fn scale_attributes(name: &str) -> [Attribute; 2] {
    let text =
        |name: &str, text: &str| attribute::of(name, types::text(), vec![Value::Text(text.to_owned())]);
    [text("CLASS", "DIMENSION_SCALE"), text("NAME", name)]
}

fn scale_without_variable(size: u64) -> Dataset {
    let datatype = Number::Float(4).datatype(ByteOrder::Little);
    let dataset = variable::dataset(datatype, vec![size], Layout::Contiguous(None));
    Dataset { attributes: scale_attributes(NOT_A_VARIABLE).into(), ..dataset }
}

/// Returns the attribute by which a variable refers to its scales. Its lists are empty for anonymous dimensions.
fn dimension_list(axes: &[Axis]) -> Option<Attribute> {
    let list =
        |axis: &Axis| Value::List(axis.scale.map(|scale| Value::Object(Some(scale))).into_iter().collect());
    let has_scale = axes.iter().any(|axis| axis.scale.is_some());
    has_scale.then(|| attribute::of("DIMENSION_LIST", types::references(), axes.iter().map(list).collect()))
}
