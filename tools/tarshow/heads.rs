//! Keys and their number: nothing but headers is looked at, unless an expression asks for more.

use anyhow::Result;
use tarpipe::cli;
use tarpipe::messages::progress;
use tarpipe::sample::stream::Stream;
use tarpipe::tally::Tally;
use tarpipe::value::slice::Slice;

use crate::args::Args;
use crate::flow::Taken;
use crate::output::Output;
use crate::readable::clean;

/// Prints every key on a line.
pub fn keys(args: &Args) -> Result<Tally> {
    let mut output = Output::create(&args.output)?;
    let tally = visit(args, |key| output.write(format!("{}\n", clean(key)).as_bytes()))?;
    output.finish()?;
    Ok(tally)
}

/// Prints how many samples there are.
pub fn count(args: &Args) -> Result<Tally> {
    let mut output = Output::create(&args.output)?;
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
        return visit_heads(args, each);
    }
    let taken = Taken::open(args)?;
    let tally = taken.tally();
    for sample in taken {
        each(&sample?.key)?;
        tally.add(|tally| tally.done());
    }
    Ok(tally.take())
}

fn visit_heads(args: &Args, mut each: impl FnMut(&str) -> Result<()>) -> Result<Tally> {
    let names = args.input.names()?;
    cli::expect_bytes(&names);
    let slice = args.slice.unwrap_or(Slice::ALL);
    let (mut tally, mut seen) = (Tally::default(), 0);
    for name in names {
        if slice.is_over(seen) {
            break;
        }
        let mut stream = Stream::open(&name, args.input.ignore_eof)?;
        while !slice.is_over(seen) {
            let Some(head) = stream.next()? else { break };
            stream.pass()?;
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
