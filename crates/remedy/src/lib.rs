#![doc = include_str!("../README.md")]

mod names;

use std::{borrow::Cow, fmt::Display};

use serde::{Deserialize, Serialize};

pub use names::{Code, OptionName};

/// What a user can do about an error or a diagnostic.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Remedy {
    /// Set an option.
    Set {
        /// The option to set.
        option: OptionName,
        /// Its value; `None` for a switch, or where the user has to choose one.
        value: Option<Cow<'static, str>>,
        /// What this achieves, as an infinitive without "to": "fill them with the fill value".
        effect: Cow<'static, str>,
    },
    /// Set several options together.
    Together {
        /// The options with their values; `None` for a switch.
        options: Vec<(OptionName, Option<String>)>,
        /// What this achieves, as an infinitive without "to".
        effect: Cow<'static, str>,
    },
    /// Do something else, as an imperative clause: "download the file first".
    Advice(Cow<'static, str>),
    /// Any one of these, the most common first.
    AnyOf(Vec<Self>),
}

/// How an edge (the command, the service, Python) writes an option with its value, such as `--on-mismatch split`. The
/// function returns `None` for an option that the edge does not have.
#[derive(Clone, Copy, Debug)]
pub struct Notation(pub fn(OptionName, Option<&str>) -> Option<String>);

/// The notation for callers of the library: `allow_holes`, `on_mismatch=split`.
impl Default for Notation {
    fn default() -> Self {
        Self(|option, value| {
            let name = option.as_str();
            Some(value.map_or_else(|| name.to_owned(), |value| format!("{name}={value}")))
        })
    }
}

impl Notation {
    /// Renders one line, `text (remedy) [code]`, without the parentheses if nothing of the remedy can be rendered.
    pub fn line(self, text: impl Display, remedy: Option<&Remedy>, code: Code) -> String {
        format!("{} [{code}]", self.append(text, remedy))
    }

    /// Returns the text followed by the remedy in parentheses; the text alone if nothing of the remedy can be rendered.
    pub fn append(self, text: impl Display, remedy: Option<&Remedy>) -> String {
        match remedy.and_then(|remedy| remedy.render(self)) {
            Some(remedy) => format!("{text} ({remedy})"),
            None => text.to_string(),
        }
    }
}

impl Remedy {
    /// Sets `option` to `value`.
    pub fn set(
        option: OptionName,
        value: impl Into<Cow<'static, str>>,
        effect: impl Into<Cow<'static, str>>,
    ) -> Self {
        Self::Set { option, value: Some(value.into()), effect: effect.into() }
    }

    /// Turns `option` on, or gives it a value of the user's choice.
    pub fn turn_on(option: OptionName, effect: impl Into<Cow<'static, str>>) -> Self {
        Self::Set { option, value: None, effect: effect.into() }
    }

    /// Advice that involves no option.
    pub fn advice(text: impl Into<Cow<'static, str>>) -> Self {
        Self::Advice(text.into())
    }

    /// This remedy or another one.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        match self {
            Self::AnyOf(mut all) => {
                all.push(other);
                Self::AnyOf(all)
            }
            first => Self::AnyOf(vec![first, other]),
        }
    }

    /// Renders the remedy in one line: "use --overwrite to replace it, --group to write elsewhere, or delete the folder".
    /// Options that the edge does not have are omitted; `None` if nothing is left.
    pub fn render(&self, notation: Notation) -> Option<String> {
        let mut line = String::new();
        let mut was_option = false;
        let clauses: Vec<_> = self.clauses(notation).collect();
        for (index, (is_option, clause)) in clauses.iter().enumerate() {
            line += match index {
                0 => "",
                _ if index + 1 == clauses.len() => ", or ",
                _ => ", ",
            };
            line += if *is_option && !was_option { "use " } else { "" };
            line += clause;
            was_option = *is_option;
        }
        (!line.is_empty()).then_some(line)
    }

    /// Each alternative as a clause, and whether it sets an option (its clause lacks the verb "use").
    fn clauses(&self, notation: Notation) -> Box<dyn Iterator<Item = (bool, String)> + '_> {
        match self {
            Self::Set { option, value, effect } => {
                let option = (notation.0)(*option, value.as_deref());
                Box::new(option.map(|option| (true, format!("{option} to {effect}"))).into_iter())
            }
            Self::Together { options, effect } => {
                let options = options.iter().map(|(option, value)| (notation.0)(*option, value.as_deref()));
                let options = options.collect::<Option<Vec<_>>>().map(|options| options.join(" "));
                Box::new(options.map(|options| (true, format!("{options} to {effect}"))).into_iter())
            }
            Self::Advice(text) => Box::new(std::iter::once((false, text.to_string()))),
            Self::AnyOf(all) => Box::new(all.iter().flat_map(move |remedy| remedy.clauses(notation))),
        }
    }
}

/// Maximum number of names that a message lists.
const MAX_LISTED: usize = 8;
/// Minimum similarity (Jaro) of a suggestion, which is that of clap.
const MIN_SIMILARITY: f64 = 0.7;

/// Returns the name that is most similar to `given`, ignoring case; `None` if no name is similar. A path counts as similar
/// if its last part is.
pub fn similar<'a>(given: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let given = given.to_lowercase();
    let score = |name: &str| {
        let name = name.to_lowercase();
        let last = name.rsplit('/').next().unwrap_or(&name);
        strsim::jaro(&given, &name).max(strsim::jaro(&given, last))
    };
    let scored = names.into_iter().map(|name| (score(name), name));
    let best =
        scored.filter(|(score, _)| *score > MIN_SIMILARITY).reduce(|best, next| match next.0 > best.0 {
            true => next,
            false => best,
        });
    best.map(|(_, name)| name)
}

/// Returns the end of a message about a name that does not exist: `; did you mean "time"? existing dimensions: lat, time`.
///
/// `kind` is what the names are, in the plural. A long list is shortened.
pub fn alternatives<'a>(kind: &str, given: &str, names: impl IntoIterator<Item = &'a str>) -> String {
    let names: Vec<_> = names.into_iter().collect();
    if names.is_empty() {
        return format!("; there are no {kind}");
    }
    let meant = similar(given, names.iter().copied());
    let meant = meant.map(|name| format!(" did you mean \"{name}\"?")).unwrap_or_default();
    let shown = names.get(..MAX_LISTED).unwrap_or(&names).join(", ");
    let more = match names.len().saturating_sub(MAX_LISTED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!(";{meant} existing {kind}: {shown}{more}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flags(option: OptionName, value: Option<&str>) -> Option<String> {
        let flag = option.as_str().replace('_', "-");
        let shown = value.map_or_else(|| format!("--{flag}"), |value| format!("--{flag} {value}"));
        (option != OptionName::Journal).then_some(shown)
    }

    #[test]
    fn renders_alternatives_and_omits_options_that_the_edge_lacks() {
        let remedy = Remedy::set(OptionName::OnMismatch, "split", "make each a group")
            .or(Remedy::turn_on(OptionName::Journal, "choose another place"))
            .or(Remedy::set(OptionName::OnFailure, "skip", "omit it"))
            .or(Remedy::advice("write the files again"));
        let expected = "use --on-mismatch split to make each a group, --on-failure skip to omit it, or write the files again";
        assert_eq!(remedy.render(Notation(flags)).as_deref(), Some(expected));
        assert_eq!(
            Remedy::turn_on(OptionName::Journal, "choose another place").render(Notation(flags)),
            None
        );
    }

    #[test]
    fn names_are_those_of_the_serialized_form() {
        for option in OptionName::ALL {
            assert_eq!(serde_json::to_value(option).ok(), Some(option.as_str().into()));
        }
        for code in Code::ALL {
            assert_eq!(serde_json::to_value(code).ok(), Some(code.as_str().into()));
        }
    }

    #[test]
    fn suggests_the_most_similar_name() {
        assert_eq!(similar("tiem", ["lat", "lon", "time", "timer"]), Some("time"));
        assert_eq!(similar("Temperature", ["tos", "temperature"]), Some("temperature"));
        assert_eq!(
            similar("tempertur", ["surface/temperature", "surface/salinity"]),
            Some("surface/temperature")
        );
        assert_eq!(similar("x", ["lat", "lon"]), None);
        assert_eq!(similar("x", []), None);
    }

    #[test]
    fn lists_are_short() {
        assert_eq!(
            alternatives("dimensions", "tiem", ["lat", "time"]),
            "; did you mean \"time\"? existing dimensions: lat, time"
        );
        assert_eq!(alternatives("dimensions", "q", ["lat"]), "; existing dimensions: lat");
        assert_eq!(alternatives("dimensions", "q", []), "; there are no dimensions");
        let many: Vec<String> = (0..20).map(|n| format!("n{n}")).collect();
        let text = alternatives("arrays", "q", many.iter().map(String::as_str));
        assert!(text.ends_with("n6, n7 and 12 more"), "{text}");
    }
}
