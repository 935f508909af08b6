//! Tags that could not be read.

use virtualize_tiff::model::Ifd;

use crate::{Diagnostic, Error, Result, Severity};
use virtualize_remedy::Code;

/// Tags that determine the layout of the samples. A default in place of an unreadable one would be a guess.
const STRUCTURE: [u16; 18] =
    [256, 257, 258, 259, 266, 273, 277, 278, 279, 284, 317, 322, 323, 324, 325, 339, 347, 32997];

/// Reports unreadable tags.
///
/// # Errors
/// One of them determines the layout of the samples.
pub(super) fn check(ifd: &Ifd, path: &str, diagnostics: &mut Vec<Diagnostic>) -> Result<()> {
    for error in &ifd.unreadable_tags {
        let message = error.to_string();
        let structural = error.tag().is_some_and(|tag| STRUCTURE.contains(&tag));
        // libtiff and tifffile treat the strips that a short table lacks as missing; so does the reader.
        let is_short = matches!(error, virtualize_tiff::Error::ShortTable { .. });
        if structural && !is_short {
            return Err(Error::Tag(error.clone()));
        }
        diagnostics.push(Diagnostic {
            severity: if structural { Severity::Warning } else { Severity::Info },
            code: Code::TiffTag,
            path: format!("/{path}"),
            message: format!("a tag is incomplete: {message}"),
            remedy: None,
        });
    }
    Ok(())
}
