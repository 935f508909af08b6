//! Measures the time to read a whole array, several times: `read_array FILE ARRAY [TIMES]`.
#![expect(clippy::print_stdout, reason = "a measurement")]

use std::{sync::Arc, time::Instant};

use virtualize::{ArrayReader, Options, Selection, open};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [file, path, rest @ ..] = arguments.as_slice() else {
        return Err("read_array FILE ARRAY [TIMES]".into());
    };
    let times = rest.first().map_or(Ok(3), |times| times.parse())?;
    let options = Options::default();
    let store = futures::executor::block_on(open(file, &options))?;
    let array = store.hierarchy.array(path).ok_or("no such array")?;
    let selection = Selection::all(&array.shape);
    let bytes = selection.check(&array.shape)?.saturating_mul(array.data_type.size().unwrap_or(0));
    let reader = ArrayReader::new(Arc::new(store), options.store);
    for _ in 0..times {
        let start = Instant::now();
        let mut out = vec![0; usize::try_from(bytes)?];
        reader.read(path, &selection, &mut out)?;
        println!("{bytes} bytes in {:.3} s", start.elapsed().as_secs_f64());
    }
    Ok(())
}
