//! Archives whose members stand in any order: brought together by key.

use anyhow::{Result, bail};
use tarpipe::cli::{self, Outcome, Samples, Usage};
use tarpipe::location;
use tarpipe::messages::progress;
use tarpipe::sort::{Groups, Packer};
use tarpipe::tally::Tally;

use crate::keys::KEY_COLUMN;
use crate::recipe::{kind, source_names};
use crate::{Args, Kind};

/// The archives that were named, if it is archives.
pub fn archives(args: &Args) -> Result<Option<Vec<String>>> {
    if args.dir.is_some() || args.lines.is_some() {
        return Ok(None);
    }
    let names = source_names(args)?;
    if kind(args, &names)? != Kind::Tar {
        return Ok(None);
    }
    if args.key.is_some() || args.key_col != KEY_COLUMN || args.base.is_some() || args.check || args.allow_pipes {
        let said = "an archive has its keys and its content: no -C, --key, --key-col, --check or --allow-pipes with it";
        bail!(Usage(said.into()));
    }
    Ok(Some(names))
}

/// Writes the samples of the archives, sorted by key.
pub fn run(args: &Args, names: Vec<String>) -> Result<Outcome> {
    let mut out = args.output.create(&args.parallel)?;
    let shown = names.iter().map(|name| location::display(name)).collect::<Vec<_>>().join(", ");
    let (mut sorter, mut packer) = (args.sorter(), Packer::new(true));
    progress::begin_phase("reading", None);
    cli::expect_bytes(&names);
    let mut samples = Samples::new(names, false, args.max_size);
    let counts = samples.tally();
    while let Some(sample) = samples.next().transpose()? {
        let key = sample.key.as_bytes();
        sorter.push(key, &packer.pack(&sample, key)?)?;
        progress::add_sample();
    }
    drop(samples);
    progress::begin_phase("writing", Some(sorter.bytes()));
    let mut sorted = sorter.finish()?;
    let (mut groups, mut tally) = (Groups::default(), Tally::default());
    while let Some(record) = sorted.next()? {
        progress::add_bytes(record.body.len() as u64);
        let sample = packer.unpack(&record)?;
        if groups.is_new(sample.key, sample.fields(), &shown)? {
            out.begin(sample.key, &shown)?;
            tally.done();
        }
        sample.write(out.writer())?;
    }
    out.finish()?;
    tally.merge(&counts.take());
    Ok(Outcome { tally, max_failures: args.max_failures })
}
