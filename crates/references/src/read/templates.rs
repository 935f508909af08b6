//! `templates` and `gen` of kerchunk's version 1: urls with placeholders, and references generated over ranges.
//! <https://fsspec.github.io/kerchunk/spec.html#version-1>
//!
//! Templates are those of Jinja, reduced to what references use: names, numbers, text, elements of lists, arithmetic,
//! conditions, printf formats, and calls of other templates. Everything else of Jinja is an error. So every template is rendered in a time
//! and a memory that its length bounds.

use std::{borrow::Cow, collections::BTreeMap, fmt};

use serde_json::{Map, Value as Json};

use super::{Entry, Place, ReferencesError, hierarchy::Builder};

/// Maximum number of references that a document may generate.
const GENERATED: u64 = 10_000_000;
/// Maximum depth of nested expressions.
const DEPTH: usize = 32;
/// Maximum length of a rendered text in bytes.
const LENGTH: usize = 1 << 16;

/// Renders urls with the templates of a document.
pub(crate) struct Templates {
    /// Plain text and, if they contain `{{…}}`, templates that urls call like functions.
    names: BTreeMap<String, String>,
}

impl Templates {
    /// Reads `templates` of a document.
    pub(crate) fn new(templates: &Map<String, Json>) -> Result<Self, ReferencesError> {
        let mut names = BTreeMap::new();
        for (name, text) in templates {
            let text = text.as_str().ok_or_else(|| ReferencesError::at(name, "a template is text"))?;
            names.insert(name.clone(), text.to_owned());
        }
        Ok(Self { names })
    }

    /// Renders a url.
    pub(crate) fn url(&self, key: &str, text: &str) -> Result<String, ReferencesError> {
        if self.names.is_empty() {
            return Ok(text.to_owned());
        }
        self.render(key, text, &[])
    }

    fn render(&self, key: &str, text: &str, numbers: &[(&str, i64)]) -> Result<String, ReferencesError> {
        let scope = Scope { numbers, arguments: &[], templates: Some(&self.names) };
        let start: String = text.chars().take(80).collect();
        scope.render(text).map_err(|error| ReferencesError::at(key, format!("template {start:?}: {error}")))
    }

    /// Generates the references of `gen`.
    pub(crate) fn generate(&self, generators: &[Json], builder: &mut Builder) -> Result<(), ReferencesError> {
        let mut left = GENERATED;
        for generator in generators {
            let dimensions = dimensions(generator)?;
            let count = dimensions.iter().try_fold(1_u64, |all, (_, values)| all.checked_mul(values.count()));
            left = count.and_then(|count| left.checked_sub(count)).ok_or_else(|| {
                ReferencesError::at("generated references", format!("more than {GENERATED}"))
            })?;
            let text = |member: &str| generator.get(member).and_then(Json::as_str);
            for at in 0..count.unwrap_or(0) {
                let mut rest = at;
                let mut with = Vec::with_capacity(dimensions.len());
                for (name, values) in dimensions.iter().rev() {
                    let count = values.count().max(1);
                    with.push((name.as_str(), values.get(rest % count)));
                    rest /= count;
                }
                let key = text("key").ok_or_else(|| ReferencesError::at("gen", "a generator has a key"))?;
                let key = self.render(key, key, &with)?;
                let url = text("url").ok_or_else(|| ReferencesError::at(&key, "a generator has a url"))?;
                let url = self.render(&key, url, &with)?;
                let number = |member: &str| -> Result<Option<u64>, ReferencesError> {
                    let rendered = match generator.get(member) {
                        None => return Ok(None),
                        Some(Json::String(text)) => self.render(&key, text, &with)?,
                        Some(number) => number.to_string(),
                    };
                    let problem = || format!("{member} is {rendered:?}, not a number");
                    let number = rendered.trim().parse();
                    number.map(Some).map_err(|_| ReferencesError::at(&key, problem()))
                };
                let part = match (number("offset")?, number("length")?) {
                    (Some(offset), Some(length)) => Some((offset, length)),
                    (None, None) => None,
                    _ => return Err(ReferencesError::at(&key, "offset and length come together")),
                };
                if !builder.chunk(&key, Entry::Place(Place { url: url.into(), part }))? {
                    builder.ignore(&key);
                }
            }
        }
        Ok(())
    }
}

/// Values that a generator assigns to a name.
enum Values {
    List(Vec<i64>),
    Range { start: i64, step: i64, count: u64 },
}

impl Values {
    fn count(&self) -> u64 {
        match self {
            Self::List(list) => list.len() as u64,
            Self::Range { count, .. } => *count,
        }
    }

    fn get(&self, at: u64) -> i64 {
        match self {
            Self::List(list) => usize::try_from(at).ok().and_then(|at| list.get(at)).copied().unwrap_or(0),
            Self::Range { start, step, .. } => {
                let at = i64::try_from(at).unwrap_or(i64::MAX);
                start.saturating_add(step.saturating_mul(at))
            }
        }
    }
}

/// Returns the values that a generator assigns to each name.
fn dimensions(generator: &Json) -> Result<Vec<(String, Values)>, ReferencesError> {
    let refuse = |reason: &str| ReferencesError::at("gen", reason);
    let named = generator
        .get("dimensions")
        .and_then(Json::as_object)
        .ok_or_else(|| refuse("it has no dimensions"))?;
    let mut all = Vec::with_capacity(named.len());
    for (name, values) in named {
        let values = match values {
            Json::Array(list) => list.iter().map(Json::as_i64).collect::<Option<_>>().map(Values::List),
            range => {
                let number = |member: &str, otherwise| range.get(member).map_or(otherwise, Json::as_i64);
                match (number("start", Some(0)), number("stop", None), number("step", Some(1))) {
                    (Some(start), Some(stop), Some(step @ 1..)) => {
                        let length = i128::from(stop) - i128::from(start);
                        let count = (length.max(0) + i128::from(step) - 1) / i128::from(step);
                        u64::try_from(count).ok().map(|count| Values::Range { start, step, count })
                    }
                    _ => None,
                }
            }
        };
        all.push((
            name.clone(),
            values.ok_or_else(|| refuse("a dimension is a list of whole numbers or a range"))?,
        ));
    }
    Ok(all)
}

/// A value of an expression.
#[derive(Clone, PartialEq, PartialOrd)]
enum Value {
    Number(i64),
    Text(String),
    Bool(bool),
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => number.fmt(f),
            Self::Text(text) => text.fmt(f),
            Self::Bool(value) => f.write_str(if *value { "True" } else { "False" }),
        }
    }
}

/// Names that a template can refer to. Only the outermost one can call other templates.
#[derive(Clone, Copy)]
struct Scope<'a> {
    numbers: &'a [(&'a str, i64)],
    arguments: &'a [(&'a str, Value)],
    templates: Option<&'a BTreeMap<String, String>>,
}

type Rendered<T> = Result<T, Cow<'static, str>>;

impl Scope<'_> {
    fn render(&self, text: &str) -> Rendered<String> {
        // Jinja removes comments, blanks beside `{{-`, and a line break at the end.
        if let Some(found) = ["{%", "{#", "{{-", "{{+"].into_iter().find(|token| text.contains(token)) {
            return Err(format!("{found} is not supported").into());
        }
        if text.ends_with('\n') {
            return Err("ends with a line break".into());
        }
        let (mut out, mut rest) = (String::with_capacity(text.len()), text);
        while let Some((plain, expression)) = rest.split_once("{{") {
            out.push_str(plain);
            let mut expression = Expression { rest: expression, scope: *self, depth: 0 };
            out.push_str(&expression.expression()?.to_string());
            if !expression.takes("}}") {
                return Err(expression.unexpected("}}"));
            }
            bounded(&out)?;
            rest = expression.rest;
        }
        out.push_str(rest);
        bounded(&out)?;
        Ok(out)
    }

    /// Returns the value of a name; with arguments, that of a call.
    fn value(&self, name: &str, arguments: Option<&[(&str, Value)]>) -> Rendered<Value> {
        let template = self.templates.and_then(|templates| templates.get(name));
        match (template, arguments) {
            (Some(text), Some(arguments)) if text.contains("{{") => {
                Scope { numbers: &[], arguments, templates: None }.render(text).map(Value::Text)
            }
            (Some(text), None) if !text.contains("{{") => Ok(Value::Text(text.clone())),
            (Some(_), None) => Err(format!("{name} needs arguments").into()),
            (_, Some(_)) => Err(format!("{name} is not a template with arguments").into()),
            (None, None) => {
                let number = self.numbers.iter().find(|(known, _)| *known == name);
                let argument = self.arguments.iter().find(|(known, _)| *known == name);
                let value = number.map(|(_, number)| Value::Number(*number));
                let value = value.or_else(|| argument.map(|(_, value)| value.clone()));
                value.ok_or_else(|| format!("{name} is not defined").into())
            }
        }
    }
}

fn bounded(text: &str) -> Rendered<()> {
    if text.len() <= LENGTH { Ok(()) } else { Err(format!("more than {LENGTH} bytes").into()) }
}

/// The rest of an expression.
struct Expression<'a> {
    rest: &'a str,
    scope: Scope<'a>,
    depth: usize,
}

impl<'a> Expression<'a> {
    fn takes(&mut self, token: &str) -> bool {
        self.rest = self.rest.trim_start();
        let rest = self.rest.strip_prefix(token);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    fn unexpected(&self, expected: &str) -> Cow<'static, str> {
        let found: String = self.rest.chars().take(20).collect();
        format!("expected {expected}, found {found:?}").into()
    }

    fn takes_while(&mut self, is_member: impl Fn(char) -> bool) -> &'a str {
        let end = self.rest.find(|c| !is_member(c)).unwrap_or(self.rest.len());
        let (found, rest) = self.rest.split_at_checked(end).unwrap_or((self.rest, ""));
        self.rest = rest;
        found
    }

    /// A comparison, or `a if b else c`.
    fn expression(&mut self) -> Rendered<Value> {
        self.depth += 1;
        if self.depth > DEPTH {
            return Err(format!("nested deeper than {DEPTH} expressions").into());
        }
        let mut value = self.comparison()?;
        if self.takes("if") {
            let is_chosen = match self.comparison()? {
                Value::Number(number) => number != 0,
                Value::Text(text) => !text.is_empty(),
                Value::Bool(value) => value,
            };
            if !self.takes("else") {
                return Err(self.unexpected("else"));
            }
            let otherwise = self.expression()?;
            value = if is_chosen { value } else { otherwise };
        }
        self.depth -= 1;
        Ok(value)
    }

    /// `a == b` and the like.
    fn comparison(&mut self) -> Rendered<Value> {
        let value = self.sum()?;
        type Test = fn(&Value, &Value) -> bool;
        let tests: [(&str, Test); 6] = [
            ("==", |one, other| one == other),
            ("!=", |one, other| one != other),
            ("<=", |one, other| one <= other),
            (">=", |one, other| one >= other),
            ("<", |one, other| one < other),
            (">", |one, other| one > other),
        ];
        let Some((_, test)) = tests.into_iter().find(|(token, _)| self.takes(token)) else {
            return Ok(value);
        };
        let other = self.sum()?;
        if std::mem::discriminant(&value) != std::mem::discriminant(&other) {
            return Err("comparison of a number with text".into());
        }
        Ok(Value::Bool(test(&value, &other)))
    }

    /// `a + b` and `a - b`.
    fn sum(&mut self) -> Rendered<Value> {
        let mut value = self.concatenation()?;
        loop {
            value = if self.takes("+") {
                match (value, self.concatenation()?) {
                    (Value::Text(one), Value::Text(other)) => joined(&one, &other)?,
                    (one, other) => calculated(i64::checked_add, &one, &other)?,
                }
            } else if self.takes("-") {
                calculated(i64::checked_sub, &value, &self.concatenation()?)?
            } else {
                return Ok(value);
            };
        }
    }

    /// `a ~ b`, which joins text.
    fn concatenation(&mut self) -> Rendered<Value> {
        let mut value = self.product()?;
        while self.takes("~") {
            value = joined(&value.to_string(), &self.product()?.to_string())?;
        }
        Ok(value)
    }

    /// `a * b`, `a // b` and `a % b`, which formats a value if `a` is text.
    fn product(&mut self) -> Rendered<Value> {
        let mut value = self.power()?;
        loop {
            value = if self.takes("*") {
                calculated(i64::checked_mul, &value, &self.power()?)?
            } else if self.takes("//") {
                calculated(floor_div, &value, &self.power()?)?
            } else if self.takes("%") {
                match (value, self.power()?) {
                    (Value::Text(format), value) => formatted(&format, &value)?,
                    (one, other) => calculated(floor_rem, &one, &other)?,
                }
            } else {
                return Ok(value);
            };
        }
    }

    /// `a ** b`.
    fn power(&mut self) -> Rendered<Value> {
        let mut value = self.signed()?;
        while self.takes("**") {
            let power = |one: i64, other: i64| one.checked_pow(u32::try_from(other).ok()?);
            value = calculated(power, &value, &self.signed()?)?;
        }
        Ok(value)
    }

    /// `-a`, `a | int`, and `a | format(b)`.
    fn signed(&mut self) -> Rendered<Value> {
        let is_negative = self.takes("-");
        let value = self.primary()?;
        let mut value = match is_negative {
            true => calculated(i64::checked_sub, &Value::Number(0), &value)?,
            false => value,
        };
        while self.takes("|") {
            if self.takes("int") {
                let number =
                    value.to_string().trim().parse().map_err(|_| format!("{value} is not a whole number"))?;
                value = Value::Number(number);
                continue;
            }
            let is_format = self.takes("format") && self.takes("(");
            let (true, Value::Text(format)) = (is_format, &value) else {
                return Err("the only filters are int, and format for text".into());
            };
            let argument = self.expression()?;
            if !self.takes(")") {
                return Err(self.unexpected(")"));
            }
            value = formatted(format, &argument)?;
        }
        Ok(value)
    }

    /// Parses expressions separated by commas, up to a bracket.
    fn list(&mut self) -> Rendered<Vec<Value>> {
        let mut values = Vec::new();
        while !self.takes("]") {
            if !values.is_empty() && !self.takes(",") {
                return Err(self.unexpected(", or ]"));
            }
            values.push(self.expression()?);
        }
        Ok(values)
    }

    /// A number, text, a name, a call, an element of a list, or an expression in parentheses.
    fn primary(&mut self) -> Rendered<Value> {
        if self.takes("[") {
            let values = self.list()?;
            let index = if self.takes("[") { self.list()? } else { Vec::new() };
            let [Value::Number(index)] = index.as_slice() else { return Err("a list needs an index".into()) };
            let at = if *index < 0 {
                usize::try_from(index.unsigned_abs()).ok().and_then(|back| values.len().checked_sub(back))
            } else {
                usize::try_from(*index).ok()
            };
            let value = at.and_then(|at| values.get(at));
            return value
                .cloned()
                .ok_or_else(|| format!("index {index} of a list of {}", values.len()).into());
        }
        if self.takes("(") {
            let value = self.expression()?;
            return if self.takes(")") { Ok(value) } else { Err(self.unexpected(")")) };
        }
        for quote in ['"', '\''] {
            if let Some(rest) = self.rest.strip_prefix(quote) {
                let (text, rest) = rest.split_once(quote).ok_or("text without an end")?;
                if text.contains('\\') {
                    return Err("backslashes are not supported".into());
                }
                self.rest = rest;
                return Ok(Value::Text(text.to_owned()));
            }
        }
        let digits = self.takes_while(|c| c.is_ascii_digit());
        if digits.starts_with('0') && !digits.trim_start_matches('0').is_empty() {
            return Err(format!("{digits}: expected a number without leading zeros").into());
        }
        if !digits.is_empty() {
            let number = digits.parse().map_err(|_| format!("{digits} is too large"))?;
            return Ok(Value::Number(number));
        }
        let name = self.takes_while(|c| c.is_alphanumeric() || c == '_');
        if name.is_empty() {
            return Err(self.unexpected("a name, a number or text"));
        }
        if !self.takes("(") {
            return self.scope.value(name, None);
        }
        let mut arguments = Vec::new();
        while !self.takes(")") {
            if !arguments.is_empty() && !self.takes(",") {
                return Err(self.unexpected(", or )"));
            }
            self.rest = self.rest.trim_start();
            let argument = self.takes_while(|c| c.is_alphanumeric() || c == '_');
            if argument.is_empty() || !self.takes("=") {
                return Err(self.unexpected("NAME=VALUE"));
            }
            arguments.push((argument, self.expression()?));
        }
        self.scope.value(name, Some(&arguments))
    }
}

fn joined(one: &str, other: &str) -> Rendered<Value> {
    let text = format!("{one}{other}");
    bounded(&text)?;
    Ok(Value::Text(text))
}

fn calculated(operation: impl Fn(i64, i64) -> Option<i64>, one: &Value, other: &Value) -> Rendered<Value> {
    let (Value::Number(one), Value::Number(other)) = (one, other) else {
        return Err("arithmetic with text".into());
    };
    operation(*one, *other).map(Value::Number).ok_or_else(|| "the result is not a number of 64 bits".into())
}

/// Python's `//`, which rounds down.
fn floor_div(one: i64, other: i64) -> Option<i64> {
    let quotient = one.checked_div(other)?;
    let is_inexact = one.checked_rem(other)? != 0;
    quotient.checked_sub(i64::from(is_inexact && (one < 0) != (other < 0)))
}

/// Python's `%`, whose result has the sign of the divisor.
fn floor_rem(one: i64, other: i64) -> Option<i64> {
    let rest = one.checked_rem(other)?;
    if rest != 0 && (rest < 0) != (other < 0) { rest.checked_add(other) } else { Some(rest) }
}

/// Formats a value by a text with one `%s`, `%d` or, with at most 99 digits, `%04d`.
fn formatted(format: &str, value: &Value) -> Rendered<Value> {
    let wrong = || Cow::from(format!("format {format:?}: expected one %s, %d or %04d"));
    let (before, rest) = format.split_once('%').ok_or_else(wrong)?;
    let (width, after) = rest.split_at_checked(rest.find(['s', 'd']).ok_or_else(wrong)?).ok_or_else(wrong)?;
    let (conversion, after) = after.split_at_checked(1).ok_or_else(wrong)?;
    let is_plain = width.len() <= 2 && width.bytes().all(|digit| digit.is_ascii_digit());
    if !is_plain || after.contains('%') {
        return Err(wrong());
    }
    let size: usize = if width.is_empty() { 0 } else { width.parse().map_err(|_| wrong())? };
    let text = match (value, conversion) {
        (Value::Number(number), "d") if width.starts_with('0') => format!("{number:0size$}"),
        (Value::Number(_), "d") | (_, "s") => format!("{:>size$}", value.to_string()),
        _ => return Err(wrong()),
    };
    joined(before, &format!("{text}{after}"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn render(text: &str) -> Result<String, String> {
        let templates = json!({"u": "s3://b", "f": "{{a}}/{{b}}"});
        let templates = Templates::new(templates.as_object().unwrap()).unwrap();
        templates.render("k", text, &[("i", 7), ("j", -7)]).map_err(|error| error.to_string())
    }

    #[test]
    fn expressions_are_those_of_jinja() {
        for (text, expected) in [
            ("{{u}}/x", "s3://b/x"),
            ("{{ u }}_{{i}}", "s3://b_7"),
            ("{{f(a='x', b=i + 1)}}", "x/8"),
            ("{{ f(a = \"x\", b=\"%03d\" | format(i)) }}", "x/007"),
            ("{{'%02d' % i}}.nc", "07.nc"),
            ("{{'%5s|' % i}}", "    7|"),
            ("{{'%04d' % j}}", "-007"),
            ("{{(i + 1) * 1000 - 2}}", "7998"),
            ("{{i // 2}} {{j // 2}} {{i % 4}} {{j % 4}} {{ -i}}", "3 -4 3 1 -7"),
            ("{{u ~ i}}{{u + '/'}}", "s3://b7s3://b/"),
            ("{{i * 2 ** 33}} {{j | int}} {{'12'|int + 1}}", "60129542144 -7 13"),
            ("{{[8, 16, i][2]}} {{['a', 'b'][-1]}}", "7 b"),
            ("{{'x' if i > 6 else 'y'}}{{8 if j == i else 16 if i else 0}}", "x16"),
            ("{{i == 7}} {{'B' < 'A'}} {{0}} {{00}}", "True False 0 0"),
            ("no template", "no template"),
        ] {
            assert_eq!(render(text).as_deref(), Ok(expected), "{text}");
        }
    }

    /// Each of these crashed, or took any amount of memory, when Jinja was complete.
    #[test]
    fn templates_that_are_too_expensive_are_refused() {
        let nested = |one: &str| format!("{{{{{}1}}}}", one.repeat(100_000));
        for (text, expected) in [
            (nested("("), "nested deeper"),
            (nested("-"), "{{- is not supported"),
            ("{{ 010 }}".to_owned(), "without leading zeros"),
            ("{{1 + i ~ 2}}".to_owned(), "arithmetic with text"),
            ("{# a comment #}".to_owned(), "{# is not supported"),
            ("{{u}}\n".to_owned(), "ends with a line break"),
            (nested("not "), "not is not defined"),
            (nested("f(a="), "nested deeper"),
            ("{{f(a=f)}}".to_owned(), "f needs arguments"),
            ("{{'%9999999999d' | format(1)}}".to_owned(), "expected one %s"),
            ("{{'a' * 1000000000}}".to_owned(), "arithmetic with text"),
            ("{{[1] * 1000000000}}".to_owned(), "a list needs an index"),
            (nested("[1]["), "nested deeper"),
            ("{{2 ** 9999999999}}".to_owned(), "not a number of 64 bits"),
            ("{{[1][1]}}".to_owned(), "index 1 of a list of 1"),
            ("{% for i in range(9) %}{% endfor %}".to_owned(), "{% is not supported"),
            (format!("{{{{{}}}}}", vec!["u"; 20_000].join(" ~ ")), "more than 65536 bytes"),
            ("{{i * 9223372036854775807}}".to_owned(), "not a number of 64 bits"),
            ("{{i // 0}}".to_owned(), "not a number of 64 bits"),
            ("{{unknown}}".to_owned(), "unknown is not defined"),
            ("{{u".to_owned(), "expected }}"),
            ("{{u}".to_owned(), "expected }}"),
        ] {
            let error = render(&text).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
    }

    #[test]
    fn dimensions_are_counted_before_they_are_generated() {
        let all: Map<String, Json> =
            (0..8).map(|k| (format!("d{k}"), json!({"stop": 1_u64 << 62}))).collect();
        let generator = json!({"key": "k", "url": "u", "dimensions": all});
        let templates = Templates::new(&Map::new()).unwrap();
        let error = templates.generate(&[generator], &mut Builder::default()).unwrap_err();
        assert!(error.to_string().contains("more than 10000000"), "{error}");
        let range = json!({"dimensions": {"i": {"start": -3, "stop": 5, "step": 3}}});
        let (_, values) = dimensions(&range).unwrap().remove(0);
        assert_eq!((0..values.count()).map(|at| values.get(at)).collect::<Vec<_>>(), [-3, 0, 3]);
    }
}
