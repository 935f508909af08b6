//! Combines files along dimensions, by the functions of the library, one file after the other:
//!
//! `combine OUTPUT FORMAT OPTION… FILE…`, options being `--concat-dim NAME`, `--stack-dim NAME`, `--concat-var NAME`,
//! `--assume-equal NAME`, `--optional NAME`, `--inline-limit BYTES`, `--rectilinear`, `--on-duplicate first|last`,
//! `--on-mismatch split|skip`, `--allow-holes`, `--coord-from-name PATTERN`. Writes what is to be known, a line each.

use std::{collections::BTreeMap, error::Error, io::Write as _};

use virtualize::{Format, MapOptions, Options, VirtualStore, digest, open, read_array, write};
use virtualize_archive::{
    Along, Item, Layout, Member,
    combine::{self, Brief, CombineError, Known, OnDuplicate, OnMismatch, PlanOptions},
    eras::Signature,
};

#[derive(Default)]
struct Arguments {
    layout: Layout,
    plan: PlanOptions,
    files: Vec<String>,
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let output = arguments.next().ok_or("no output")?;
    let format = match arguments.next().as_deref() {
        Some("zarr3-json") => Format::Zarr3Json,
        _ => Format::KerchunkJson,
    };
    let arguments = parse(arguments)?;
    let options = Options {
        map: MapOptions { format: format.zarr_format(), ..MapOptions::default() },
        ..Options::default()
    };
    futures::executor::block_on(run(&output, format, &arguments, &options))
}

fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Arguments, Box<dyn Error>> {
    let mut parsed = Arguments::default();
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().ok_or("a value is missing");
        let Arguments { layout, plan, files } = &mut parsed;
        match argument.as_str() {
            "--concat-dim" => layout.along.push(Along::Concat(value()?)),
            "--stack-dim" => layout.along.push(Along::Stack(value()?)),
            "--concat-var" => drop(layout.concat_vars.insert(value()?)),
            "--assume-equal" => drop(layout.assume_equal.insert(value()?)),
            "--optional" => drop(layout.optional.insert(value()?)),
            "--inline-limit" => layout.inline_limit = value()?.parse()?,
            "--rectilinear" => layout.rectilinear = true,
            "--coord-from-name" => layout.names = Some(value()?.parse()?),
            "--allow-holes" => plan.allow_holes = true,
            "--fill-without-sentinel" => plan.fill_without_sentinel = true,
            "--on-duplicate" => {
                plan.on_duplicate = if value()? == "first" { OnDuplicate::First } else { OnDuplicate::Last };
            }
            "--on-mismatch" => {
                plan.on_mismatch = if value()? == "split" { OnMismatch::Split } else { OnMismatch::Skip };
            }
            _ => files.push(argument),
        }
    }
    Ok(parsed)
}

async fn run(
    output: &str,
    format: Format,
    arguments: &Arguments,
    options: &Options,
) -> Result<(), Box<dyn Error>> {
    let Arguments { layout, plan, files } = arguments;
    let mut members = BTreeMap::new();
    let mut briefs = Vec::new();
    for (row, file) in (0..).zip(files) {
        let member = read(file, layout, options).await?;
        briefs.push(Brief::of(row, &member, &Signature::default(), layout)?);
        members.insert(row, member);
    }
    let planned = combine::plan(briefs, &Known::nothing(), layout, plan)?;
    let mut out = std::io::stdout();
    for note in &planned.notes {
        writeln!(out, "{}: {}", note.subject, note.text)?;
    }
    for left in &planned.left_out {
        writeln!(out, "{}: left out: {}", left.url, left.reason)?;
    }
    let era = planned.eras.first().ok_or("no era")?;
    let mut get = |row| members.remove(&row).ok_or(CombineError::Nothing);
    let (hierarchy, notes) = combine::combine(era, layout, plan, &mut get)?;
    for note in notes {
        writeln!(out, "{}: {}", note.subject, note.text)?;
    }
    Ok(write(&VirtualStore::of(hierarchy, "combined"), format, output, &options.store).await?)
}

async fn read(file: &str, layout: &Layout, options: &Options) -> Result<Member, Box<dyn Error>> {
    let store = open(file, options).await?;
    let wanted = combine::wanted(&store.hierarchy, layout);
    let (mut values, mut digests) = (BTreeMap::new(), BTreeMap::new());
    for path in wanted.values {
        let read = read_array(&store, &path, &options.store).await?;
        values.insert(path, read);
    }
    for path in wanted.digests {
        let read = read_array(&store, &path, &options.store).await?;
        digests.insert(path, digest(&read));
    }
    let item = Item { url: file.to_owned(), ..Item::default() };
    let given = combine::given(&item, layout)?;
    Ok(Member { item, hierarchy: store.hierarchy, values, digests, given })
}
