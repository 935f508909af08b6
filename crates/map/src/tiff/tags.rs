//! Tags that could not be read.

use virtualize_tiff::model::Ifd;

use crate::{Diagnostic, Error, Result, Severity};

/// Tags without which nobody knows how the samples lie: a default in place of what the file meant would be a guess.
const STRUCTURE: [u16; 18] =
    [256, 257, 258, 259, 266, 273, 277, 278, 279, 284, 317, 322, 323, 324, 325, 339, 347, 32997];

/// Reports unreadable tags, and refuses the image where one of them says how the samples lie.
pub(super) fn check(ifd: &Ifd, path: &str, diagnostics: &mut Vec<Diagnostic>) -> Result<()> {
    for error in &ifd.unreadable_tags {
        let message = error.to_string();
        let structural = error.tag().is_some_and(|tag| STRUCTURE.contains(&tag));
        // Where a table is too short, libtiff and tifffile read no strips there; so does the reader, and says it.
        let is_short = matches!(error, virtualize_tiff::Error::ShortTable { .. });
        if structural && !is_short {
            return Err(Error::Tag(error.clone()));
        }
        diagnostics.push(Diagnostic {
            severity: if structural { Severity::Warning } else { Severity::Info },
            code: "tiff-tag",
            path: format!("/{path}"),
            message: format!("a tag is not read whole: {message}"),
            remedy: None,
        });
    }
    Ok(())
}
