//! Profiles of the AWS command line: `~/.aws/config` and `~/.aws/credentials`.
//! <https://docs.aws.amazon.com/sdkref/latest/guide/file-format.html>

use std::{
    collections::{BTreeMap, BTreeSet},
    env, fs, io,
    path::PathBuf,
};

use virtualize_remedy::alternatives;

use crate::{StoreError, StoreOptions};

/// Maximum bytes read from a file.
const LARGEST: u64 = 4 << 20;

/// Properties by lower-case name; a property of a nested block is named `block.name`.
type Section = BTreeMap<String, String>;
/// Sections by the text in brackets, with runs of blanks collapsed.
type Sections = BTreeMap<String, Section>;

/// The selected profile, or the default one.
#[derive(Debug)]
struct Profile {
    name: String,
    section: Section,
}

/// Why a profile cannot be used.
#[derive(Debug, thiserror::Error)]
enum ProfileError {
    #[error("there is no profile {name:?} in {files}{existing}")]
    NotFound { name: String, files: String, existing: String },
    #[error("{}: {error}", path.display())]
    Unreadable { path: PathBuf, error: io::Error },
    #[error("profile {name:?} has {present} but no {missing}")]
    HalfKey { name: String, present: &'static str, missing: &'static str },
    #[error(
        "profile {name:?} {method} ({key}), which is not supported: run eval \"$(aws configure export-credentials \
         --profile {name} --format env)\""
    )]
    Unsupported { name: String, method: &'static str, key: &'static str },
}

/// Option that selects a profile; not a key of `object_store`.
pub(crate) const OPTION: &str = "aws_profile";

/// Returns the settings that the profile adds to the options and the environment, by the keys of `object_store`. `name`
/// appears in messages.
///
/// # Errors
/// [`StoreError::Denied`] if the selected profile does not exist or uses an unsupported kind of credentials.
pub(crate) fn settings(name: &str, options: &StoreOptions) -> Result<Vec<(String, String)>, StoreError> {
    let given = Given { options };
    let denied =
        |error: ProfileError| StoreError::Denied { name: name.to_owned(), reason: error.to_string() };
    let chosen = given.find(&[OPTION, "aws_default_profile"]);
    let files = Files::read().map_err(denied)?;
    let Some(profile) = files.profile(chosen.as_deref().unwrap_or("default")) else {
        return match chosen {
            Some(name) if !given.has_credentials() => {
                let existing = alternatives("profiles", &name, files.profiles());
                Err(denied(ProfileError::NotFound { name, files: files.names(), existing }))
            }
            _ => Ok(Vec::new()),
        };
    };
    let mut settings = Vec::new();
    if given.find(&REGIONS).is_none() {
        settings.extend(profile.get("region").map(|region| ("aws_region", region)));
    }
    let ignored =
        env::var("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS").is_ok_and(|it| it.eq_ignore_ascii_case("true"));
    if options.endpoint.is_none() && given.find(&ENDPOINTS).is_none() && !ignored {
        settings.extend(files.endpoint(&profile).map(|endpoint| ("aws_endpoint", endpoint)));
    }
    if !given.has_credentials() {
        settings.extend(profile.credentials().map_err(denied)?);
    }
    Ok(settings.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect())
}

/// Returns whether the options or the environment set a region. A profile's region is only the initial guess.
pub(crate) fn says_region(options: &StoreOptions) -> bool {
    Given { options }.find(&REGIONS).is_some()
}

/// Names of the setting for the region.
const REGIONS: [&str; 4] = ["aws_region", "aws_default_region", "region", "default_region"];
/// Names of the setting for the endpoint.
const ENDPOINTS: [&str; 5] =
    ["aws_endpoint_url_s3", "aws_endpoint_url", "aws_endpoint", "endpoint_url", "endpoint"];
/// Names of settings that supply credentials.
const CREDENTIALS: [&str; 7] = [
    "aws_access_key_id",
    "access_key_id",
    "aws_secret_access_key",
    "secret_access_key",
    "aws_web_identity_token_file",
    "aws_container_credentials_relative_uri",
    "aws_container_credentials_full_uri",
];

/// Settings of the options and the environment.
struct Given<'a> {
    options: &'a StoreOptions,
}

impl Given<'_> {
    /// Returns a setting by any of its names, from the options or else the environment.
    fn find(&self, names: &[&str]) -> Option<String> {
        let said = self.options.values.iter();
        let mut said = said.filter(|(key, _)| names.contains(&key.to_ascii_lowercase().as_str()));
        let set = || {
            let variables = names.iter().filter(|name| name.starts_with("aws_"));
            variables.filter_map(|name| env::var(name.to_ascii_uppercase()).ok()).find(|it| !it.is_empty())
        };
        said.next().map(|(_, value)| value.clone()).or_else(set)
    }

    /// Returns whether credentials are set, or requests are unsigned.
    fn has_credentials(&self) -> bool {
        let unsigned = self.find(&["aws_skip_signature", "skip_signature", "aws_no_sign_request"]);
        let unsigned =
            unsigned.is_some_and(|it| matches!(it.to_ascii_lowercase().as_str(), "1" | "true" | "yes"));
        self.options.anonymous || unsigned || self.find(&CREDENTIALS).is_some()
    }
}

impl Profile {
    /// Returns a property that is not empty.
    fn get(&self, key: &str) -> Option<&str> {
        self.section.get(key).map(String::as_str).filter(|value| !value.is_empty())
    }

    /// Returns the profile's credentials. The result is empty if the profile has none of any kind, so that those of the
    /// machine or container apply.
    fn credentials(&self) -> Result<Vec<(&'static str, &str)>, ProfileError> {
        const KEYS: [(&str, &str); 2] =
            [("aws_access_key_id", "aws_secret_access_key"), ("aws_secret_access_key", "aws_access_key_id")];
        let name = || self.name.clone();
        for (present, missing) in KEYS {
            if self.get(present).is_some() && self.get(missing).is_none() {
                return Err(ProfileError::HalfKey { name: name(), present, missing });
            }
        }
        let names = |keys: &[&'static str]| -> Vec<_> {
            keys.iter().filter_map(|key| Some((*key, self.get(key)?))).collect()
        };
        if self.get("aws_access_key_id").is_some() {
            return Ok(names(&["aws_access_key_id", "aws_secret_access_key", "aws_session_token"]));
        }
        if self.get("web_identity_token_file").is_some() && self.get("role_arn").is_some() {
            let keys =
                [("aws_web_identity_token_file", "web_identity_token_file"), ("aws_role_arn", "role_arn")];
            return Ok(keys.into_iter().filter_map(|(key, of)| Some((key, self.get(of)?))).collect());
        }
        let others = [
            ("sso_session", "signs in with SSO"),
            ("sso_start_url", "signs in with SSO"),
            ("login_session", "signs in through a browser"),
            ("role_arn", "assumes a role"),
            ("credential_process", "asks a program for credentials"),
        ];
        match others.into_iter().find(|(key, _)| self.get(key).is_some()) {
            None => Ok(Vec::new()),
            Some((key, method)) => Err(ProfileError::Unsupported { name: name(), method, key }),
        }
    }
}

/// The config file and the credentials file.
struct Files {
    config: (PathBuf, Sections),
    credentials: (PathBuf, Sections),
}

impl Files {
    /// Reads both files; an absent file counts as empty.
    fn read() -> Result<Self, ProfileError> {
        let path = |variable: &str, name: &str| match env::var_os(variable) {
            Some(path) => PathBuf::from(path),
            None => env::home_dir().unwrap_or_default().join(".aws").join(name),
        };
        let sections = |path: PathBuf| match text(&path) {
            Ok(text) => Ok((path, parse(&text))),
            Err(error) if is_absent(&error) => Ok((path, Sections::new())),
            Err(error) => Err(ProfileError::Unreadable { path, error }),
        };
        Ok(Self {
            config: sections(path("AWS_CONFIG_FILE", "config"))?,
            credentials: sections(path("AWS_SHARED_CREDENTIALS_FILE", "credentials"))?,
        })
    }

    /// Returns the paths of both files, for messages.
    fn names(&self) -> String {
        format!("{} or {}", self.config.0.display(), self.credentials.0.display())
    }

    /// Returns the names of all profiles.
    fn profiles(&self) -> BTreeSet<&str> {
        let is_default = |name: &&String| *name == "default";
        let config = self.config.1.keys();
        let named = config.clone().filter_map(|name| name.strip_prefix("profile "));
        let credentials = self.credentials.1.keys().chain(config.filter(is_default)).map(String::as_str);
        named.chain(credentials).collect()
    }

    /// Returns the profile, merged from both files. Properties of the credentials file take precedence; its keys are
    /// never combined with those of the config file.
    fn profile(&self, name: &str) -> Option<Profile> {
        let config = &self.config.1;
        let plain = || config.get(name).filter(|_| name == "default");
        let config = config.get(&format!("profile {name}")).or_else(plain);
        let credentials = self.credentials.1.get(name);
        let mut section = config.cloned().unwrap_or_default();
        if let Some(own) = credentials {
            if own.contains_key("aws_access_key_id") {
                section.retain(|key, _| !key.starts_with("aws_"));
            }
            section.extend(own.clone());
        }
        (config.is_some() || credentials.is_some()).then(|| Profile { name: name.to_owned(), section })
    }

    /// Returns the S3 endpoint of a profile; an endpoint for S3 alone takes precedence over one for all services.
    fn endpoint<'a>(&'a self, profile: &'a Profile) -> Option<&'a str> {
        let services = || self.config.1.get(&format!("services {}", profile.get("services")?));
        let own = services().and_then(|services| services.get("s3.endpoint_url"));
        own.map(String::as_str).filter(|url| !url.is_empty()).or_else(|| profile.get("endpoint_url"))
    }
}

/// Returns whether the file does not exist, or its folder is not a folder.
fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

/// Reads a file up to [`LARGEST`] bytes.
fn text(path: &std::path::Path) -> io::Result<String> {
    let mut text = String::new();
    let mut limited = io::Read::take(fs::File::open(path)?, LARGEST);
    io::Read::read_to_string(&mut limited, &mut text)?;
    Ok(text)
}

/// Parses a file. Skips malformed lines, as the AWS command line does.
fn parse(text: &str) -> Sections {
    let mut sections = Sections::new();
    let mut section: Option<String> = None;
    let mut block: Option<String> = None;
    for line in text.lines() {
        let trimmed = line.trim();
        if trimmed.is_empty() || trimmed.starts_with(['#', ';']) {
            continue;
        }
        if line.starts_with('[') {
            let name = trimmed.split_once(']').and_then(|(name, _)| name.strip_prefix('['));
            section = name.map(named);
            block = None;
            if let Some(name) = &section {
                sections.entry(name.clone()).or_default();
            }
            continue;
        }
        let (Some(name), Some((key, value))) = (&section, trimmed.split_once('=')) else { continue };
        let (key, value) = (key.trim().to_ascii_lowercase(), uncommented(value));
        let nested = line.starts_with([' ', '\t']);
        let key = match &block {
            Some(block) if nested => format!("{block}.{key}"),
            _ => key,
        };
        if !nested {
            block = value.is_empty().then(|| key.clone());
        }
        sections.entry(name.clone()).or_default().insert(key, value.to_owned());
    }
    sections
}

/// Normalizes a section's name: `profile "a name"` becomes `profile a name`.
fn named(text: &str) -> String {
    text.replace(['"', '\''], "").split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Removes surrounding blanks and a trailing comment, which starts with `#` or `;` after a blank.
fn uncommented(value: &str) -> &str {
    let blanks = [" #", " ;", "\t#", "\t;"];
    let end = blanks.iter().filter_map(|mark| value.find(mark)).min().unwrap_or(value.len());
    value.get(..end).unwrap_or(value).trim()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(config: &str, credentials: &str) -> Files {
        Files { config: ("c".into(), parse(config)), credentials: ("k".into(), parse(credentials)) }
    }

    #[test]
    fn both_files_make_a_profile() {
        let files = files(
            "[default]\nregion = us-west-2 # remark\n; x\n[profile  a]\nregion=eu-central-1\naws_session_token = old\n\
             [profile \"b c\"]\nendpoint_url = http://h:1\nservices = mine\n\
             [services mine]\ndynamodb =\n  endpoint_url = http://no\ns3 =\n  endpoint_url = http://s3:2/\n[profile default]\nregion = x-1",
            "[a]\naws_access_key_id = K\nAWS_SECRET_ACCESS_KEY = s+/=;#e\n[b]\naws_secret_access_key = s\n",
        );
        let a = files.profile("a").unwrap();
        assert_eq!(a.get("region"), Some("eu-central-1"));
        let keys = [("aws_access_key_id", "K"), ("aws_secret_access_key", "s+/=;#e")];
        assert_eq!(a.credentials().unwrap(), keys, "the token of other keys is left out");
        assert_eq!(files.profile("default").unwrap().get("region"), Some("x-1"));
        assert_eq!(files.endpoint(&files.profile("b c").unwrap()), Some("http://s3:2/"));
        assert!(
            files
                .profile("b")
                .unwrap()
                .credentials()
                .unwrap_err()
                .to_string()
                .contains("no aws_access_key_id")
        );
        assert!(files.profile("c").is_none() && files.profile("mine").is_none());
    }

    #[test]
    fn what_is_not_done_here_says_what_to_do() {
        for (text, expected) in [
            ("sso_session = x\nsso_account_id = 1", "SSO (sso_session)"),
            ("sso_start_url = x", "SSO (sso_start_url)"),
            ("role_arn = r\nsource_profile = b", "assumes a role (role_arn)"),
            ("credential_process = secret-program", "asks a program"),
        ] {
            let files = files(&format!("[profile a]\n{text}"), "");
            let error = files.profile("a").unwrap().credentials().unwrap_err().to_string();
            assert!(error.contains(expected) && error.contains("export-credentials --profile a"), "{error}");
            assert!(!error.contains("secret-program"));
        }
        let web = files("[profile a]\nrole_arn = r\nweb_identity_token_file = /t", "");
        let keys = [("aws_web_identity_token_file", "/t"), ("aws_role_arn", "r")];
        assert_eq!(web.profile("a").unwrap().credentials().unwrap(), keys);
        assert_eq!(files("[default]\nregion = r", "").profile("default").unwrap().credentials().unwrap(), []);
    }
}
