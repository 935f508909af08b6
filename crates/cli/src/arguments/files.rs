//! Which files: for the commands that take many.

use clap::Args;
use virtualize_archive::list::{Assets, Filter, Input, parse_time};

use super::byte_size;

/// Which files.
#[derive(Args, Clone)]
#[command(next_help_heading = "Which files")]
pub(crate) struct Files {
    /// Files, folders, prefixes that end in /, or patterns such as 's3://bucket/era5/**/*.nc'
    #[arg(value_name = "INPUT", required_unless_present_any = ["lists", "stac"])]
    inputs: Vec<String>,
    /// A file with a path or url a line, or JSON lines with url, size, etag and modified; - for standard input; may be
    /// repeated
    #[arg(long = "list", value_name = "FILE")]
    lists: Vec<String>,
    /// A STAC item, item collection, collection or catalogue; may be repeated
    #[arg(long, value_name = "LOCATION")]
    stac: Vec<String>,
    /// Read the assets of STAC items that have this key; may be repeated
    #[arg(long = "asset", value_name = "KEY", requires = "stac")]
    asset_keys: Vec<String>,
    /// Read the assets of STAC items that have this role; may be repeated
    #[arg(long = "asset-role", value_name = "ROLE", requires = "stac")]
    asset_roles: Vec<String>,
    /// Read assets where their alternate of this name says, such as s3
    #[arg(long, value_name = "NAME", requires = "stac")]
    asset_alternate: Option<String>,
    /// Take files of such names only: a pattern, for the end of the path where it has a /
    #[arg(long, value_name = "PATTERN")]
    include: Option<String>,
    /// Take files of at least SIZE bytes only
    #[arg(long, value_name = "SIZE", value_parser = byte_size)]
    min_size: Option<u64>,
    /// Take files of at most SIZE bytes only
    #[arg(long, value_name = "SIZE", value_parser = byte_size)]
    max_size: Option<u64>,
    /// Take files only that were modified at TIME or later (2024-02-29, or with a time as in RFC 3339)
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    newer: Option<i64>,
    /// Take files only that were modified before TIME
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    older: Option<i64>,
}

impl Files {
    /// What names the files.
    pub(crate) fn inputs(&self) -> Vec<Input> {
        let files = self.inputs.iter().cloned().map(Input::Files);
        let lists = self.lists.iter().cloned().map(Input::List);
        files.chain(lists).chain(self.stac.iter().cloned().map(Input::Stac)).collect()
    }

    /// Those of them that are wanted.
    pub(crate) fn filter(&self) -> Filter {
        Filter {
            name: self.include.clone(),
            min_size: self.min_size,
            max_size: self.max_size,
            since: self.newer,
            before: self.older,
        }
    }

    /// Assets that are wanted.
    pub(crate) fn assets(&self) -> Assets {
        Assets {
            keys: self.asset_keys.clone(),
            roles: self.asset_roles.clone(),
            alternate: self.asset_alternate.clone(),
            ..Assets::default()
        }
    }
}
