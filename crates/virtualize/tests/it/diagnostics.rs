//! The diagnostics of fixtures with their places, remedies and codes, against `diagnostics.txt`. A section of it is a file with options, followed by
//! the lines that the command prints.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, clippy::cast_possible_truncation)]

use crate::oracle::{fixture, options};
use virtualize::{ComplexIntegers, Diagnostic, Error, Format, Notation, Options, Severity, open};

fn apply(options: &mut Options, option: &str) {
    let (name, value) = option.split_once('=').unwrap_or((option, ""));
    match name {
        "v2" | "v3" => {}
        "inline-limit" => options.map.inline_limit = value.parse().unwrap(),
        "constant-chunks" => options.map.constant_chunk_limit = value.parse().unwrap(),
        "split-contiguous" => options.map.split_contiguous = Some(value.parse().unwrap()),
        "readable-by" => options.readable_by.push(value.parse().unwrap()),
        "structures" => options.map.complex_integers = ComplexIntegers::Structure,
        "follow-external" => options.map.follow_external = true,
        "ragged" => options.map.ragged = true,
        "stack-pages" => options.map.stack_pages = true,
        "unpack" => options.map.unpack = true,
        "missing-value-convention" => options.map.missing_value_convention = true,
        _ => panic!("{option}"),
    }
}

fn line(diagnostic: &Diagnostic) -> String {
    let text = diagnostic.render(Notation::default());
    match diagnostic.severity {
        Severity::Warning => text,
        other => format!("{other}: {text}"),
    }
}

/// Returns the lines of a section, without the folder of the fixtures.
fn found(section: &str) -> Vec<String> {
    let mut words = section.split(' ');
    let path = fixture(words.next().unwrap());
    let words: Vec<_> = words.collect();
    let mut options = options(if words.contains(&"v2") { Format::KERCHUNK_JSON } else { Format::ZARR3_JSON });
    words.iter().for_each(|word| apply(&mut options, word));
    let diagnostics = match futures::executor::block_on(open(&path.to_string_lossy(), &options)) {
        Ok(store) => store.report.diagnostics,
        Err(Error::Refused { diagnostics, .. }) => diagnostics,
        Err(error) => panic!("{section}: {error}"),
    };
    let folder = path.parent().unwrap();
    let folders = [folder.canonicalize().unwrap().display().to_string(), folder.display().to_string()];
    let short =
        |text: String| folders.iter().fold(text, |text, folder| text.replace(&format!("{folder}/"), ""));
    diagnostics.iter().map(|diagnostic| short(line(diagnostic))).collect()
}

#[test]
fn diagnostics_are_those_of_the_table() {
    let mut differ = String::new();
    for section in include_str!("../diagnostics.txt").split("== ").skip(1) {
        let (title, lines) = section.split_once('\n').unwrap();
        let found = found(title);
        if found != lines.lines().filter(|line| !line.is_empty()).collect::<Vec<_>>() {
            differ.push_str(&format!("== {title}\n{}\n\n", found.join("\n")));
        }
    }
    assert!(differ.is_empty(), "found:\n{differ}");
}
