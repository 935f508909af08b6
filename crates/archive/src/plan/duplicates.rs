//! Files with the same coordinates.

use super::{
    extent::{FileExtent, conflict},
    model::{LeftOut, Plan},
    options::OnDuplicate,
};
use crate::error::{CombineError, Problem};

/// Returns which of the files at a place is kept, and reports the others.
pub(super) fn resolve_duplicates<'a>(
    files: &[usize],
    briefs: &[&'a FileExtent],
    on_duplicate: OnDuplicate,
    plan: &mut Plan,
) -> Result<Option<&'a FileExtent>, CombineError> {
    let mut there: Vec<&FileExtent> = files.iter().filter_map(|n| briefs.get(*n).copied()).collect();
    let kept = match on_duplicate {
        OnDuplicate::Last => there.pop(),
        OnDuplicate::First | OnDuplicate::Error => (!there.is_empty()).then(|| there.remove(0)),
    };
    let Some(kept) = kept else { return Ok(None) };
    for other in there {
        if on_duplicate == OnDuplicate::Error {
            return Err(conflict(kept, other, Problem::SameCoordinates));
        }
        let reason = format!("it has the same coordinates as {}", kept.url);
        plan.left_out.push(LeftOut { row: other.row, url: other.url.clone(), reason });
    }
    Ok(Some(kept))
}
