use std::{fmt, num::NonZeroU32, str::FromStr, sync::LazyLock};

use serde::{Deserialize, Deserializer, de::Error as _};
use virtualize_references::{Format, MAX_RECORDS};
use virtualize_zarr::ZarrFormat;

use super::value::{self, InvalidValue};
use crate::relocate::{Relocation, Rewrite};

/// An output format, selected by name: references, or a commit to a repository.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OutputFormat {
    /// References in one file or in several.
    References(Format),
    /// A commit to an Icechunk repository.
    Icechunk,
}

impl OutputFormat {
    /// Returns every format, the default first.
    pub fn all() -> &'static [Self] {
        static ALL: LazyLock<Vec<OutputFormat>> = LazyLock::new(|| {
            let formats = Format::ALL.into_iter().map(OutputFormat::References);
            let formats = formats.chain([OutputFormat::Icechunk]);
            formats.collect()
        });
        &ALL
    }

    /// Returns the name that options and queries use, such as `kerchunk-json`.
    pub fn name(self) -> &'static str {
        match self {
            Self::References(format) => format.name(),
            Self::Icechunk => "icechunk",
        }
    }

    /// Returns the format that the extension of an output selects: `.json`, `.parquet`, `.parq`, `.zarr`, `.icechunk`.
    pub fn of_name(output: &str) -> Option<Self> {
        let (_, extension) = output.trim_end_matches('/').rsplit_once('.')?;
        let extension = extension.to_ascii_lowercase();
        if extension == "icechunk" {
            return Some(Self::Icechunk);
        }
        Format::from_extension(&extension).map(Self::References)
    }

    /// Returns the Zarr format that files are mapped for.
    pub fn zarr_format(self) -> ZarrFormat {
        match self {
            Self::References(format) => format.zarr_format(),
            Self::Icechunk => ZarrFormat::V3,
        }
    }
}

impl Default for OutputFormat {
    fn default() -> Self {
        Self::References(Format::KERCHUNK_JSON)
    }
}

impl fmt::Display for OutputFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for OutputFormat {
    type Err = InvalidValue;

    fn from_str(text: &str) -> Result<Self, InvalidValue> {
        let found = Self::all().iter().find(|format| format.name() == text).copied();
        found.ok_or_else(|| {
            let names: Vec<_> = Self::all().iter().map(|format| format.name()).collect();
            InvalidValue::one_of(text, &names)
        })
    }
}

impl<'de> Deserialize<'de> for OutputFormat {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        String::deserialize(from)?.parse().map_err(D::Error::custom)
    }
}

#[cfg(feature = "clap")]
impl clap::ValueEnum for OutputFormat {
    fn value_variants<'a>() -> &'a [Self] {
        Self::all()
    }

    fn to_possible_value(&self) -> Option<clap::builder::PossibleValue> {
        let summary = match self {
            Self::References(format) => format.summary(),
            Self::Icechunk => "A commit to an Icechunk repository (-o names its folder or prefix)",
        };
        Some(clap::builder::PossibleValue::new(self.name()).help(summary))
    }
}

/// How references are written.
#[derive(Clone, PartialEq, Debug, Default, Deserialize)]
#[serde(default)]
#[cfg_attr(feature = "clap", derive(clap::Args), command(next_help_heading = "Output options"))]
pub struct WriteOptions {
    /// Replace an existing output that is a folder or prefix
    ///
    /// A folder or prefix that contains anything else is never replaced. A single JSON file always is, another file never.
    #[cfg_attr(feature = "clap", arg(long, requires = "output"))]
    pub overwrite: bool,
    /// Rows per Parquet file (kerchunk-parquet) [default: 100000]
    ///
    /// With more rows, readers send fewer requests, but read more bytes for a single chunk.
    #[cfg_attr(feature = "clap", arg(long, hide = true, value_name = "N", value_parser = parse_record_size))]
    #[serde(deserialize_with = "record_size")]
    pub record_size: Option<NonZeroU32>,
    /// Replace the prefix FROM of source URLs with TO in the output; may be repeated
    ///
    /// FROM and TO are URLs, or paths, which stand for their file:// URLs. The longest matching FROM applies. Files are
    /// read under their original URLs.
    #[cfg_attr(feature = "clap", arg(long, value_name = "FROM=TO", value_parser = Rewrite::parse))]
    #[serde(deserialize_with = "rewrites")]
    pub rewrite_url: Vec<Rewrite>,
    /// Write source URLs relative to the output's folder; sources must be in that folder or below
    #[cfg_attr(feature = "clap", arg(long, requires = "output", conflicts_with = "rewrite_url"))]
    pub relative: bool,
}

impl WriteOptions {
    /// Returns `format` with its options.
    pub fn format(&self, format: Format) -> Format {
        self.record_size.map_or(format, |size| format.with_record_size(size))
    }

    /// Returns how source URLs are written to an output at `target`, a path or URL.
    pub fn relocation(&self, target: Option<&str>) -> Relocation {
        match target {
            Some(target) if self.relative => Relocation::RelativeTo(target.to_owned()),
            _ if self.rewrite_url.is_empty() => Relocation::Keep,
            _ => {
                // The order has no meaning, and a JSON object has none.
                let mut rules = self.rewrite_url.clone();
                rules.sort();
                Relocation::Rewrite(rules)
            }
        }
    }
}

/// Deserializes rules from an object: `{"/data": "s3://bucket/data"}`.
pub(super) fn rewrites<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<Rewrite>, D::Error> {
    let rules = value::pairs(from)?;
    rules.iter().map(|(from, to)| Rewrite::new(from, to).map_err(D::Error::custom)).collect()
}

fn parse_record_size(text: &str) -> Result<NonZeroU32, InvalidValue> {
    let size = text.parse().ok().filter(|size: &NonZeroU32| size.get() <= MAX_RECORDS);
    size.ok_or_else(|| InvalidValue::expected(format!("a number from 1 to {MAX_RECORDS}")))
}

fn record_size<'de, D: Deserializer<'de>>(from: D) -> Result<Option<NonZeroU32>, D::Error> {
    parse_record_size(&value::scalar(from)?).map(Some).map_err(D::Error::custom)
}

/// The destination and message of a commit to an Icechunk repository.
#[derive(Clone, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(default)]
#[cfg_attr(feature = "clap", derive(clap::Args), command(next_help_heading = "Icechunk options"))]
pub struct IcechunkOptions {
    /// Branch to commit to [default: main]
    #[cfg_attr(feature = "clap", arg(long, value_name = "NAME"))]
    pub branch: Option<String>,
    /// Commit message [default: names the source]
    #[cfg_attr(feature = "clap", arg(long, value_name = "TEXT"))]
    pub message: Option<String>,
    /// Commit author
    #[cfg_attr(feature = "clap", arg(long, hide = true, value_name = "NAME"))]
    pub author: Option<String>,
    /// Additional commit property; may be repeated
    #[cfg_attr(
        feature = "clap",
        arg(long, hide = true, value_name = "KEY=VALUE", value_parser = value::parse_pair)
    )]
    #[serde(deserialize_with = "value::pairs")]
    pub commit_property: Vec<(String, String)>,
    /// Group of the repository to write to [default: its root]
    #[cfg_attr(feature = "clap", arg(long, value_name = "PATH"))]
    pub group: Option<String>,
    /// Remove the group and everything below it first
    #[cfg_attr(feature = "clap", arg(long))]
    pub replace_group: bool,
}

impl IcechunkOptions {
    /// Refuses options of a commit if the output is not an Icechunk repository.
    ///
    /// # Errors
    /// The reason, if an option is given.
    pub fn check(&self, is_icechunk: bool) -> Result<(), &'static str> {
        if is_icechunk || *self == Self::default() {
            return Ok(());
        }
        Err(
            "branch, message, author, commit-property, group and replace-group need an Icechunk repository as output",
        )
    }
}

#[cfg(feature = "full")]
impl IcechunkOptions {
    /// Returns the library's options for a commit of `source`, which the default message names.
    pub fn options(&self, source: &str) -> crate::CommitOptions {
        use crate::commit::{CommitOptions, Mode};

        let defaults = CommitOptions::default();
        let author = self.author.iter().map(|author| ("author".to_owned(), author.clone()));
        CommitOptions {
            branch: self.branch.clone().unwrap_or(defaults.branch),
            message: self.message.clone().unwrap_or_else(|| format!("virtual references of {source}")),
            properties: author.chain(self.commit_property.iter().cloned()).collect(),
            group: self.group.clone().unwrap_or_default(),
            mode: if self.replace_group { Mode::Replace } else { Mode::Add },
            ..CommitOptions::default()
        }
    }
}
