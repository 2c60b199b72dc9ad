//! One stream of samples in, shards out: cut by number or size, in turn or by a hash of the key.
//! A shard is cut only between samples and appears under its name only when it is complete.

mod args;
mod earlier_shards;
mod finisher;
mod router;
mod sequence;

use std::ffi::OsString;
use std::process::ExitCode;

use anyhow::Result;
use tarpipe::cli::{self, Outcome};
use tarpipe::compression::{Compression, CompressionFormat};
use tarpipe::messages;
use tarpipe::sample::stream::SampleStream;
use tarpipe::source;
use tarpipe::tally::{Tally, counted};

pub(crate) use args::Args;
use finisher::Finisher;
use router::Router;

/// Runs the tool with these arguments, its name first.
pub fn main(args: Vec<OsString>) -> ExitCode {
    cli::main(args, run)
}

fn run(args: Args) -> Result<Outcome> {
    let layout = args.layout()?;
    let mut earlier = args.check_existing(&layout)?;
    warn_of_compression(&args);
    let names = args.input.names()?;
    cli::expect_bytes(&names);
    let mut router = Router::new(args.shards, args.by_hash.as_ref());
    let mut sequences = router.sequences(&layout);
    let mut finisher = Finisher::new(args.finish_steps(), args.parallel.threads());
    let mut tally = Tally::default();
    'all: for (i, name) in names.iter().enumerate() {
        let mut stream = SampleStream::open(name, args.input.ignore_eof)?;
        names.get(i + 1).into_iter().for_each(|next| source::prefetch(next));
        while let Some(head) = stream.next()? {
            let sequence = &mut sequences[router.route(&head.key)];
            if !sequence.make_room(&mut finisher, &mut earlier)? {
                messages::notice(&format!("stopped after {} (--max-shards)", counted(finisher.started(), "shard")));
                break 'all;
            }
            sequence.copy(&mut stream)?;
            tally.done();
        }
        tally.merge(stream.tally());
    }
    sequences.into_iter().try_for_each(|sequence| sequence.finish(&mut finisher))?;
    finisher.finish()?;
    earlier.warn();
    Ok(tally.into())
}

/// Warns if no common loader reads shards of the chosen compression, or only some do: users would learn it days later.
/// gzip goes without saying: it is what compressed shards usually are.
fn warn_of_compression(args: &Args) {
    let format = args.packing.compression().or_else(|| Compression::by_suffix(&args.output)).map(Compression::format);
    if let Some(format) = format.filter(|&format| format != CompressionFormat::Gzip) {
        let loaders = format.loaders_without().join(", ");
        messages::notice(&format!("warning: {format}: these loaders cannot read the shards: {loaders}"));
    }
}
