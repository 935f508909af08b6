use std::io::{self, Write};

use virtualize::{Checked, ValidationReport, read_references, validate};

use crate::{
    arguments::Validate,
    exit::Failure,
    messages::{self, printable},
};

/// Runs `virtualize validate REFS`.
pub(crate) async fn run(arguments: &Validate) -> Result<(), Failure> {
    let options = arguments.reading.options();
    let store = read_references(&arguments.references, &options).await?;
    messages::warnings(store.name(), store.warnings());
    let report = validate(&store, arguments.sample(), &options).await?;
    let mut out = io::BufWriter::new(io::stdout().lock());
    match arguments.json {
        true => json(&report, &mut out)?,
        false => table(&report, &mut out)?,
    }
    out.flush()?;
    if report.is_valid() { Ok(()) } else { Err(Failure::Found) }
}

/// Prints one line per array and source, and one per listed problem.
fn table(report: &ValidationReport, out: &mut impl Write) -> io::Result<()> {
    for (title, checked) in [("array", &report.arrays), ("source", &report.sources)] {
        writeln!(out, "{:>10} {:>10} {:>10}  {title}", "chunks", "decoded", "problems")?;
        for one in checked {
            let slash = if title == "array" { "/" } else { "" };
            writeln!(
                out,
                "{:>10} {:>10} {:>10}  {slash}{}",
                one.chunks,
                one.decoded,
                one.problems,
                printable(&one.name)
            )?;
            for problem in &one.listed {
                writeln!(out, "{:>32}  {}", "", printable(problem))?;
            }
            if one.problems > one.listed.len() as u64 {
                writeln!(out, "{:>32}  …", "")?;
            }
        }
    }
    for note in &report.notes {
        writeln!(out, "note: {}", printable(note))?;
    }
    Ok(())
}

fn json(report: &ValidationReport, out: &mut impl Write) -> io::Result<()> {
    let list = |checked: &[Checked]| -> Vec<_> {
        let one = |one: &Checked| {
            serde_json::json!({"name": one.name, "chunks": one.chunks, "decoded": one.decoded,
                "problems": one.problems, "told": one.listed})
        };
        checked.iter().map(one).collect()
    };
    let document = serde_json::json!({"valid": report.is_valid(), "arrays": list(&report.arrays),
        "sources": list(&report.sources), "notes": report.notes});
    serde_json::to_writer_pretty(&mut *out, &document)?;
    writeln!(out)
}
