//! What plans of many files cost. `FILES=1000000 cargo test --release -p virtualize-archive --lib plan_of_many -- --nocapture`
//! prints it.

#![allow(clippy::print_stdout, reason = "measurements are printed")]

use std::time::Instant;

use super::super::{FileExtent, Files, Known, PlanOptions, plan};
use crate::{Along, Layout};

/// Returns the highest number of bytes that the process has had in memory.
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok()).unwrap_or(0) * 1024
}

#[test]
fn a_plan_of_many_files() {
    let count: u64 = std::env::var("FILES").ok().and_then(|count| count.parse().ok()).unwrap_or(10_000);
    let (before, start) = (peak(), Instant::now());
    let mut files = Files::default();
    files.reserve(usize::try_from(count).unwrap());
    let kind = files.kind("storage", || "signature".to_owned());
    for row in 0..count {
        let text = format!("[[1,[{row},{row},\"=\",{row},\"hours since 1970-01-01\",\"standard\",false]]]");
        files.push(kind, serde_json::from_str::<FileExtent>(&text).unwrap());
    }
    let (loaded, start) = (start.elapsed(), (Instant::now(), peak()));
    let layout = Layout::along(vec![Along::Concat("time".to_owned())]);
    let plan = plan(files, &Known::nothing(), &layout, &PlanOptions::default()).unwrap();
    let (planned, end) = (start.0.elapsed(), peak());
    let per_file = |bytes: u64| bytes / count;
    println!(
        "{count} files: loaded in {loaded:.2?} with {} bytes each, planned in {planned:.2?} with {} bytes each",
        per_file(start.1 - before),
        per_file(end - before)
    );
    let [set] = plan.sets.as_slice() else { panic!("{} sets", plan.sets.len()) };
    assert!(set.blocks.iter().zip(0..).all(|(block, row)| block.row == u64::from(row) && *block.at == [row]));
    assert_eq!((set.blocks.len() as u64, plan.notes.len()), (count, 0));
}
