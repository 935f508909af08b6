//! The document: groups, dimensions and variables become objects of the model, at addresses of their own.
//!
//! HDF5 has no dimensions. NetCDF-4 writes each as a dataset, a dimension scale: that of the variable with the same name, or one
//! that no reader shows. Variables list their scales in the attribute `DIMENSION_LIST`.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use virtualize_bytes::{Address, Limits, ReadRanges};
use virtualize_hdf5::model::{
    Attribute, ByteOrder, Dataset, Dataspace, Datatype, Element as Value, File, Float, Group, Layout, Link,
    LinkTarget, Object, ReferenceKind,
};

use crate::variable::{self, Axis};
use crate::xml::{Element, Node, Xml};
use crate::{DataFile, Error, Result, attribute};

/// Text by which netCDF-C marks a scale without a variable.
const NOT_A_VARIABLE: &str = "This is a netCDF dimension but not a netCDF variable.";

/// The container in which Hyrax lists the unlimited dimensions of a group.
const UNLIMITED: &str = "DODS_EXTRA";

const ROOT: Address = Address(0);

/// Parses a document.
pub(crate) fn parse(
    text: &str,
    data: DataFile<'_>,
    limits: &Limits,
    source: &dyn ReadRanges,
) -> Result<File> {
    let mut xml = Xml::new(text, limits, source);
    let mut document = Document {
        end: data.size,
        objects: BTreeMap::new(),
        dimensions: HashMap::new(),
        groups: Vec::new(),
        next: 1,
    };
    document.read(&mut xml, data.name).map_err(|error| match error {
        Error::Unusable { problem, .. } => {
            Error::Unusable { line: xml.line(), element: std::mem::take(&mut xml.element), problem }
        }
        other => other,
    })?;
    Ok(File::of_objects(document.objects))
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
    /// Path with a slash at its end.
    path: String,
    attributes: Vec<Attribute>,
    links: BTreeMap<String, Address>,
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
    fn link(&mut self, name: String, address: Address) -> Result<()> {
        let problem = format!("two objects named \"{name}\"");
        self.links.insert(name, address).map_or(Ok(()), |_| Err(Error::new(problem)))
    }
}

impl Document {
    fn read(&mut self, xml: &mut Xml<'_>, name: &str) -> Result<()> {
        loop {
            match xml.next()? {
                Node::Open(root) if self.groups.is_empty() && self.objects.is_empty() => {
                    xml.element = root.name();
                    if !root.is("Dataset") {
                        return Err(Error::new("expected Dataset"));
                    }
                    let stated = root.attribute("name")?.unwrap_or_default();
                    if stated.rsplit('/').next() != Some(name) {
                        return Err(Error::new(format!("made for a file named \"{stated}\"")));
                    }
                    // Versions of Hyrax that do not name themselves list filters in a fixed order, and omit variables of types
                    // that they do not support.
                    if root.attribute("dmrpp:version")?.is_none_or(|version| version.is_empty()) {
                        return Err(Error::new("no dmrpp:version: such sidecars may lack variables"));
                    }
                    self.open_group(ROOT, "/".to_owned());
                }
                Node::Open(element) => self.read_child(xml, &element)?,
                Node::Close => self.close_group()?,
                Node::Text(text) if text.trim().is_empty() => {}
                Node::Text(_) => return Err(Error::new("text, expected elements")),
                Node::End if self.objects.is_empty() => return Err(Error::new("no element")),
                Node::End => return Ok(()),
            }
        }
    }

    fn read_child(&mut self, xml: &mut Xml<'_>, element: &Element<'_>) -> Result<()> {
        let (kind, name) = (element.name(), element.attribute("name")?.unwrap_or_default());
        xml.element = format!("{kind} \"{}{name}\"", self.current()?.path);
        match kind.as_str() {
            "Attribute" if name == UNLIMITED => {
                while let Some(item) = xml.child()? {
                    if !item.is("Attribute")
                        || item.attribute("name")?.as_deref() != Some("Unlimited_Dimension")
                    {
                        return Err(Error::new(format!("container {name} with other content")));
                    }
                    let unexpected = |child| Error::new(format!("element {child}, expected Value"));
                    self.current()?.unlimited.extend(attribute::values(xml, unexpected)?);
                }
                Ok(())
            }
            "Attribute" => attribute::read(xml, element, &mut self.current()?.attributes),
            _ if name.is_empty() || name.contains('/') => Err(Error::new("no name of an object")),
            "Group" if name == "HDFEOS" => {
                Err(Error::new("HDF-EOS5: StructMetadata, with the names of dimensions, is not in sidecars"))
            }
            "Group" => {
                let address = self.allocate(xml)?;
                let path = format!("{}{name}/", self.current()?.path);
                xml.hold("names", path.len())?;
                self.current()?.link(name, address)?;
                self.open_group(address, path);
                Ok(())
            }
            "Dimension" => {
                let axis = Axis { size: variable::size(element)?, scale: Some(self.allocate(xml)?) };
                let group = self.current()?;
                group.sizes.insert(axis.size);
                let path = format!("{}{name}", group.path);
                xml.hold("names", path.len().saturating_mul(2))?;
                group.unused.insert(name, axis);
                if self.dimensions.insert(path, axis).is_some() {
                    return Err(Error::new("two dimensions of one name"));
                }
                xml.skip()
            }
            "Enumeration" => xml.skip(),
            _ => self.add_variable(xml, element, name),
        }
    }

    fn current(&mut self) -> Result<&mut OpenGroup> {
        self.groups.last_mut().ok_or_else(|| Error::new("an element after the end of the document"))
    }

    /// Assigns an address to an object.
    fn allocate(&mut self, xml: &Xml<'_>) -> Result<Address> {
        let most = xml.limits.objects;
        if self.next > most {
            return Err(Error::new(format!("more than {most} groups, dimensions and variables")));
        }
        xml.hold("objects", size_of::<Dataset>())?;
        let address = Address(self.next);
        self.next = self.next.saturating_add(1);
        Ok(address)
    }

    fn open_group(&mut self, address: Address, path: String) {
        self.groups.push(OpenGroup {
            address,
            path,
            attributes: Vec::new(),
            links: BTreeMap::new(),
            unused: BTreeMap::new(),
            sizes: BTreeSet::new(),
            anonymous: Vec::new(),
            unlimited: Vec::new(),
        });
    }

    /// Completes the group in work with the scales of dimensions that have no variable.
    fn close_group(&mut self) -> Result<()> {
        let Some(mut group) = self.groups.pop() else { return Ok(()) };
        // Refuses anonymous dimensions whose numbers (`phony_dim_0`, …) depend on what only the file contains. They are
        // counted in the order of the group's variables, which is that of the document if this is also the order of their
        // names, and variables share them with dimensions of their size.
        let sizes: BTreeSet<_> = group.anonymous.iter().flat_map(|(_, shape)| shape).collect();
        let refuse = |problem: &str| Err(Error::new(format!("dimensions without names: {problem}")));
        if sizes.iter().any(|size| group.sizes.contains(*size)) {
            return refuse("the group has a dimension of the same size");
        }
        if sizes.len() > 1 && !group.anonymous.is_sorted_by_key(|(name, _)| name) {
            return refuse("the order of the variables is unknown");
        }
        for (name, axis) in std::mem::take(&mut group.unused) {
            let Some(scale) = axis.scale else { continue };
            group.link(name, scale)?;
            let datatype = Datatype::Float(Float::ieee(true, ByteOrder::Little));
            let dataset = variable::dataset(datatype, vec![axis.size], Layout::Contiguous(None));
            let dataset = Dataset { attributes: scale_attributes(NOT_A_VARIABLE).into(), ..dataset };
            self.objects.insert(scale, Object::Dataset(Box::new(dataset)));
        }
        for name in &group.unlimited {
            let scale = self.dimensions.get(&format!("{}{name}", group.path)).and_then(|axis| axis.scale);
            let Some(Object::Dataset(scale)) = scale.and_then(|scale| self.objects.get_mut(&scale)) else {
                return Err(Error::new(format!("unlimited dimension {name}, which is unknown")));
            };
            if let Dataspace::Simple { max_shape, .. } = &mut scale.dataspace {
                *max_shape = Some(vec![None]);
            }
        }
        let link = |(name, address)| Link { name, target: LinkTarget::Hard(address) };
        let links = group.links.into_iter().map(link).collect();
        let object = Group { links, attributes: group.attributes, ..Group::default() };
        self.objects.insert(group.address, Object::Group(object));
        Ok(())
    }

    fn add_variable(&mut self, xml: &mut Xml<'_>, element: &Element<'_>, name: String) -> Result<()> {
        let find = |name: &str| self.dimensions.get(name).copied();
        let (axes, mut dataset) = variable::read(xml, element, find, self.end)?;
        if axes.iter().any(|axis| axis.scale.is_none()) {
            xml.hold("names", name.len().saturating_add(axes.len().saturating_mul(8)).saturating_add(64))?;
            let shape = axes.iter().map(|axis| axis.size).collect();
            self.current()?.anonymous.push((name.clone(), shape));
        }
        let own = self.current()?.unused.remove(&name);
        let address = match own {
            None => {
                variable::check_extent(&axes, &dataset)?;
                if axes.iter().any(|axis| axis.scale.is_some()) {
                    // The list of an anonymous dimension is empty.
                    let reference = |scale| Value::Object(Some(scale));
                    let list = |axis: &Axis| Value::List(axis.scale.map(reference).into_iter().collect());
                    let base = Box::new(Datatype::Reference { size: 8, kind: ReferenceKind::Object });
                    let (lists, values) =
                        (Datatype::Sequence { size: 16, base }, axes.iter().map(list).collect());
                    dataset.attributes.push(attribute::of("DIMENSION_LIST", lists, values));
                }
                self.allocate(xml)?
            }
            Some(own @ Axis { scale: Some(scale), .. }) if axes == [own] => {
                dataset.attributes.extend(scale_attributes(&name));
                scale
            }
            Some(_) => {
                return Err(Error::new(
                    "it has the name of a dimension, but is not one-dimensional along it",
                ));
            }
        };
        xml.hold("links", size_of::<Link>().saturating_add(name.len()))?;
        self.objects.insert(address, Object::Dataset(Box::new(dataset)));
        self.current()?.link(name, address)
    }
}

fn scale_attributes(name: &str) -> [Attribute; 2] {
    [("CLASS", "DIMENSION_SCALE"), ("NAME", name)]
        .map(|(name, text)| attribute::of(name, attribute::TEXT, vec![Value::Text(text.to_owned())]))
}
