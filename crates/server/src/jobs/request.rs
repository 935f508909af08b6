//! Requests for jobs: parsed, checked, and converted into options of the library.

use std::collections::BTreeMap;

use axum::http::StatusCode;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};
use serde_json::{Map, Value, json};
use virtualize::{Code, Options, options::IcechunkOptions, zarr::ZarrFormat};
use virtualize_archive::{BatchOptions, Target};
use virtualize_store::Allowed;

use super::{labels, webhook::Webhook};
use crate::{
    Config, Problem,
    api::{OF_MAPPING, job_members},
    query,
};

/// Maximum length of any text, in bytes.
const LONGEST: usize = 8192;
/// Maximum number of names of one kind, such as dimensions.
const MOST: usize = 1000;
/// Maximum number of properties of a commit.
const MOST_PROPERTIES: usize = 100;
/// Maximum bytes per file of an array that a job may copy.
const MOST_COPIED: u64 = 16 << 20;

/// The kind of a job.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Kind {
    Scan,
    Batch,
}

/// The body of a request for a job. Members have the names of the command's flags.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) kind: Kind,
    pub(crate) options: BatchOptions,
    /// URL to write to; `None` if the result is kept to be fetched.
    pub(crate) output: Option<String>,
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) webhook: Option<Webhook>,
    /// All members as sent by the client, with the output in canonical form.
    members: Map<String, Value>,
}

impl Request {
    /// Parses the body of a request.
    pub(crate) fn read(body: &Value) -> Result<Self, Problem> {
        let members = Map::deserialize(body).map_err(|error| Problem::parameter("body", error))?;
        Self::of_members(members)
    }

    /// Parses members, which must be among those of the API's description. The service itself sets the others of
    /// [`BatchOptions`], such as the path of a journal.
    fn of_members(mut members: Map<String, Value>) -> Result<Self, Problem> {
        members.retain(|_, value| !value.is_null());
        for (name, value) in &members {
            let shown: String = name.chars().take(40).collect();
            if !job_members().contains(name) {
                return Err(Problem::parameter(&shown, "is not a member of a request for a job"));
            }
            if !are_short(value) {
                return Err(Problem::parameter(&shown, format!("expected texts of at most {LONGEST} bytes")));
            }
        }
        let kind = members.get("kind").ok_or_else(|| Problem::parameter("kind", "is missing"))?;
        let kind = Kind::deserialize(kind).map_err(|error| Problem::parameter("kind", error))?;
        let output: Option<String> = members
            .get("output")
            .map(Deserialize::deserialize)
            .transpose()
            .map_err(|error| Problem::parameter("output", error))?;
        let mut options: BatchOptions = query::deserialize(members.clone(), str::to_owned)?;
        options.format.get_or_insert_default();
        let limit = &mut options.combine.layout.copy_limit;
        *limit = limit.map(|limit| limit.min(MOST_COPIED));
        let (labels, webhook) = (labels::read(&members)?, Webhook::read(&members)?);
        let output = output.filter(|output| !output.is_empty());
        Ok(Self { kind, options, output, labels, webhook, members })
    }

    /// Checks everything that can be checked before a file is read, and brings the output into canonical form.
    pub(crate) fn check(&mut self, config: &Config, allowed: &Allowed) -> Result<(), Problem> {
        let files = &self.options.files;
        if files.inputs.is_empty() && files.lists.is_empty() && files.stac.is_empty() {
            return Err(Problem::parameter("inputs", "is missing"));
        }
        for input in &files.inputs {
            check_input(input, allowed)?;
        }
        for document in files.lists.iter().chain(&files.stac) {
            url(document)?;
            allowed.check(document)?;
        }
        self.open_options(config, allowed)?;
        self.check_names()?;
        self.check_combination()?;
        self.check_commit()?;
        if let Some(webhook) = &self.webhook {
            webhook.check(config)?;
        }
        self.check_output(config)
    }

    /// Checks the lists of names: bounded, and without empty names.
    fn check_names(&self) -> Result<(), Problem> {
        let layout = &self.options.combine.layout;
        for (name, names) in [
            ("concat_dim", &layout.concat_dim),
            ("stack_dim", &layout.stack_dim),
            ("concat_var", &layout.concat_var),
            ("assume_equal", &layout.assume_equal),
            ("optional_var", &layout.optional_var),
            ("asset", &self.options.files.asset),
        ] {
            if names.len() > MOST || names.iter().any(String::is_empty) {
                return Err(Problem::parameter(name, format!("expected at most {MOST} names, none empty")));
            }
        }
        Ok(())
    }

    /// Checks that the kind of job and the options to combine files agree.
    fn check_combination(&self) -> Result<(), Problem> {
        let layout = &self.options.combine.layout;
        let is_combined = !layout.concat_dim.is_empty() || !layout.stack_dim.is_empty();
        let each = |reason| Err(Problem::parameter("each", reason));
        match (self.kind, self.options.each) {
            (Kind::Batch, false) if !is_combined => {
                Err(Problem::parameter("concat_dim", "nothing says how to combine the files")
                    .hint("give concat_dim or stack_dim, or each for references of each file"))
            }
            (Kind::Batch, true) if is_combined => {
                each("writes references of each file, which concat_dim and stack_dim would combine")
            }
            (Kind::Batch, true) if self.is_committed() => each("a repository holds one dataset"),
            (Kind::Scan, true) => each("applies to batches only"),
            _ => Ok(()),
        }
    }

    /// Checks that commit options are used only for a commit, and are consistent.
    fn check_commit(&self) -> Result<(), Problem> {
        let commit = &self.options.icechunk;
        if !(self.kind == Kind::Batch && self.is_committed()) && *commit != IcechunkOptions::default() {
            let names = "branch, message, author, commit_property, group, replace, append_dim";
            return Err(Problem::parameter("format", format!("{names} are for format icechunk")));
        }
        if commit.replace && commit.append_dim.is_some() {
            return Err(Problem::parameter("append_dim", "cannot be combined with replace"));
        }
        match commit.commit_property.len() <= MOST_PROPERTIES {
            true => Ok(()),
            false => {
                Err(Problem::parameter("commit_property", format!("expected at most {MOST_PROPERTIES}")))
            }
        }
    }

    /// Checks that the job may write to its output, and replaces the URL by its canonical form.
    fn check_output(&mut self, config: &Config) -> Result<(), Problem> {
        let Some(output) = &self.output else { return Ok(()) };
        if self.kind == Kind::Scan {
            return Err(Problem::parameter(
                "output",
                "applies to batches only: the report of a scan is fetched",
            ));
        }
        let refused = |name: &str| {
            Problem::new(
                StatusCode::FORBIDDEN,
                Code::NotAllowed,
                format!("{name}: writing there is not allowed"),
            )
        };
        let Some(writable) = &config.allow_write else {
            return Err(refused("output").hint("the service was started without --allow-write"));
        };
        url(output)?;
        if output.starts_with("http") {
            return Err(Problem::parameter("output", "cannot be on a web server"));
        }
        let output = writable.check_output(output).map_err(|error| match error {
            virtualize::StoreError::NotAllowed { name } => refused(&name),
            other => other.into(),
        })?;
        self.members.insert("output".to_owned(), output.as_str().into());
        self.output = Some(output);
        Ok(())
    }

    /// Returns what a batch writes.
    pub(crate) fn target(&self) -> Target {
        self.options.target("").unwrap_or_default()
    }

    /// Returns whether the batch commits to a repository.
    fn is_committed(&self) -> bool {
        !matches!(self.target(), Target::References(_))
    }

    /// Returns whether the result is a folder.
    pub(crate) fn is_folder(&self) -> bool {
        let is_file = matches!(self.target(), Target::References(format) if !format.is_several_files());
        self.kind == Kind::Batch && (self.options.each || !is_file)
    }

    /// Returns how files are reached and mapped.
    pub(crate) fn open_options(&self, config: &Config, allowed: &Allowed) -> Result<Options, Problem> {
        let format = match self.kind {
            Kind::Scan => ZarrFormat::V3,
            Kind::Batch => self.target().zarr_format(),
        };
        let is_mapping =
            |name: &str| name != "format" && OF_MAPPING.contains(&name.replace('_', "-").as_str());
        let mapping = self.members.iter().filter(|(name, _)| is_mapping(name));
        let mapping = mapping.map(|(name, value)| (name.clone(), value.clone())).collect();
        query::options(mapping, str::to_owned, config, allowed, format)
    }
}

/// Serializes the members as sent, with the defaults of switches and lists.
impl Serialize for Request {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut members = self.members.clone();
        if self.output.is_none() {
            members.remove("output");
        }
        for name in ["inputs", "concat_dim", "stack_dim"] {
            members.entry(name).or_insert(json!([]));
        }
        for name in ["allow_holes", "fill_without_sentinel", "skip_failed", "each", "overwrite"] {
            members.entry(name).or_insert(json!(false));
        }
        members.entry("max_failures").or_insert(json!(0));
        members.entry("on_mismatch").or_insert(json!(self.options.combine.on_mismatch));
        members.entry("on_duplicate").or_insert(json!(self.options.combine.on_duplicate));
        members.serialize(to)
    }
}

impl<'de> Deserialize<'de> for Request {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let request = Self::of_members(Map::deserialize(from)?);
        request.map_err(|problem| D::Error::custom(problem.detail))
    }
}

/// Returns whether no text in a value is too long.
fn are_short(value: &Value) -> bool {
    match value {
        Value::String(text) => text.len() <= LONGEST,
        Value::Array(values) => values.iter().all(are_short),
        Value::Object(members) => {
            members.iter().all(|(name, value)| name.len() <= LONGEST && are_short(value))
        }
        _ => true,
    }
}

/// Checks that a text is a URL. Paths and standard input would be those of the service, and are refused.
fn url(text: &str) -> Result<(), Problem> {
    if text.len() > LONGEST || !text.contains("://") {
        let shown: String = text.chars().take(80).collect();
        let detail = format!("{shown}: expected a URL, such as s3://bucket/key or file:///path");
        return Err(Problem::new(StatusCode::BAD_REQUEST, Code::Url, detail));
    }
    Ok(())
}

/// Checks that an input may be read: a file, a whole folder, or everything below the part of a pattern that precedes
/// its first wildcard.
fn check_input(text: &str, allowed: &Allowed) -> Result<(), Problem> {
    url(text)?;
    let web = text.starts_with("http://") || text.starts_with("https://");
    let wild = if web { None } else { text.find(['*', '?', '[', '{']) };
    let literal = wild.and_then(|at| text.get(..at)).unwrap_or(text);
    let steps = |segment: &str| matches!(segment, "." | "..");
    if wild.is_some() && text.split('/').any(steps) {
        let detail = format!("{text}: the segments `.` and `..` are not allowed");
        return Err(Problem::new(StatusCode::BAD_REQUEST, Code::Url, detail));
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
    fn options_of_the_service_are_not_members() {
        for name in [
            "journal",
            "store_option",
            "bearer_token",
            "inline_total",
            "hdf5_reader",
            "rewrite_url",
            "relative",
            "newer",
            "list",
        ] {
            let body = format!(r#"{{"kind": "batch", "{name}": "x"}}"#);
            let problem = Request::read(&serde_json::from_str(&body).unwrap()).unwrap_err();
            assert_eq!(problem.detail, format!("{name}: is not a member of a request for a job"));
        }
    }

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
        let document: Value = serde_json::from_str(crate::api::DOCUMENT).unwrap();
        let described = document["components"]["schemas"]["JobRequest"]["properties"].as_object().unwrap();
        let example = |(name, schema): (&String, &Value)| {
            let example = schema["examples"].get(0).cloned();
            (name.clone(), example.unwrap_or_else(|| Value::from("zarr-python-3")))
        };
        let body: Map<String, Value> = described.iter().map(example).collect();
        let request = Request::read(&Value::Object(body.clone())).unwrap();
        assert_eq!(serde_json::to_value(&request).unwrap(), Value::Object(body.clone()));
        let of_mapping: Vec<_> = OF_MAPPING.into_iter().filter(|name| *name != "format").collect();
        assert!(of_mapping.iter().all(|name| body.contains_key(&name.replace('-', "_"))));
        assert!(request.check_names().is_ok() && request.is_committed());
    }
}
