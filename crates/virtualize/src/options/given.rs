//! Options as users give them: as flags, with `--option KEY=VALUE`, in a configuration file, or as keyword arguments.
//!
//! An option is declared once, as a field of a struct that derives [`clap::Args`] and [`serde::Deserialize`]. Its name, its help and
//! the values that it accepts come from there, for all of these notations. An option with `hide = true` is rare: it is not a
//! flag, and is given with `--option` or in the configuration file.

use std::{ops::Deref, path::Path};

use clap::{
    Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches, error::ErrorKind, parser::ValueSource,
};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use virtualize_remedy::alternatives;

use super::{SourceOptions, value::parse_pair};

/// Options by name, in snake case or kebab case.
pub type Members = Map<String, Value>;

/// Identifier of the argument `--option`.
const OPTION: &str = "option";
/// Identifier of the argument `--config`.
const CONFIG: &str = "config";

/// An option that does not exist, or that does not accept the given value.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{name}: {reason}")]
pub struct InvalidOption {
    /// Name of the option, as it was given.
    pub name: String,
    /// What is expected. Values that may be secret are not repeated.
    pub reason: String,
    /// Whether there is no such option.
    pub is_unknown: bool,
}

impl InvalidOption {
    fn new(name: impl Into<String>, reason: impl Into<String>) -> Self {
        Self { name: name.into(), reason: reason.into(), is_unknown: false }
    }
}

/// Returns all options of `T`, in the order of their declaration.
pub fn declared<T: Args>() -> Vec<Arg> {
    T::augment_args(Command::new("")).get_arguments().cloned().collect()
}

/// Returns the name of an option in kebab case: that of its flag.
pub fn name(option: &Arg) -> String {
    option.get_long().map_or_else(|| option.get_id().as_str().replace('_', "-"), str::to_owned)
}

/// Returns whether an option is on or off.
pub fn is_switch(option: &Arg) -> bool {
    matches!(option.get_action(), ArgAction::SetTrue)
}

/// Returns whether an option accepts several values.
pub fn is_list(option: &Arg) -> bool {
    matches!(option.get_action(), ArgAction::Append)
}

/// Parses options from their names and values.
///
/// # Errors
/// [`InvalidOption`] for a name that `T` does not declare, and for a value that the option does not accept.
pub fn parse<T: Args + DeserializeOwned>(members: Members) -> Result<T, InvalidOption> {
    let options = declared::<T>();
    let mut parsed = Members::new();
    for (given, value) in members {
        let option = find(&options, &given).ok_or_else(|| unknown(&options, &given))?;
        let field = option.get_id().to_string();
        let value = accepted::<T>(option, value).map_err(|reason| InvalidOption::new(given, reason))?;
        parsed.insert(field, value);
    }
    T::deserialize(Value::Object(parsed)).map_err(|error| InvalidOption::new("options", error.to_string()))
}

/// Reads a configuration file: a TOML table of options.
///
/// # Errors
/// Describes why the file cannot be read or parsed.
pub fn read_config(path: &Path) -> Result<Members, String> {
    let text = std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    toml::from_str(&text).map_err(|error| {
        let before = error.span().and_then(|span| text.get(..span.start)).unwrap_or_default();
        format!("{}: line {}: {}", path.display(), before.matches('\n').count() + 1, error.message())
    })
}

/// Parses options that may name a configuration file as `config`. They take precedence over those in the file. The file
/// may also have options for mapping and reaching files that `T` lacks, so that all commands can share it.
///
/// # Errors
/// As [`parse`] and [`read_config`].
pub fn parse_with_config<T: Args + DeserializeOwned>(mut members: Members) -> Result<T, InvalidOption> {
    let invalid = |reason: String| InvalidOption::new(CONFIG, reason);
    let Some(path) = members.remove(CONFIG) else { return parse(members) };
    let path = path.as_str().ok_or_else(|| invalid("expected the path of a TOML file".to_owned()))?;
    let (options, shared) = (declared::<T>(), declared::<SourceOptions>());
    let mut all = Members::new();
    for (name, value) in read_config(Path::new(path)).map_err(invalid)? {
        match find(&options, &name) {
            Some(option) => {
                let named = |reason| invalid(format!("{path}: {name}: {reason}"));
                let value = accepted::<T>(option, value).map_err(named)?;
                all.insert(option.get_id().to_string(), value);
            }
            None if find(&shared, &name).is_some() => {}
            None => return Err(invalid(format!("{path}: {}", unknown(&options, &name)))),
        }
    }
    for (name, value) in members {
        let field = find(&options, &name).map_or(name, |option| option.get_id().to_string());
        all.insert(field, value);
    }
    parse(all)
}

fn find<'a>(options: &'a [Arg], given: &str) -> Option<&'a Arg> {
    let field = given.replace('-', "_");
    options.iter().find(|option| option.get_id().as_str() == field || name(option).replace('-', "_") == field)
}

fn unknown(options: &[Arg], given: &str) -> InvalidOption {
    let names: Vec<_> = options.iter().filter(|option| !option.is_positional()).map(name).collect();
    let normal = given.replace('_', "-");
    let reason =
        format!("unknown option{}", alternatives("options", &normal, names.iter().map(String::as_str)));
    InvalidOption { name: given.to_owned(), reason, is_unknown: true }
}

/// Returns a value in the notation that the field deserializes, or why the option does not accept it.
fn accepted<T: DeserializeOwned>(option: &Arg, value: Value) -> Result<Value, String> {
    let attempt = |value: &Value| {
        let members = Members::from_iter([(option.get_id().to_string(), value.clone())]);
        T::deserialize(Value::Object(members)).map(drop)
    };
    // Text from a flag or from `--option` may stand for a truth value or a number.
    let other = match &value {
        Value::String(text) if is_switch(option) && text.is_empty() => Some(Value::Bool(true)),
        Value::String(text) => serde_json::from_str(text).ok().filter(|other: &Value| !other.is_array()),
        _ => None,
    };
    let Err(error) = attempt(&value) else { return Ok(value) };
    match other.map(|other| (attempt(&other), other)) {
        Some((Ok(()), other)) => return Ok(other),
        // A table as JSON text.
        Some((Err(error), other)) if other.is_object() => return Err(error.to_string()),
        _ => {}
    }
    Err(reason(option, &value, &error.to_string()))
}

/// Describes why a value is not accepted: `expected a whole number, not "many"`.
fn reason(option: &Arg, value: &Value, error: &str) -> String {
    // The reason for which a table is not accepted names the key.
    let is_table = option.get_value_names().is_some_and(|names| names.iter().any(|name| name == "TABLE"));
    let expected = error.rsplit_once("expected ").filter(|_| !(is_table && value.is_object()));
    let Some((_, expected)) = expected else { return error.to_owned() };
    let expected = match expected {
        _ if is_switch(option) => "true or false".to_owned(),
        "a string" | "path string" => "text".to_owned(),
        "u32" | "u64" | "usize" => "a whole number".to_owned(),
        "a sequence" => "a list".to_owned(),
        other => other.replace('`', "\""),
    };
    let is_secret = option.is_hide_env_values_set();
    match value {
        Value::String(_) | Value::Number(_) | Value::Bool(_) if !is_secret => {
            format!("expected {expected}, not {value}")
        }
        _ => format!("expected {expected}"),
    }
}

/// The options of a command: its flags, `--option KEY=VALUE` for the rare ones if it has any, and `--config FILE` for all.
/// Flags take precedence over `--option`, and both over the file. `T` may declare `config` itself.
#[derive(Clone, Debug, Default)]
pub struct Given<T>(pub T);

impl<T> Deref for Given<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: Args + DeserializeOwned> Args for Given<T> {
    fn augment_args(command: Command) -> Command {
        let before: Vec<_> = command.get_arguments().map(|one| one.get_id().clone()).collect();
        let all = T::augment_args(command.clone());
        let flags = all.get_arguments().filter(|one| !one.is_hide_set() && !before.contains(one.get_id()));
        let heading = "General options";
        let option = Arg::new(OPTION)
            .long("option")
            .value_name("KEY=VALUE")
            .action(ArgAction::Append)
            .value_parser(parse_pair)
            .help_heading(heading)
            .help("Set a rare option, such as inline-limit=64M; may be repeated")
            .long_help(
                "Set a rare option, such as inline-limit=64M; may be repeated\n\n`virtualize options` lists them.",
            );
        let config = Arg::new(CONFIG)
            .long("config")
            .value_name("FILE")
            .value_hint(clap::ValueHint::FilePath)
            .help_heading(heading)
            .help("Read options from a TOML file, such as inline-limit = \"64M\"")
            .long_help(
                "Read options from a TOML file, such as inline-limit = \"64M\"\n\nA key is the name of a flag or of a rare option. Options of the command line take precedence.",
            );
        let has_rare = all.get_arguments().any(Arg::is_hide_set);
        let has_config = all.get_arguments().any(|one| one.get_id() == CONFIG);
        let others =
            [(has_rare, option), (!has_config, config)].into_iter().filter(|(is_wanted, _)| *is_wanted);
        command.args(flags.cloned().collect::<Vec<_>>()).args(others.map(|(_, other)| other))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl<T: Args + DeserializeOwned> FromArgMatches for Given<T> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let options = declared::<T>();
        let mut members = Members::new();
        if let Ok(Some(mut path)) = matches.try_get_raw(CONFIG) {
            members.extend(path.next().map(|path| (CONFIG.to_owned(), Value::from(path.to_string_lossy()))));
        }
        let rare = matches.try_get_many::<(String, String)>(OPTION);
        for (key, value) in rare.ok().flatten().into_iter().flatten() {
            let option = find(&options, key);
            let (field, is_list) = option.map_or_else(
                || (key.clone(), false),
                |option| (option.get_id().to_string(), is_list(option)),
            );
            match members.get_mut(&field) {
                Some(Value::Array(values)) if is_list => values.push(Value::from(value.as_str())),
                _ if is_list => drop(members.insert(field, Value::from([value.as_str()].as_slice()))),
                _ => drop(members.insert(field, Value::from(value.as_str()))),
            }
        }
        for option in options.iter().filter(|option| !option.is_hide_set()) {
            let field = option.get_id().as_str();
            let is_given = [Some(ValueSource::CommandLine), Some(ValueSource::EnvVariable)];
            if !is_given.contains(&matches.value_source(field)) {
                continue;
            }
            let raw = matches.get_raw(field).into_iter().flatten();
            let mut values: Vec<_> = raw.map(|one| Value::from(one.to_string_lossy())).collect();
            let value = if is_list(option) { Value::Array(values) } else { values.pop().unwrap_or_default() };
            members.insert(field.to_owned(), value);
        }
        let invalid = |error: InvalidOption| {
            let text = format!("{error}\n");
            clap::Error::raw(ErrorKind::ValueValidation, text)
        };
        parse_with_config(members).map(Self).map_err(invalid)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use serde_json::json;

    use super::*;

    #[derive(Parser, Debug)]
    struct Line {
        #[command(flatten)]
        options: Given<SourceOptions>,
    }

    fn line(arguments: &[&str]) -> Result<SourceOptions, String> {
        let line = Line::try_parse_from([&["virtualize"], arguments].concat());
        line.map(|line| line.options.0).map_err(|error| error.to_string())
    }

    #[test]
    fn rare_options_are_not_flags() {
        assert!(line(&["--ragged"]).unwrap_err().contains("unexpected argument"));
        let options = line(&["--option", "ragged=true", "--option", "ifd=1", "--option", "ifd=0/2"]).unwrap();
        assert!(options.mapping.ragged && options.mapping.ifd.len() == 2);
        let options =
            line(&["--option", "retry-timeout=7", "--option", "inline_limit=1K", "--strict"]).unwrap();
        assert_eq!((options.store.requests.retry_timeout, options.mapping.inline_limit), (7, Some(1024)));
        assert!(options.mapping.strict);
        assert_eq!(
            line(&["--store-option", "a=b"]).unwrap().store.access.store_option,
            [("a".into(), "b".into())]
        );
    }

    #[test]
    fn invalid_options_are_explained() {
        let message = line(&["--option", "raged=true"]).unwrap_err();
        assert!(message.contains("raged: unknown option; did you mean \"ragged\"?"), "{message}");
        let message = line(&["--option", "retries=many"]).unwrap_err();
        assert!(message.contains("retries: expected a whole number, not \"many\""), "{message}");
        let message = line(&["--option", "ragged=maybe"]).unwrap_err();
        assert!(message.contains("ragged: expected true or false, not \"maybe\""), "{message}");
        let secret = json!({"bearer_token": 5, "strict": true});
        let Value::Object(secret) = secret else { unreachable!() };
        assert_eq!(parse::<SourceOptions>(secret).unwrap_err().to_string(), "bearer_token: expected text");
    }

    #[test]
    fn stores_are_tables_by_prefix() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("virtualize.toml");
        let path = path.to_str().unwrap();
        let store =
            "[store.'s3://open/']\nanonymous = true\n[store.'https://host/']\nbearer-token-file = '/t'\n";
        std::fs::write(path, store).unwrap();
        let options = line(&["--config", path]).unwrap().store.options();
        assert!(options.access("s3://open/a").anonymous && !options.access("s3://other/a").anonymous);
        assert_eq!(options.access("https://host/a").bearer_token_file.as_deref(), Some(Path::new("/t")));
        let json =
            r#"stores={"s3://b/": {"store_option": {"aws_region": "x"}, "s3_credentials": "https://h/c"}}"#;
        let options = line(&["--option", json]).unwrap().store.options();
        assert_eq!(options.access("s3://b/a").values, [("aws_region".to_owned(), "x".to_owned())]);
        for (text, reason) in [
            ("'s3://b/'.anonymus = true", "did you mean \"anonymous\"?"),
            ("'s3://b/'.anonymous = 3", "s3://b/: anonymous: expected true or false"),
            ("'/data'.anonymous = true", "expected the start of URLs"),
            ("'s3://b/' = 3", "expected a table of options for \"s3://b/\""),
        ] {
            std::fs::write(path, format!("[store]\n{text}\n")).unwrap();
            let message = line(&["--config", path]).unwrap_err();
            assert!(message.contains(reason), "{text}: {message}");
        }
        let message = line(&["--option", r#"stores={"s3://b/": {"bearer_token": ["s3cret"]}}"#]).unwrap_err();
        assert!(message.contains("bearer_token: expected text") && !message.contains("s3cret"), "{message}");
    }

    #[test]
    fn flags_take_precedence_over_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("virtualize.toml");
        let path = path.to_str().unwrap();
        std::fs::write(
            path,
            "strict = true\nretries = 7\ninline = '1K'\nifd = [0, '1/2']\nreadable-by = 'gdal'\n",
        )
        .unwrap();
        let options = line(&["--config", path, "--inline", "5", "--option", "retries=8"]).unwrap();
        assert_eq!((options.mapping.inline, options.store.requests.retries), (Some(5), 8));
        assert!(options.mapping.strict && options.mapping.ifd.len() == 2);
        std::fs::write(path, "strict = true\nretires = 7\n").unwrap();
        let message = line(&["--config", path]).unwrap_err();
        assert!(
            message.contains("virtualize.toml: retires: unknown option; did you mean \"retries\"?"),
            "{message}"
        );
        std::fs::write(path, "strict = true\nretries = \n").unwrap();
        assert!(line(&["--config", path]).unwrap_err().contains("virtualize.toml: line 2: "));
    }
}
