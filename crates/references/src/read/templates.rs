//! `templates` and `gen` of kerchunk's version 1: urls with placeholders, and references generated over ranges.
//! <https://fsspec.github.io/kerchunk/spec.html#version-1>

use std::collections::BTreeMap;

use minijinja::{Environment, Error, ErrorKind, Value, value::Kwargs};
use serde_json::{Map, Value as Json};

use super::{Entry, Place, ReferenceSink, ReferencesError};

/// Greatest number of references that a document may generate.
const GENERATED: u64 = 100_000_000;
/// Greatest number of steps to render one template.
const FUEL: u64 = 10_000;

/// Renders urls with the templates of a document.
pub(crate) struct Templates {
    environment: Environment<'static>,
    names: BTreeMap<String, Value>,
    /// Rendered urls by their template: most references of a document share a few.
    rendered: BTreeMap<String, String>,
}

impl Templates {
    /// Reads `templates` of a document: plain texts, and texts with `{{…}}`, which urls call like functions.
    pub(crate) fn new(templates: &Map<String, Json>) -> Result<Self, ReferencesError> {
        let mut environment = Environment::new();
        environment.set_fuel(Some(FUEL));
        let mut names = BTreeMap::new();
        for (name, text) in templates {
            let text = text.as_str().ok_or_else(|| ReferencesError::at(name, "a template is text"))?;
            let value = match text.contains("{{") {
                true => function(text.to_owned()),
                false => Value::from(text),
            };
            names.insert(name.clone(), value);
        }
        Ok(Self { environment, names, rendered: BTreeMap::new() })
    }

    /// Renders a url.
    pub(crate) fn url(&mut self, key: &str, text: &str) -> Result<String, ReferencesError> {
        if self.names.is_empty() || !text.contains("{{") {
            return Ok(text.to_owned());
        }
        if let Some(known) = self.rendered.get(text) {
            return Ok(known.clone());
        }
        let url = self.render(key, text, &[])?;
        if self.rendered.len() < 10_000 {
            self.rendered.insert(text.to_owned(), url.clone());
        }
        Ok(url)
    }

    fn render(&self, key: &str, text: &str, with: &[(&str, i64)]) -> Result<String, ReferencesError> {
        let numbers = with.iter().map(|(name, value)| ((*name).to_owned(), Value::from(*value)));
        let names: BTreeMap<String, Value> =
            self.names.iter().map(|(name, value)| (name.clone(), value.clone())).chain(numbers).collect();
        self.environment.render_str(text, names).map_err(|error| ReferencesError::at(key, error))
    }

    /// Generates the references of `gen`.
    pub(crate) fn generate(
        &self,
        generators: &[Json],
        sink: &mut impl ReferenceSink,
    ) -> Result<(), ReferencesError> {
        let mut left = GENERATED;
        for generator in generators {
            let dimensions = dimensions(generator)?;
            let count =
                dimensions.iter().try_fold(1_u64, |all, (_, values)| all.checked_mul(values.len() as u64));
            left = count.and_then(|count| left.checked_sub(count)).ok_or_else(|| {
                ReferencesError::at("generated references", format!("more than {GENERATED}"))
            })?;
            for at in 0..count.unwrap_or(0) {
                self.generate_one(generator, &dimensions, at, sink)?;
            }
        }
        Ok(())
    }

    fn generate_one(
        &self,
        generator: &Json,
        dimensions: &[(String, Vec<i64>)],
        at: u64,
        sink: &mut impl ReferenceSink,
    ) -> Result<(), ReferencesError> {
        let mut rest = at;
        let mut with = Vec::with_capacity(dimensions.len());
        for (name, values) in dimensions.iter().rev() {
            let count = (values.len() as u64).max(1);
            let index = usize::try_from(rest % count).unwrap_or(usize::MAX);
            with.push((name.as_str(), values.get(index).copied().unwrap_or(0)));
            rest /= count;
        }
        let text = |member: &str| generator.get(member).and_then(Json::as_str);
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
            let number = rendered
                .trim()
                .parse()
                .map_err(|_| ReferencesError::at(&key, format!("{member} is {rendered:?}, no number")));
            number.map(Some)
        };
        let part = match (number("offset")?, number("length")?) {
            (Some(offset), Some(length)) => Some((offset, length)),
            (None, None) => None,
            _ => return Err(ReferencesError::at(&key, "offset and length come together")),
        };
        sink.entry(&key, Entry::Place(Place { url: url.into(), part }))
    }
}

/// Returns a template as a function whose named arguments are its placeholders.
fn function(text: String) -> Value {
    Value::from_function(move |arguments: Kwargs| -> Result<String, Error> {
        let names: Result<BTreeMap<String, Value>, Error> =
            arguments.args().map(|name| Ok((name.to_owned(), arguments.get(name)?))).collect();
        let mut environment = Environment::new();
        environment.set_fuel(Some(FUEL));
        environment
            .render_str(&text, names?)
            .map_err(|error| Error::new(ErrorKind::InvalidOperation, error.to_string()))
    })
}

/// Returns the values that a generator assigns to each name.
fn dimensions(generator: &Json) -> Result<Vec<(String, Vec<i64>)>, ReferencesError> {
    let refuse = |reason: &str| ReferencesError::at("gen", reason);
    let named = generator
        .get("dimensions")
        .and_then(Json::as_object)
        .ok_or_else(|| refuse("it has no dimensions"))?;
    let mut all = Vec::with_capacity(named.len());
    for (name, values) in named {
        let values: Option<Vec<i64>> = match values {
            Json::Array(list) => list.iter().map(Json::as_i64).collect(),
            range => {
                let number = |member: &str, otherwise| range.get(member).map_or(otherwise, Json::as_i64);
                let (start, stop, step) =
                    (number("start", Some(0)), number("stop", None), number("step", Some(1)));
                match (start, stop, step) {
                    (Some(start), Some(stop), Some(step @ 1..)) => {
                        let count = u64::try_from(stop.saturating_sub(start).max(0)).unwrap_or(0);
                        let step = usize::try_from(step).unwrap_or(usize::MAX);
                        (count <= GENERATED).then(|| (start..stop).step_by(step).collect())
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
