//! What a job is to do: read, checked, and turned into options of the library.

use std::{collections::BTreeMap, num::NonZeroU32};

use axum::http::StatusCode;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use virtualize::{Format, Options, zarr::ZarrFormat};
use virtualize_archive::{
    Layout, Target,
    combine::{NamePattern, OnDuplicate, OnMismatch, PlanOptions},
    list::{Assets, Filter, Input},
};
use virtualize_store::Allowed;

use super::commit::Commit;
use crate::{Config, Problem, query::Parameters};

/// Longest url or pattern, in bytes.
const LONGEST: usize = 8192;
/// Most dimensions, and most names of arrays.
const MOST: usize = 1000;
/// Most chunks of a Parquet file.
const MOST_RECORDS: u32 = 10_000_000;

/// What a job does.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Kind {
    Scan,
    Batch,
}

/// The body of a request for a job. Members have the names of the commands' flags.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(crate) struct Request {
    pub(crate) kind: Kind,
    /// Urls of files, folders, or patterns.
    #[serde(default)]
    pub(crate) inputs: Vec<String>,
    /// Urls of lists of files.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    lists: Vec<String>,
    /// Urls of STAC documents.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    stac: Vec<String>,
    /// Keys of assets of STAC items.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    asset: Vec<String>,
    /// A pattern for names of files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    include: Option<String>,
    #[serde(default)]
    concat_dim: Vec<String>,
    #[serde(default)]
    stack_dim: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    concat_var: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    assume_equal: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    optional_var: Vec<String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    coord_from_attribute: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    coord_from_property: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    coord_from_name: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    copy_limit: Option<u64>,
    #[serde(default)]
    on_mismatch: OnMismatch,
    #[serde(default)]
    on_duplicate: OnDuplicate,
    #[serde(default)]
    allow_holes: bool,
    #[serde(default)]
    fill_without_sentinel: bool,
    #[serde(default)]
    pub(crate) max_failures: u64,
    #[serde(default)]
    pub(crate) skip_failed: bool,
    /// References of each file instead of one dataset.
    #[serde(default)]
    pub(crate) each: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    format: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    record_size: Option<NonZeroU32>,
    /// Where it is written, instead of being kept to be fetched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) output: Option<String>,
    /// A folder that is there is replaced.
    #[serde(default)]
    pub(crate) overwrite: bool,
    #[serde(flatten)]
    commit: Commit,
    /// Options of mapping: all that is left.
    #[serde(flatten)]
    mapping: Map<String, Value>,
}

impl Request {
    /// Reads the body of a request.
    pub(crate) fn read(body: &[u8]) -> Result<Self, Problem> {
        let mut request: Self =
            serde_json::from_slice(body).map_err(|error| Problem::parameter("body", error))?;
        request.output = request.output.filter(|output| !output.is_empty());
        Ok(request)
    }

    /// Checks all that can be checked before anything is read. The output gets its canonical form.
    pub(crate) fn check(&mut self, config: &Config, allowed: &Allowed) -> Result<(), Problem> {
        if self.inputs.is_empty() && self.lists.is_empty() && self.stac.is_empty() {
            return Err(Problem::parameter("inputs", "is missing"));
        }
        for input in &self.inputs {
            check_input(input, allowed)?;
        }
        for document in self.lists.iter().chain(&self.stac) {
            url(document)?;
            allowed.check(document)?;
        }
        self.options(config, allowed)?;
        let layout = self.layout()?;
        match (self.kind, self.each, layout.along.is_empty()) {
            (Kind::Batch, false, true) => {
                return Err(Problem::parameter("concat_dim", "how are the files put together?")
                    .hint("give concat_dim, stack_dim, or each for references of each file"));
            }
            (Kind::Batch, true, false) => {
                return Err(Problem::parameter(
                    "each",
                    "makes references of each file, concat_dim and stack_dim one of all",
                ));
            }
            (Kind::Scan, true, _) => return Err(Problem::parameter("each", "is for batches")),
            _ => {}
        }
        self.commit.check(self.kind == Kind::Batch && self.is_committed())?;
        if self.each && self.is_committed() {
            return Err(Problem::parameter("each", "a repository holds one dataset"));
        }
        self.check_output(config)
    }

    fn check_output(&mut self, config: &Config) -> Result<(), Problem> {
        let Some(output) = &self.output else { return Ok(()) };
        if self.kind == Kind::Scan {
            return Err(Problem::parameter("output", "is for batches; the report of a scan is fetched"));
        }
        let refused = |name: &str| {
            Problem::new(StatusCode::FORBIDDEN, "not-allowed", format!("{name}: may not be written here"))
        };
        let Some(writable) = &config.allow_write else {
            return Err(refused("output").hint("the service was started without --allow-write"));
        };
        url(output)?;
        if output.starts_with("http") {
            return Err(Problem::parameter("output", "web servers are not written to"));
        }
        let output = writable.check_output(output).map_err(|error| match error {
            virtualize::StoreError::NotAllowed { name } => refused(&name),
            other => other.into(),
        })?;
        self.output = Some(output);
        Ok(())
    }

    /// What is written.
    pub(crate) fn target(&self) -> Result<Target, Problem> {
        #[cfg(feature = "icechunk")]
        if self.is_committed() {
            return Ok(Target::Icechunk(self.commit.options()));
        }
        self.references().map(Target::References)
    }

    fn is_committed(&self) -> bool {
        cfg!(feature = "icechunk") && self.format.as_deref() == Some("icechunk")
    }

    fn references(&self) -> Result<Format, Problem> {
        let record_size = self.record_size.unwrap_or(Format::RECORD_SIZE);
        if record_size.get() > MOST_RECORDS {
            return Err(Problem::parameter("record_size", format!("expected at most {MOST_RECORDS}")));
        }
        match self.format.as_deref() {
            None | Some("kerchunk-json") => Ok(Format::KerchunkJson),
            Some("zarr3-json") => Ok(Format::Zarr3Json),
            Some("kerchunk-parquet") => Ok(Format::KerchunkParquet { record_size }),
            Some("zarr3") => Ok(Format::Zarr3),
            Some(_) => Err(Problem::parameter(
                "format",
                "expected kerchunk-json, zarr3-json, kerchunk-parquet, zarr3 or icechunk",
            )),
        }
    }

    /// Whether the result is a folder.
    pub(crate) fn is_folder(&self) -> bool {
        let is_one = self.references().is_ok_and(|format| !format.is_several_files());
        self.kind == Kind::Batch && (self.each || !is_one)
    }

    /// How files are reached and mapped.
    pub(crate) fn options(&self, config: &Config, allowed: &Allowed) -> Result<Options, Problem> {
        let format = match self.kind {
            Kind::Scan => ZarrFormat::V3,
            Kind::Batch => self.target()?.zarr_format(),
        };
        Parameters::of_members(&self.mapping)?.options(config, allowed, format)
    }

    /// How files become one dataset.
    pub(crate) fn layout(&self) -> Result<Layout, Problem> {
        for (name, names) in [
            ("concat_dim", &self.concat_dim),
            ("stack_dim", &self.stack_dim),
            ("concat_var", &self.concat_var),
            ("assume_equal", &self.assume_equal),
            ("optional_var", &self.optional_var),
            ("asset", &self.asset),
        ] {
            if names.len() > MOST || names.iter().any(|name| name.is_empty() || name.len() > LONGEST) {
                return Err(Problem::parameter(name, format!("expected at most {MOST} names")));
            }
        }
        let names = self.coord_from_name.as_deref().filter(|pattern| pattern.len() <= LONGEST);
        let names = names.map(str::parse::<NamePattern>).transpose();
        let set = |names: &[String]| names.iter().cloned().collect();
        Ok(Layout {
            concat_vars: set(&self.concat_var),
            assume_equal: set(&self.assume_equal),
            optional: set(&self.optional_var),
            coordinate_attributes: self.coord_from_attribute.clone(),
            coordinate_properties: self.coord_from_property.clone(),
            names: names.map_err(|error| Problem::parameter("coord_from_name", error))?,
            rectilinear: self.mapping.get("chunk_grid").is_some_and(|grid| grid == "rectilinear"),
            inline_limit: self.copy_limit.map_or(Layout::INLINE_LIMIT, |limit| limit.min(16 << 20)),
            ..Layout::of_dimensions(&self.stack_dim, &self.concat_dim)
        })
    }

    /// What is done with files that do not fit.
    pub(crate) fn plan(&self) -> PlanOptions {
        PlanOptions {
            on_mismatch: self.on_mismatch,
            on_duplicate: self.on_duplicate,
            allow_holes: self.allow_holes,
            fill_without_sentinel: self.fill_without_sentinel,
            ..PlanOptions::default()
        }
    }

    /// What names the files.
    pub(crate) fn files(&self) -> Vec<Input> {
        let files = self.inputs.iter().cloned().map(Input::Files);
        let lists = self.lists.iter().cloned().map(Input::List);
        files.chain(lists).chain(self.stac.iter().cloned().map(Input::Stac)).collect()
    }

    /// Those of them that are wanted.
    pub(crate) fn filter(&self) -> Filter {
        Filter { name: self.include.clone(), ..Filter::default() }
    }

    /// Assets that are wanted.
    pub(crate) fn assets(&self) -> Assets {
        Assets { keys: self.asset.clone(), ..Assets::default() }
    }
}

/// Paths and standard input are the service's own.
fn url(text: &str) -> Result<(), Problem> {
    if text.len() > LONGEST || !text.contains("://") {
        let shown: String = text.chars().take(80).collect();
        let detail = format!("{shown}: expected a url, such as s3://bucket/key or file:///path");
        return Err(Problem::new(StatusCode::BAD_REQUEST, "url", detail));
    }
    Ok(())
}

/// Whether what an input names can be read: a file, all of a folder, or of a pattern what stands before its wildcards.
fn check_input(text: &str, allowed: &Allowed) -> Result<(), Problem> {
    url(text)?;
    let web = text.starts_with("http://") || text.starts_with("https://");
    let wild = if web { None } else { text.find(['*', '?', '[', '{']) };
    let literal = wild.and_then(|at| text.get(..at)).unwrap_or(text);
    let steps = |segment: &str| matches!(segment, "." | "..");
    if wild.is_some() && text.split('/').any(steps) {
        let detail = format!("{text}: `.` and `..` are not followed");
        return Err(Problem::new(StatusCode::BAD_REQUEST, "url", detail));
    }
    match (wild, literal.rsplit_once('/')) {
        (Some(_), Some((folder, _))) | (None, Some((folder, ""))) => allowed.check(&format!("{folder}/x"))?,
        _ => allowed.check(literal)?,
    };
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inputs_are_held_against_what_is_allowed() {
        let allowed = Allowed::parse(["s3://bucket/a/", "https://host/a/"]).unwrap();
        for good in [
            "s3://bucket/a/x.nc",
            "s3://bucket/a/",
            "s3://bucket/a/*.nc",
            "s3://bucket/a/20{24,25}/**/*.nc",
            "https://host/a/x.nc",
        ] {
            assert_eq!(check_input(good, &allowed), Ok(()), "{good}");
        }
        for bad in [
            "",
            "-",
            "*",
            "/etc/passwd",
            "../x",
            "s3://bucket/*",
            "s3://*/a/x",
            "s3://bucket/a*/x",
            "s3://bucket/{a,b}/x",
            "s3://bucket/a/*/../../b/*",
            "s3://bucket/a/../b/*",
            "s3://bucket/",
            "s3://bucket/b/x",
            "https://host/b/x",
            "https://host/b/*",
            "file:///etc/*",
            "file:///etc/",
        ] {
            assert!(check_input(bad, &allowed).is_err(), "{bad}");
        }
    }

    /// All members that are described are known, and the other way round.
    #[test]
    fn members_are_those_of_the_description() {
        let document: Value = serde_json::from_str(crate::openapi::DOCUMENT).unwrap();
        let described = document["components"]["schemas"]["JobRequest"]["properties"].as_object().unwrap();
        let example = |(name, schema): (&String, &Value)| {
            let example = schema["examples"].get(0).cloned();
            (name.clone(), example.unwrap_or_else(|| Value::from("zarr-python-3")))
        };
        let body: Map<String, Value> = described.iter().map(example).collect();
        let request = Request::read(Value::Object(body.clone()).to_string().as_bytes()).unwrap();
        assert_eq!(serde_json::to_value(&request).unwrap(), Value::Object(body));
        let unknown: Vec<_> = request
            .mapping
            .keys()
            .filter(|name| !crate::query::OF_MAPPING.contains(&name.replace('_', "-").as_str()))
            .collect();
        assert!(unknown.is_empty(), "{unknown:?}");
        assert_eq!(request.mapping.len(), crate::query::OF_MAPPING.len() - 1, "all but format");
        assert!(request.layout().is_ok() && request.target().is_ok());
    }
}
