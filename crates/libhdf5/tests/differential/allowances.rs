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

const ALLOWANCES: &[Allowance] = &[
    Allowance {
        file: "",
        class: "libhdf5 refuses the layout",
        detail: "does not give the stored bytes",
        reason: "the C API gives compact elements with pointers only as memory, never as the bytes that are stored",
    },
    Allowance {
        file: "brtnfld+hdf5/tools__test__h5dump__testfiles__vds__",
        class: "extent of a virtual dataset",
        detail: "",
        reason: "the library computes the extent of an unlimited virtual dataset from its source files, which lie elsewhere; ours is the stored one",
    },
    Allowance {
        file: "jamesmudd+jhdf/",
        class: "libhdf5 refuses attributes",
        detail: "global heap size is too small",
        reason: "the library refuses global heap collections under 4096 bytes, ours reads them",
    },
    Allowance {
        file: "brtnfld+hdf5/test__testfiles__cve_2020_10810.h5",
        class: "libhdf5 refuses the file",
        detail: "",
        reason: "the damage is in what the superblock extension says of free space, which no reader needs",
    },
    Allowance {
        file: "brtnfld+hdf5/test__testfiles__tmisc38",
        class: "libhdf5 refuses the object",
        detail: "H5Pset_relax_file_integrity_checks",
        reason: "a heuristic of HDF5 2 that can be switched off: a number with many unused bits is taken for damage",
    },
    Allowance {
        file: "brtnfld+hdf5/tools__test__h5stat__testfiles__h5stat_err_old_layout.h5",
        class: "libhdf5 refuses the object",
        detail: "dimensionality",
        reason: "the layout message is damaged: the library refuses the dataset, ours its layout",
    },
];
