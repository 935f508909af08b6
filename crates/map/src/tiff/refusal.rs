use virtualize_remedy::Remedy;

/// Why an image makes no array.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Refusal {
    /// Stable name of the kind of reason.
    pub(super) code: &'static str,
    /// What the file holds that cannot be said, in one line.
    pub(super) message: String,
    /// What the user can do.
    pub(super) remedy: Option<Remedy>,
    /// The user has to decide; else the image is merely left out.
    pub(super) is_error: bool,
}

impl Refusal {
    /// Something that no released reader decodes, or that Zarr cannot say.
    pub(super) fn unsupported(message: impl Into<String>) -> Self {
        Self { code: "tiff-unsupported", message: message.into(), remedy: None, is_error: false }
    }

    /// Something that contradicts itself.
    pub(super) fn malformed(message: impl Into<String>) -> Self {
        Self { code: "tiff-malformed", message: message.into(), remedy: None, is_error: false }
    }

    /// The file ends too early.
    pub(super) fn truncated(message: impl Into<String>) -> Self {
        Self { code: "tiff-truncated", message: message.into(), remedy: None, is_error: false }
    }
}
