//! Random shares of a budget and of two partial budgets, against a model (`PROPTEST_CASES=10000`):
//!
//! - a share is granted if the partial budget and the whole one have so much left, and only then
//! - what is held is the sum of the shares, and never exceeds the size
//! - what is refused changes nothing, and dropped shares return everything

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

use futures::FutureExt;
use proptest::{collection::vec, prelude::*};

use super::*;

/// Sizes of the whole and of the partial budgets, in pieces.
const SIZES: [u32; 3] = [16, 10, 16];

#[derive(Clone, Debug)]
enum Step {
    /// Reserves a share of a budget.
    Take(usize, u64),
    /// Reserves a share of a partial budget alone.
    TakeOwn(usize, u64),
    Resize(usize, u64),
    OfAll(usize),
    Drop(usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let bytes = || prop_oneof![8 => 0..12 * PIECE, 1 => Just(u64::MAX)];
    let step = prop_oneof![
        4 => (0..3_usize, bytes()).prop_map(|(budget, bytes)| Step::Take(budget, bytes)),
        1 => (1..3_usize, bytes()).prop_map(|(budget, bytes)| Step::TakeOwn(budget, bytes)),
        4 => (any::<usize>(), bytes()).prop_map(|(share, bytes)| Step::Resize(share, bytes)),
        1 => any::<usize>().prop_map(Step::OfAll),
        3 => any::<usize>().prop_map(Step::Drop),
    ];
    vec(step, 1..80)
}

/// A share: the budget that it was taken from, its pieces, and whether they count there, and in the whole.
#[derive(Clone, Copy)]
struct Known {
    budget: usize,
    pieces: u32,
    counts: (bool, bool),
}

/// Returns the pieces that shares hold of a budget.
fn held(shares: &[(Share, Known)], budget: usize) -> u32 {
    let counts = |known: &Known| match budget {
        0 => known.counts.1,
        _ => known.counts.0 && known.budget == budget,
    };
    shares.iter().map(|(_, known)| known).filter(|known| counts(known)).map(|known| known.pieces).sum()
}

fn pieces(budget: usize, bytes: u64) -> u32 {
    u32::try_from(bytes.div_ceil(PIECE).min(u64::from(SIZES[budget]))).unwrap()
}

proptest! {
    #[test]
    fn shares_are_those_of_the_model(steps in steps()) {
        let whole = Budget::new(u64::from(SIZES[0]) * PIECE);
        let part = |at: usize| whole.part(u64::from(SIZES[at]) * PIECE);
        let budgets = [whole.clone(), part(1), part(2)];
        let mut shares: Vec<(Share, Known)> = Vec::new();
        for step in steps {
            let free = |shares: &[(Share, Known)], budget: usize| SIZES[budget] - held(shares, budget);
            match step {
                Step::Take(budget, bytes) => {
                    let wanted = pieces(budget, bytes);
                    let fits = free(&shares, budget) >= wanted && free(&shares, 0) >= wanted;
                    let taken = budgets[budget].try_take(bytes);
                    prop_assert_eq!(taken.is_some(), fits);
                    let known = Known { budget, pieces: wanted, counts: (true, true) };
                    shares.extend(taken.map(|share| (share, known)));
                }
                Step::TakeOwn(budget, bytes) => {
                    let wanted = pieces(budget, bytes);
                    if free(&shares, budget) < wanted {
                        continue;
                    }
                    // Otherwise it would wait.
                    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
                    let _entered = runtime.enter();
                    let share = budgets[budget].take_own(bytes).now_or_never().unwrap().unwrap();
                    shares.push((share, Known { budget, pieces: wanted, counts: (true, false) }));
                }
                _ if shares.is_empty() => {}
                Step::Resize(at, bytes) => {
                    let at = at % shares.len();
                    let Known { budget, pieces: has, counts } = shares[at].1;
                    // Neither is resized.
                    if counts != (true, true) {
                        continue;
                    }
                    let wanted = pieces(budget, bytes);
                    let more = wanted.saturating_sub(has);
                    let fits = free(&shares, budget) >= more && free(&shares, 0) >= more;
                    prop_assert_eq!(budgets[budget].resize(&mut shares[at].0, bytes), fits);
                    if fits {
                        shares[at].1.pieces = wanted;
                    }
                }
                Step::OfAll(at) => {
                    let (share, known) = shares.swap_remove(at % shares.len());
                    let counts = match (known.budget, known.counts) {
                        (0, counts) | (_, counts @ (_, false)) => counts,
                        _ => (false, true),
                    };
                    shares.push((share.of_all(), Known { counts, ..known }));
                }
                Step::Drop(at) => drop(shares.swap_remove(at % shares.len())),
            }
            for (at, budget) in budgets.iter().enumerate() {
                let held = held(&shares, at);
                prop_assert!(held <= SIZES[at]);
                prop_assert_eq!(budget.held(), u64::from(held) * PIECE, "budget {}", at);
            }
            for (share, known) in &shares {
                prop_assert_eq!(share.bytes(), u64::from(known.pieces) * PIECE);
            }
        }
        shares.clear();
        prop_assert!(budgets.iter().all(|budget| budget.held() == 0));
    }
}
