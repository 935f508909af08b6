use std::fmt;

use serde::{Deserialize, Serialize};

/// Declares an enumeration with the text of each variant, so that a text is written once.
macro_rules! names {
    ($(#[$attribute:meta])* $name:ident { $($variant:ident = $text:literal),* $(,)? }) => {
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize)]
        $(#[$attribute])*
        pub enum $name { $(#[serde(rename = $text)] $variant),* }

        impl $name {
            /// Every variant.
            pub const ALL: &[Self] = &[$(Self::$variant),*];

            /// Returns the text, which is also the serialized form.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text),* }
            }
        }
    };
}

names! {
    /// Stable code of a diagnostic or an error, such as `fill-value-dropped`. The troubleshooting page has a section for each.
    #[allow(missing_docs, reason = "the troubleshooting page documents each code")]
    Code {
        // Diagnostics of the mapping.
        ArrayChanged = "array-changed",
        ArrayMemberAsFields = "array-member-as-fields",
        ArrayOmitted = "array-omitted",
        ArrayNotPadded = "array-not-padded",
        ArrayPadded = "array-padded",
        AttributeOmitted = "attribute-omitted",
        AttributeUnreadable = "attribute-unreadable",
        ChunkGrid = "chunk-grid",
        ChunksInlined = "chunks-inlined",
        DatatypeOmitted = "datatype-omitted",
        DimensionRenamed = "dimension-renamed",
        FillValueDropped = "fill-value-dropped",
        FillValueMasked = "fill-value-masked",
        HdfEosGrid = "hdf-eos-grid",
        InlineFailed = "inline-failed",
        InlineLimit = "inline-limit",
        InlineTotal = "inline-total",
        KeyIgnored = "key-ignored",
        LinkCycle = "link-cycle",
        LinkOmitted = "link-omitted",
        MissingValueAsFillValue = "missing-value-as-fill-value",
        MissingValueConvention = "missing-value-convention",
        MissingValueDropped = "missing-value-dropped",
        NameChanged = "name-changed",
        NameCollision = "name-collision",
        NodataAdjusted = "nodata-adjusted",
        NodataDisagrees = "nodata-disagrees",
        NodataDropped = "nodata-dropped",
        NodeOmitted = "node-omitted",
        NotUnpacked = "not-unpacked",
        OmeSeries = "ome-series",
        OmeZarr = "ome-zarr",
        PackingWidened = "packing-widened",
        RaggedArray = "ragged-array",
        ReaderAdapted = "reader-adapted",
        ReaderLacks = "reader-lacks",
        ReferenceAsPath = "reference-as-path",
        ReferencePart = "reference-part",
        RelativeUrl = "relative-url",
        RootUnreadable = "root-unreadable",
        SegmentsIgnored = "segments-ignored",
        SidecarNotUsed = "sidecar-not-used",
        SourceMissing = "source-missing",
        TiffChain = "tiff-chain",
        TiffCrs = "tiff-crs",
        TiffImage = "tiff-image",
        TiffJpeg = "tiff-jpeg",
        TiffLerc = "tiff-lerc",
        TiffLercMask = "tiff-lerc-mask",
        TiffMalformed = "tiff-malformed",
        TiffNoSuchIfd = "tiff-no-such-ifd",
        TiffSidecar = "tiff-sidecar",
        TiffStack = "tiff-stack",
        TiffTag = "tiff-tag",
        TiffTruncated = "tiff-truncated",
        TiffUnsupported = "tiff-unsupported",
        TiffVerticalCrs = "tiff-vertical-crs",
        TooLarge = "too-large",
        TooManyNodes = "too-many-nodes",
        UnpackNeedsV3 = "unpack-needs-v3",
        // Errors, by class.
        ChunksUnreadable = "chunks-unreadable",
        FileLimit = "file-limit",
        FileMalformed = "file-malformed",
        FileTruncated = "file-truncated",
        FileUnsupported = "file-unsupported",
        Format = "format",
        Icechunk = "icechunk",
        NoRanges = "no-ranges",
        NotAFile = "not-a-file",
        NotAllowed = "not-allowed",
        OutputExists = "output-exists",
        OutputFailed = "output-failed",
        OutputLocked = "output-locked",
        ReferencesInvalid = "references-invalid",
        SourceChanged = "source-changed",
        SourceDenied = "source-denied",
        SourceNotFound = "source-not-found",
        SourceRegion = "source-region",
        SourceUnavailable = "source-unavailable",
        Strict = "strict",
        Url = "url",
        Usage = "usage",
        ValuesUnreadable = "values-unreadable",
        // Errors of archives.
        Combine = "combine",
        Failures = "failures",
        FilesReplaced = "files-replaced",
        FilesVanished = "files-vanished",
        Internal = "internal",
        Journal = "journal",
        Listing = "listing",
        Mismatch = "mismatch",
        OutputNotInJournal = "output-not-in-journal",
        Shards = "shards",
        Stopped = "stopped",
        // Warnings of the Python package only.
        CodecNameClash = "codec-name-clash",
        // Errors of the service only.
        Busy = "busy",
        ChunkSize = "chunk-size",
        File = "file",
        FormatRepository = "format-repository",
        Host = "host",
        Method = "method",
        NotFound = "not-found",
        NotPlain = "not-plain",
        NotReady = "not-ready",
        Parameter = "parameter",
        Range = "range",
        Scope = "scope",
        Time = "time",
        Token = "token",
    }
}

names! {
    /// An option that a remedy may name. The command writes `--allow-holes`, JSON and Python `allow_holes`.
    #[derive(Deserialize)]
    #[allow(missing_docs, reason = "the names are those of the command's options, documented in docs/cli.md")]
    OptionName {
        AllowHoles = "allow_holes",
        Anonymous = "anonymous",
        Append = "append",
        Asset = "asset",
        BearerToken = "bearer_token",
        ChunkGrid = "chunk_grid",
        ComplexIntegers = "complex_integers",
        ConcatDim = "concat_dim",
        Coord = "coord",
        CopyLimit = "copy_limit",
        Each = "each",
        FollowExternal = "follow_external",
        Format = "format",
        Full = "full",
        Group = "group",
        Hdf5Reader = "hdf5_reader",
        Inline = "inline",
        InlineLimit = "inline_limit",
        InlineTotal = "inline_total",
        Journal = "journal",
        OnChange = "on_change",
        OnDuplicate = "on_duplicate",
        OnFailure = "on_failure",
        OnMismatch = "on_mismatch",
        Overwrite = "overwrite",
        Ragged = "ragged",
        RelativeTo = "relative_to",
        ReplaceGroup = "replace_group",
        Restart = "restart",
        Shard = "shard",
        StackDim = "stack_dim",
        StoreOption = "store_option",
        Strict = "strict",
        Unpack = "unpack",
        Var = "var",
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
