//! `virtualize options`: the options that `--option` and `--config` accept.

use std::io::{self, Write};

use clap::{Arg, Args, Command};
use serde_json::{Map, Value};
use virtualize::options::given::{is_list, is_switch, name};

use crate::{
    arguments::{ConvertOptions, InspectOptions, Options, Reading, TranslateOptions},
    error::Failure,
    terminal::json,
};

/// Prints the rare options with their documentation, or all options of all commands as JSON.
pub(crate) fn run(arguments: &Options) -> Result<(), Failure> {
    let mut out = io::BufWriter::new(io::stdout().lock());
    if arguments.json {
        let mut all = Map::new();
        for command in commands() {
            let options = command.get_arguments().filter(|option| !option.is_positional());
            let described = options.map(|option| {
                let mut groups = command.get_groups();
                let group = groups.find(|group| group.get_args().any(|one| one == option.get_id()));
                description(option, group.map(|group| group.get_id().as_str()))
            });
            all.insert(command.get_name().to_owned(), described.collect());
        }
        json(&all, &mut out)?;
    } else {
        writeln!(out, "Rare options, for --option KEY=VALUE and for the TOML file of --config:")?;
        for option in rare() {
            writeln!(out, "\n  {}{}", name(&option), value(&option))?;
            let help = option.get_long_help().or(option.get_help()).map(ToString::to_string);
            for line in help.unwrap_or_default().lines() {
                writeln!(out, "{}", format!("      {line}").trim_end())?;
            }
            let values = values(&option);
            if !values.is_empty() {
                writeln!(out, "      Values: {}", values.join(", "))?;
            }
            if let Some(default) = default(&option) {
                writeln!(out, "      Default: {default}")?;
            }
        }
    }
    Ok(out.flush()?)
}

/// Returns the commands with options that `--option` and `--config` accept.
fn commands() -> Vec<Command> {
    fn of<T: Args>(name: &'static str) -> Command {
        T::augment_args(Command::new(name))
    }
    vec![
        of::<ConvertOptions>("file"),
        of::<InspectOptions>("inspect"),
        #[cfg(feature = "full")]
        of::<crate::arguments::OptionsOfBatch>("batch"),
        #[cfg(feature = "full")]
        of::<crate::arguments::OptionsOfScan>("scan"),
        of::<TranslateOptions>("convert"),
        of::<Reading>("read"),
    ]
}

/// Returns the rare options of all commands, each once.
pub(crate) fn rare() -> Vec<Arg> {
    let mut all: Vec<Arg> = Vec::new();
    let commands = commands();
    for option in commands.iter().flat_map(Command::get_arguments).filter(|option| option.is_hide_set()) {
        if all.iter().all(|other| other.get_id() != option.get_id()) {
            all.push(option.clone());
        }
    }
    all
}

fn value(option: &Arg) -> String {
    let names = option.get_value_names().unwrap_or_default();
    if is_switch(option) { "=true".to_owned() } else { format!("={}", names.join(" ")) }
}

/// Returns the values that an option accepts, if they can be listed.
fn values(option: &Arg) -> Vec<String> {
    let values = option.get_possible_values().into_iter().filter(|_| !is_switch(option));
    values.map(|value| value.get_name().to_owned()).collect()
}

fn default(option: &Arg) -> Option<String> {
    let default = option.get_default_values().first().filter(|_| !is_switch(option))?;
    Some(default.to_string_lossy().into_owned())
}

/// Describes an option, which is declared in a group.
fn description(option: &Arg, group: Option<&str>) -> Value {
    serde_json::json!({
        "name": name(option),
        "value": option.get_value_names().map(|names| names.join(" ")),
        "values": values(option),
        "default": default(option),
        "help": option.get_help().map(ToString::to_string),
        "switch": is_switch(option),
        "list": is_list(option),
        "rare": option.is_hide_set(),
        "group": group,
    })
}
