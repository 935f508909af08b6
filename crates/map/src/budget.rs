//! Memory that the mapping of a file takes from its [`Budget`].

use virtualize_bytes::Budget;

use crate::{Diagnostic, InlineTask, Mapped, Piece, Severity};
use virtualize_remedy::Code;

/// Bytes of memory for a chunk in a manifest: position, offset and length.
const CHUNK: u64 = 20;

/// Bytes of inlined chunks that are decoded for each byte taken from the budget.
const DECODED: u64 = 16;

/// Returns the memory for `chunks` references of the array at `path`. Their keys repeat the path.
pub(crate) fn chunk_bytes(chunks: u64, path: &str) -> u64 {
    chunks.saturating_mul(CHUNK.saturating_add(path.len() as u64 / 4))
}

/// Returns the memory for `tasks` of the array at `path`, which consist of `pieces` in all and decode to `decoded` bytes.
pub(crate) fn task_bytes(tasks: u64, pieces: u64, decoded: u64, path: &str) -> u64 {
    let tasks = tasks.saturating_mul((size_of::<InlineTask>() as u64).saturating_add(path.len() as u64));
    let pieces = pieces.saturating_mul(size_of::<Piece>() as u64);
    tasks.saturating_add(pieces).saturating_add(decoded / DECODED)
}

/// Reports an error, which refuses the file, if the budget is spent.
pub(crate) fn report(budget: &Budget<'_>, mapped: &mut Mapped) {
    let Some(refused) = budget.refused() else { return };
    mapped.report.diagnostics.push(Diagnostic {
        severity: Severity::Error,
        code: Code::TooLarge,
        path: "/".to_owned(),
        message: refused.to_string(),
        remedy: None,
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_and_tasks_need_memory() {
        let long = "p".repeat(400);
        let chunk = chunk_bytes(1000, &long) / 1000;
        assert!((100..=420).contains(&chunk), "{chunk} bytes for a chunk whose key has 400 bytes");
        let (task, piece) = (size_of::<InlineTask>() as u64, size_of::<Piece>() as u64);
        assert_eq!(task_bytes(2, 3, 0, &long), 2 * (task + 400) + 3 * piece);
        assert_eq!(task_bytes(0, 0, 1600, ""), 100, "a sixteenth of what is decoded");
    }
}
