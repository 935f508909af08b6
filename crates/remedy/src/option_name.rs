use serde::{Deserialize, Serialize};

/// Declares [`OptionName`] with the name of each option, so that a name is written once.
macro_rules! option_names {
    ($($variant:ident = $name:literal),* $(,)?) => {
        /// An option that a remedy may name. The command writes `--allow-holes`, JSON and Python `allow_holes`.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        #[allow(missing_docs, reason = "the names are those of the command's options, documented in docs/cli.md")]
        pub enum OptionName { $($variant),* }

        impl OptionName {
            /// Every option that a remedy may name.
            pub const ALL: &[Self] = &[$(Self::$variant),*];

            /// Returns the name in snake case, such as `allow_holes`.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $name),* }
            }
        }
    };
}

option_names! {
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
