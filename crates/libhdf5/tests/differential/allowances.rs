//! Differences that are known, each with its reason.

/// Why a difference is no fault of ours; `None` where nobody knows.
pub(crate) fn reason(file: &str, class: &str, detail: &str) -> Option<&'static str> {
    ALLOWANCES
        .iter()
        .find(|allowance| allowance.covers(file, class, detail))
        .map(|allowance| allowance.reason)
}

struct Allowance {
    /// How the file's name starts; empty for all files.
    file: &'static str,
    class: &'static str,
    /// What the detail holds; empty for anything.
    detail: &'static str,
    reason: &'static str,
}

impl Allowance {
    fn covers(&self, file: &str, class: &str, detail: &str) -> bool {
        file.starts_with(self.file) && class == self.class && detail.contains(self.detail)
    }
}

const ALLOWANCES: &[Allowance] = &[Allowance {
    file: "",
    class: "libhdf5 refuses the layout",
    detail: "does not give the stored bytes",
    reason: "the C API gives compact elements with pointers only as memory, never as the bytes that are stored",
}];
