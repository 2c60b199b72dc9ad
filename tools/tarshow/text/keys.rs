//! Prints keys or their number. Reads only headers, unless `--select` needs the content.

use anyhow::Result;
use tarpipe::cli;
use tarpipe::messages::progress;
use tarpipe::sample::stream::SampleStream;
use tarpipe::tally::Tally;
use tarpipe::value::slice::Slice;

use crate::tarshow::args::Args;
use crate::tarshow::samples::SelectedSamples;
use crate::tarshow::text::printable::clean;
use crate::tarshow::text::text_output::TextOutput;

/// Prints one key per line.
pub fn print_keys(args: &Args) -> Result<Tally> {
    let mut output = TextOutput::create(&args.output)?;
    let tally = visit(args, |key| output.write(format!("{}\n", clean(key)).as_bytes()))?;
    output.finish()?;
    Ok(tally)
}

/// Prints the number of samples.
pub fn print_count(args: &Args) -> Result<Tally> {
    let mut output = TextOutput::create(&args.output)?;
    let mut count = 0_u64;
    let tally = visit(args, |_| {
        count += 1;
        Ok(())
    })?;
    output.write(format!("{count}\n").as_bytes())?;
    output.finish()?;
    Ok(tally)
}

fn visit(args: &Args, mut each: impl FnMut(&str) -> Result<()>) -> Result<Tally> {
    if args.select.is_none() {
        return visit_headers(args, each);
    }
    let selected = SelectedSamples::open(args)?;
    let tally = selected.tally();
    for sample in selected {
        each(&sample?.key)?;
        tally.add(|tally| tally.done());
    }
    Ok(tally.take())
}

fn visit_headers(args: &Args, mut each: impl FnMut(&str) -> Result<()>) -> Result<Tally> {
    let names = args.input.names()?;
    cli::expect_bytes(&names);
    let slice = args.slice.unwrap_or(Slice::ALL);
    let (mut tally, mut seen) = (Tally::default(), 0);
    for name in names {
        if slice.is_over(seen) {
            break;
        }
        let mut stream = SampleStream::open(&name, args.input.ignore_eof)?;
        while !slice.is_over(seen) {
            let Some(head) = stream.next()? else { break };
            stream.skip()?;
            if slice.has(seen) {
                each(&head.key)?;
                tally.done();
                progress::add_sample();
            }
            seen += 1;
        }
        tally.merge(stream.tally());
    }
    Ok(tally)
}
