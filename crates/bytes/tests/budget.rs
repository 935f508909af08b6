//! Random charges against a model of the budget (`PROPTEST_CASES=10000`):
//!
//! - what was admitted never exceeds the limit
//! - the first refusal is final
//! - the gate is charged what was admitted, at most one step late, and never more

#![allow(clippy::unwrap_used, clippy::arithmetic_side_effects, reason = "a test fails by panicking")]

use std::sync::Mutex;

use proptest::{collection::vec, prelude::*};
use virtualize_bytes::{Budget, Gate, Limits, ReadError, ReadErrorKind};

/// Bytes that the budget may hold back from the gate.
const STEP: u64 = 64 << 10;

#[derive(Clone, Debug)]
enum Step {
    AddFile(u64),
    Take(u64),
    GoOn,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let bytes = prop_oneof![6 => 0_u64..1 << 18, 2 => 0_u64..1 << 26, 1 => any::<u64>()];
    let size = prop_oneof![4 => 0_u64..1 << 20, 1 => any::<u64>()];
    let step = prop_oneof![
        1 => size.prop_map(Step::AddFile),
        8 => bytes.prop_map(Step::Take),
        2 => Just(Step::GoOn),
    ];
    vec(step, 1..60)
}

/// A gate that refuses once it has been charged this much.
#[derive(Debug)]
struct Refusing(Mutex<u64>, u64);

impl Gate for Refusing {
    fn pass(&self, bytes: u64) -> Result<(), ReadError> {
        let mut charged = self.0.lock().unwrap();
        *charged += bytes;
        match *charged > self.1 {
            true => Err(ReadError::new(ReadErrorKind::Unavailable, "the gate refuses")),
            false => Ok(()),
        }
    }
}

/// The limit that the documentation of [`Budget`] promises.
fn limit(limits: &Limits, file_bytes: u64) -> u64 {
    limits.metadata_bytes.min(file_bytes.saturating_mul(32).saturating_add(64 << 20))
}

proptest! {
    #[test]
    fn charges_are_those_of_the_model(
        steps in steps(),
        metadata_bytes in prop_oneof![Just(16_u64 << 30), 0_u64..1 << 27, Just(u64::MAX)],
        gated in proptest::option::of(prop_oneof![0_u64..1 << 24, Just(u64::MAX)]),
    ) {
        let limits = Limits { metadata_bytes, ..Limits::default() };
        let gate = gated.map(|most| Refusing(Mutex::new(0), most));
        let budget = Budget::new(&limits, gate.as_ref().map(|gate| gate as &dyn Gate));
        let (mut file_bytes, mut admitted) = (0_u64, 0_u64);
        let mut refused: Option<String> = None;
        for step in steps {
            let charged = || gate.as_ref().map_or(0, |gate| *gate.0.lock().unwrap());
            let most = gated.unwrap_or(u64::MAX);
            let (done, fits) = match step {
                Step::AddFile(size) if file_bytes.checked_add(size).is_none() => continue,
                Step::AddFile(size) => {
                    file_bytes += size;
                    budget.add_file(size);
                    continue;
                }
                Step::Take(bytes) => {
                    // More than any memory.
                    let bytes = bytes.min(1 << 56);
                    let fits = admitted.checked_add(bytes).is_some_and(|all| all <= limit(&limits, file_bytes));
                    let done = budget.take("structures", bytes);
                    admitted += if done.is_ok() { bytes } else { 0 };
                    (done, fits)
                }
                Step::GoOn => (budget.go_on(), true),
            };
            match (&done, &refused) {
                (Err(error), Some(first)) => prop_assert_eq!(&error.to_string(), first),
                (Ok(()), Some(_)) => prop_assert!(false, "admitted after a refusal"),
                (Ok(()), None) => prop_assert!(fits && charged() <= most),
                (Err(error), None) => {
                    prop_assert!(!fits || charged() > most, "refused: {}", error);
                    refused = Some(error.to_string());
                }
            }
            prop_assert_eq!(budget.refused().map(ToString::to_string), refused.clone());
            if refused.is_none() {
                prop_assert!(admitted <= limit(&limits, file_bytes));
                prop_assert_eq!(budget.left(), limit(&limits, file_bytes) - admitted);
                let late = admitted - charged();
                prop_assert!(gate.is_none() || late < STEP, "{} bytes late", late);
                prop_assert!(!matches!(step, Step::GoOn) || gate.is_none() || late == 0);
            }
        }
    }
}
