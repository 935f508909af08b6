//! Names that the node of a Zarr hierarchy can have.

use std::borrow::Cow;

use crate::{Error, Result};

/// Returns the name of a node for a name in a file. zarr-python treats a backslash as a slash, so in a name that contains
/// one, `%` is escaped as `%25` and the backslash as `%5C`, reversibly.
pub(crate) fn shown_name(name: &str) -> Cow<'_, str> {
    match name.contains('\\') {
        true => name.replace('%', "%25").replace('\\', "%5C").into(),
        false => name.into(),
    }
}

/// Refuses names that no Zarr node can have.
pub(crate) fn check_name(name: &str) -> Result<()> {
    let reserved = ["zarr.json", ".zarray", ".zgroup", ".zattrs", ".zmetadata"];
    let problem = match name {
        "" | "." | ".." => "is no name of a Zarr node",
        _ if reserved.contains(&name) => "is the key of Zarr metadata",
        _ if name.contains(['/', '\0']) => "contains a separator",
        _ => return Ok(()),
    };
    Err(Error::Name { name: name.to_owned(), problem })
}

#[cfg(test)]
mod tests {
    use super::{check_name, shown_name};

    #[test]
    fn backslashes_are_escaped_reversibly() {
        assert_eq!(shown_name("a\\b 5%"), "a%5Cb 5%25");
        assert_eq!(shown_name("100%"), "100%", "names without a backslash stay");
        assert!(check_name("a/b").is_err() && check_name(&shown_name("\\")).is_ok());
    }
}
