//! Files with the same coordinates.

use super::{
    model::{LeftOut, Plan, Source},
    options::OnDuplicate,
};
use crate::error::{CombineError, Problem};

/// Returns which of the files at a place is kept, and reports the others.
pub(super) fn resolve_duplicates(
    there: &[u32],
    source: Source<'_>,
    on_duplicate: OnDuplicate,
    plan: &mut Plan,
) -> Result<Option<u32>, CombineError> {
    let split = match on_duplicate {
        OnDuplicate::Last => there.split_last(),
        OnDuplicate::First | OnDuplicate::Error => there.split_first(),
    };
    let Some((kept, others)) = split else { return Ok(None) };
    for other in others {
        if on_duplicate == OnDuplicate::Error {
            return Err(source.conflict(*kept, *other, Problem::SameCoordinates));
        }
        let reason = format!("it has the same coordinates as {}", source.url(*kept));
        plan.left_out.push(LeftOut { row: (*other).into(), url: source.url(*other), reason });
    }
    Ok(Some(*kept))
}
