//! Reads data layouts.

use bytes::Bytes;
use hdf5_metno_sys::{
    h5d::{self, H5D_layout_t},
    h5p,
};
use virtualize_bytes::ByteRange;
use virtualize_hdf5::model::{Dataspace, ExternalSegment, Layout};

use crate::{
    call::{At, Handle, Result, UNDEFINED},
    chunks, dataspace,
    datatype::Type,
    selection,
};

/// Limit on the size of a compact dataset in bytes, that of its message.
const MAX_COMPACT: u64 = 1 << 16;
/// Size of the buffer for an external file name, whose length the library does not report.
const MAX_NAME: usize = 1 << 16;

/// An open dataset.
pub(crate) struct Opened<'a> {
    pub(crate) dataset: &'a Handle,
    pub(crate) properties: &'a Handle,
    pub(crate) type_id: &'a Handle,
    pub(crate) datatype: &'a Type,
    pub(crate) dataspace: &'a Dataspace,
}

/// Reads the layout. Errors become part of it.
pub(crate) fn read(at: At, opened: &Opened<'_>) -> Layout {
    let at = at.structure("data layout message");
    opened.layout(at).unwrap_or_else(Layout::Unreadable)
}

impl Opened<'_> {
    fn layout(&self, at: At) -> Result<Layout> {
        // SAFETY: the handle is open.
        match unsafe { h5p::H5Pget_layout(self.properties.id()) } {
            H5D_layout_t::H5D_COMPACT => self.compact(at).map(Layout::Compact),
            H5D_layout_t::H5D_CONTIGUOUS => self.contiguous(at),
            H5D_layout_t::H5D_CHUNKED => {
                chunks::read(at, self.dataset, self.properties, self.dataspace).map(Layout::Chunked)
            }
            H5D_layout_t::H5D_VIRTUAL => selection::mappings(at, self.properties).map(Layout::Virtual),
            _ => Err(at.failed()),
        }
    }

    /// Returns the stored bytes of a compact dataset, which the library only returns as elements.
    fn compact(&self, at: At) -> Result<Bytes> {
        let bytes = dataspace::elements(self.dataspace).saturating_mul(self.datatype.size as u64);
        if !self.datatype.memory.is_flat() || bytes > MAX_COMPACT {
            return Err(at.malformed("the library does not give the stored bytes of such elements"));
        }
        let mut value = vec![0_u8; usize::try_from(bytes).unwrap_or(0)];
        if !value.is_empty() {
            let (dataset, datatype) = (self.dataset.id(), self.type_id.id());
            // SAFETY: the buffer has room for all elements of this type.
            at.done(unsafe { h5d::H5Dread(dataset, datatype, 0, 0, 0, value.as_mut_ptr().cast()) })?;
        }
        Ok(value.into())
    }

    fn contiguous(&self, at: At) -> Result<Layout> {
        // SAFETY: the handle is open.
        let files = at.number(unsafe { h5p::H5Pget_external_count(self.properties.id()) })?;
        if files > 0 {
            let files = u32::try_from(files).map_err(|_| at.malformed("too many external files"))?;
            return (0..files)
                .map(|index| self.segment(at, index))
                .collect::<Result<_>>()
                .map(Layout::External);
        }
        // SAFETY: the handle is open.
        let (start, size) =
            unsafe { (h5d::H5Dget_offset(self.dataset.id()), h5d::H5Dget_storage_size(self.dataset.id())) };
        Ok(Layout::Contiguous((start != UNDEFINED).then(|| ByteRange::new(start, size))))
    }

    fn segment(&self, at: At, index: u32) -> Result<ExternalSegment> {
        let (mut name, mut offset, mut size) = (vec![0_u8; MAX_NAME], 0, 0);
        // SAFETY: the size that is passed is that of the buffer; both numbers outlive the call.
        at.done(unsafe {
            h5p::H5Pget_external(
                self.properties.id(),
                index,
                name.len(),
                name.as_mut_ptr().cast(),
                &raw mut offset,
                &raw mut size,
            )
        })?;
        let name = name.split(|&byte| byte == 0).next().unwrap_or_default();
        Ok(ExternalSegment {
            file: String::from_utf8_lossy(name).into_owned(),
            offset: at.number(offset)? as u64,
            size: (size != UNDEFINED).then_some(size),
        })
    }
}
