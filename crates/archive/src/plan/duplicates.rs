//! Files with the same coordinates.

use super::{
    extent::{Brief, two},
    model::{LeftOut, Plan},
    options::OnDuplicate,
};
use crate::error::CombineError;

/// The one of the files at a place that is kept.
pub(super) fn one<'a>(
    files: &[usize],
    briefs: &[&'a Brief],
    on_duplicate: OnDuplicate,
    plan: &mut Plan,
) -> Result<Option<&'a Brief>, CombineError> {
    let mut there: Vec<&Brief> = files.iter().filter_map(|n| briefs.get(*n).copied()).collect();
    let kept = match on_duplicate {
        OnDuplicate::Last => there.pop(),
        OnDuplicate::First | OnDuplicate::Error => (!there.is_empty()).then(|| there.remove(0)),
    };
    let Some(kept) = kept else { return Ok(None) };
    for other in there {
        if on_duplicate == OnDuplicate::Error {
            let what = "they have the same coordinates; --on-duplicate first or last keeps one of them";
            return Err(two(kept, other, what.to_owned()));
        }
        let reason = format!("it has the same coordinates as {}", kept.url);
        plan.left_out.push(LeftOut { row: other.row, url: other.url.clone(), reason });
    }
    Ok(Some(kept))
}
