//! Archives whose members are in any order: sorts the members by key, so that each sample is in one piece.

use anyhow::{Result, bail};
use tarpipe::cli::{self, Outcome, Samples, Usage};
use tarpipe::location;
use tarpipe::messages::progress;
use tarpipe::sort::{KeyGroups, Packer};
use tarpipe::tally::Tally;

use crate::tarcreate::keys::KEY_COLUMN;
use crate::tarcreate::{Args, SourceKind};

/// The names of the sources if they are archives, else None.
pub fn archives(args: &Args) -> Result<Option<Vec<String>>> {
    if args.dir.is_some() || args.lines.is_some() {
        return Ok(None);
    }
    let names = args.source_names()?;
    if args.source_kind(&names)? != SourceKind::Tar {
        return Ok(None);
    }
    if args.key.is_some() || args.key_col != KEY_COLUMN || args.base.is_some() || args.check || args.allow_pipes {
        bail!(Usage("-C, --key, --key-col, --check and --allow-pipes do not apply to archives".into()));
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
    let (mut groups, mut tally) = (KeyGroups::default(), Tally::default());
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
