//! The positions of parts in a combined array.

use super::role::DimRole;

/// The axes of a combined array.
#[derive(Debug)]
pub(crate) struct Geometry {
    /// Slowest first.
    pub(crate) axes: Vec<Axis>,
}

/// An axis of a combined array.
#[derive(Debug)]
pub(crate) struct Axis {
    /// Name of its dimension.
    pub(crate) name: Option<String>,
    /// Axis of the array in the files; `None` for a new one.
    pub(crate) own: Option<usize>,
    /// The dimension of the layout along which it grows.
    pub(crate) dimension: Option<usize>,
    /// First element of each place along that dimension; one place for axes that do not grow.
    pub(crate) starts: Vec<u64>,
    /// Number of elements of each place.
    pub(crate) sizes: Vec<u64>,
    /// Number of elements of the combined array.
    pub(crate) total: u64,
}

impl Geometry {
    /// Returns the axes of a combined array from its roles, and its shape and dimension names in the files. `sizes` are the
    /// elements of each place along each dimension of the layout in the array's group. Returns `None` on overflow.
    pub(crate) fn new(
        roles: &[DimRole],
        shape: &[u64],
        dimensions: &[Option<String>],
        names: &[String],
        sizes: &[&[u64]],
    ) -> Option<Self> {
        let mut axes = Vec::new();
        let mut coordinate = false;
        for (n, (role, name)) in roles.iter().zip(names).enumerate() {
            let own = sizes.get(n)?;
            coordinate |= *role == DimRole::Coordinate;
            let sizes = match role {
                DimRole::Invariant | DimRole::Axis(_) => continue,
                DimRole::NewAxis | DimRole::Coordinate => vec![1; own.len()],
                DimRole::Broadcast => own.to_vec(),
            };
            axes.push(Axis::new(Some(name.clone()), None, Some(n), sizes)?);
        }
        let own_axes = if coordinate { &[] } else { shape };
        for (axis, n) in own_axes.iter().enumerate() {
            let name = dimensions.get(axis).cloned().flatten();
            let dimension = roles.iter().position(|role| *role == DimRole::Axis(axis));
            let along = match dimension {
                Some(dimension) => sizes.get(dimension)?.to_vec(),
                None => vec![*n],
            };
            axes.push(Axis::new(name, Some(axis), dimension, along)?);
        }
        Some(Self { axes })
    }

    pub(crate) fn shape(&self) -> Vec<u64> {
        self.axes.iter().map(|axis| axis.total).collect()
    }

    /// Returns, along each axis, the first element and the number of elements of the part at a place.
    pub(crate) fn part(&self, key: &[u32]) -> Option<(Vec<u64>, Vec<u64>)> {
        self.axes.iter().map(|axis| axis.part(key)).collect()
    }
}

impl Axis {
    fn new(
        name: Option<String>,
        own: Option<usize>,
        dimension: Option<usize>,
        sizes: Vec<u64>,
    ) -> Option<Self> {
        let mut total = 0_u64;
        let mut starts = Vec::with_capacity(sizes.len());
        for size in &sizes {
            starts.push(total);
            total = total.checked_add(*size)?;
        }
        Some(Self { name, own, dimension, starts, sizes, total })
    }

    /// Returns the place of a part along this axis.
    pub(crate) fn place(&self, key: &[u32]) -> usize {
        let n = self.dimension.and_then(|dimension| key.get(dimension));
        n.and_then(|n| usize::try_from(*n).ok()).unwrap_or(0)
    }

    fn part(&self, key: &[u32]) -> Option<(u64, u64)> {
        let place = self.place(key);
        Some((*self.starts.get(place)?, *self.sizes.get(place)?))
    }
}
