//! Writes a plan and the parts of files that do not exist, all like one file that does:
//! `generate_parts TEMPLATE FOLDER FILES SHARDS v2|v3 [FIRST]`, where FIRST is the number of the first file (0).
//!
//! The combined dataset is that of `virtualize batch FOLDER/files.jsonl … --concat-dim time --plan FOLDER/plan
//! --parts FOLDER/parts/`.

#![allow(clippy::print_stdout, reason = "a program")]

use std::{
    error::Error,
    fs::File,
    io::{BufWriter, Write},
    ops::Range,
    path::Path,
};

use virtualize::options::{ConnectionOptions, MappingOptions};
use virtualize_archive::{Batch, Shard, Target, list::Input};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [template, folder, files, shards, format] =
        arguments.first_chunk().ok_or("five arguments are needed")?;
    let (files, shards): (u64, u64) = (files.parse()?, shards.parse()?);
    let first: u64 = arguments.get(5).map_or(Ok(0), |first| first.parse())?;
    let target = Target::of_name(if format == "v2" { "x.json" } else { "x.zarr" }).ok_or("no format")?;
    std::fs::create_dir_all(Path::new(folder).join("parts"))?;
    let (list, plan) = (format!("{folder}/files.jsonl"), format!("{folder}/plan"));
    write_list(&list, std::fs::metadata(template)?.len(), first..first + files)?;
    let options =
        MappingOptions::default().options(ConnectionOptions::default().options(), target.zarr_format());
    let builder = Batch::builder("x").inputs([Input::List(list)]).target(target).options(options);
    let batch = builder.concat_dim("time").overwrite(true).build();
    let runtime = tokio::runtime::Runtime::new()?;
    runtime.block_on(batch.write_plan(&plan, |_| {}))?;
    let generate = |number: u64| {
        let part = format!("{folder}/parts/{number:05}");
        let shard = Shard { plan: Some(plan.clone()), number, of: shards, part };
        let (batch, template) = (batch.clone(), template.clone());
        async move { batch.generate_part(&shard, first, &template).await }
    };
    let cores = std::thread::available_parallelism()?.get() as u64;
    for start in (1..=shards).step_by(usize::try_from(cores)?) {
        let tasks: Vec<_> =
            (start..=shards.min(start + cores - 1)).map(|number| runtime.spawn(generate(number))).collect();
        for task in tasks {
            runtime.block_on(task)??;
        }
    }
    Ok(())
}

/// Writes a list of files with what a listing of a bucket has.
fn write_list(path: &str, size: u64, numbers: Range<u64>) -> Result<(), Box<dyn Error>> {
    let mut out = BufWriter::new(File::create(path)?);
    for number in numbers {
        let (folder, modified) = (number / 10_000, 1_700_000_000_000 + number);
        writeln!(
            out,
            r#"{{"url":"s3://archive/t2m/{folder:05}/t2m_{number:010}.nc","size":{size},"etag":"\"{:032x}\"","modified":{modified}}}"#,
            u128::from(number).wrapping_mul(0x9E37_79B9_7F4A_7C15_F39C_C060_5CED_C835)
        )?;
    }
    Ok(out.flush()?)
}
