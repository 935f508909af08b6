//! Dimensions.
//!
//! ```text
//! dim        = name dim_length
//! dim_length = NON_NEG (0 for the record dimension)
//! ```

use super::name::name;
use super::reader::{Reader, Result};
use crate::model::Dimension;

pub(crate) fn dimension(reader: &mut Reader<'_>) -> Result<Dimension> {
    reader.enter("dim");
    let name = name(reader)?;
    let length = reader.count()?;
    Ok(Dimension { name, length: (length != 0).then_some(length) })
}
