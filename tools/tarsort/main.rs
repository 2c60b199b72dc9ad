//! Samples in, the same samples out in another order. Streams larger than memory are sorted on
//! disk; for files only the order is held in memory, and samples are copied from their offsets.

mod number;
mod order;
mod places;
mod rule;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::Parser;
use tarpipe::cli::{self, Held, Input, Outcome, Output, Parallel, Samples, Talk};
use tarpipe::messages;
use tarpipe::messages::progress;
use tarpipe::random::Random;
use tarpipe::sample::shard::Shard;
use tarpipe::sort::{Options, Packer, Sorter};
use tarpipe::tally::Tally;
use tarpipe::value::size;

use order::{By, Order};
use places::Files;
use rule::Rule;

/// Sort or shuffle a stream of samples that need not fit into memory
///
/// Sorts by key, by the content of a field, or by a value in a JSON field; or shuffles, with every
/// order equally likely. Samples that compare equal keep their input order. Members keep their
/// headers and bytes.
///
/// A stream larger than --memory is sorted in pieces, which are written to an unnamed file in
/// --tmpdir and merged from there; that file is at most as large as the stream plus the fields
/// sorted by. For uncompressed files, only the order is held in memory and samples are copied from
/// their offsets; if seeking is slow, pipe the files in.
///
/// Keys in the output are unique: when sorting by key, a repeated key is an error unless --unique
/// or --group is given.
#[derive(Parser)]
#[command(name = "tarsort", version, after_long_help = EXAMPLES)]
struct Args {
    /// Sort by the content of a field, or by a value in a JSON field
    ///
    /// cls is a field; json.width is the value width of the field json, and json.boxes.0 the
    /// first of a list. Content compares byte by byte, to its end; values of JSON by their
    /// type: false, true, numbers, text. Samples without it come last.
    #[arg(short = 'k', long, value_name = "FIELD[.PATH]")]
    by: Option<String>,

    /// Compare values as numbers; non-numeric values sort last
    #[arg(short, long, requires = "by")]
    numeric: bool,

    /// Sort in descending order
    #[arg(short, long)]
    reverse: bool,

    /// Put the samples in random order
    #[arg(long, conflicts_with_all = ["by", "reverse", "unique", "group"])]
    shuffle: bool,

    /// Seed of the random order: the same number gives the same order
    #[arg(long, value_name = "S", default_value_t = 0, requires = "shuffle")]
    seed: u64,

    /// Keep the first of samples that compare equal; count the others as duplicate
    #[arg(short, long, conflicts_with = "group")]
    unique: bool,

    /// Merge samples that share a key into one; a repeated field is an error
    #[arg(long, conflicts_with = "by")]
    group: bool,

    /// Hold up to SIZE in memory
    #[arg(long, value_name = "SIZE", default_value = "1G", value_parser = size::parse)]
    memory: u64,

    /// Directory for data that does not fit into memory [default: TMPDIR or /tmp]
    #[arg(long, value_name = "DIR")]
    tmpdir: Option<PathBuf>,

    /// Compress the data in --tmpdir, for slow or small disks
    #[arg(long)]
    compress_spill: bool,

    #[command(flatten)]
    held: Held,
    #[command(flatten)]
    input: Input,
    #[command(flatten)]
    output: Output,
    #[command(flatten)]
    parallel: Parallel,
    #[command(flatten)]
    talk: Talk,
}

const EXAMPLES: &str = "Examples:
  # A full shuffle of a dataset, repeatable, into new shards
  tarsort --shuffle --seed 7 'raw-{000..147}.tar' | tarsplit -n 10000 -o 'train-{shard:05}.tar'

  # The widest pictures first
  tarsort -k json.width --reverse in.tar -o by-width.tar

  # Bring scattered members of a sample together
  tarsort --group scattered.tar -o whole.tar

  # Each caption once, with little memory
  cat *.tar | tarsort -k txt --unique --memory 256M --tmpdir /scratch -o captions.tar";

fn main() -> ExitCode {
    cli::main(run)
}

fn run(args: Args) -> Result<Outcome> {
    let names = args.input.names()?;
    let mut out = args.output.create(&args.parallel)?;
    progress::begin_phase("reading", None);
    cli::expect_bytes(&names);
    let tally = match Files::open(&names)? {
        Some(files) => match files.index(&args)? {
            Some(indexed) => indexed.write(&mut out)?,
            None => sort_stream(&args, names, &mut out)?,
        },
        None => sort_stream(&args, names, &mut out)?,
    };
    out.finish()?;
    Ok(tally.into())
}

impl Args {
    fn order(&self) -> Order {
        let by = match &self.by {
            _ if self.shuffle => By::Chance(Random::new(self.seed)),
            Some(field) => By::Field(field.clone()),
            None => By::Key,
        };
        Order::new(by, self.numeric, self.reverse)
    }

    fn sorter(&self) -> Sorter {
        let tmpdir = self.tmpdir.clone().unwrap_or_else(std::env::temp_dir);
        Sorter::new(Options { memory: self.memory, tmpdir, compress: self.compress_spill, reverse: self.reverse })
    }
}

/// What messages call the sources.
fn shown(names: &[String]) -> String {
    match names {
        [one] => tarpipe::location::display(one),
        several => format!("{} sources", several.len()),
    }
}

/// Samples through the sorter, whole.
fn sort_stream(args: &Args, names: Vec<String>, out: &mut Shard) -> Result<Tally> {
    let mut order = args.order();
    let mut sorter = args.sorter();
    let mut rule = Rule::new(args, shown(&names));
    let mut packer = Packer::new(args.group);
    let mut samples = Samples::new(names, args.input.ignore_eof, args.held.max_sample);
    let (counts, mut key) = (samples.tally(), Vec::new());
    while let Some(sample) = samples.next().transpose()? {
        order.key(&sample.key, |field| sample.get(field).map(|member| member.data.as_slice()), &mut key);
        sorter.push(&key, &packer.pack(&sample, &key)?)?;
        progress::add_sample();
    }
    order.note().iter().for_each(|note| messages::notice(note));
    drop(samples);
    let bytes = sorter.bytes();
    let mut sorted = sorter.finish()?;
    progress::begin_phase("writing", Some(bytes));
    while let Some(record) = sorted.next()? {
        progress::add_bytes((record.key.len() + record.body.len()) as u64);
        let sample = packer.unpack(&record)?;
        if rule.admit(&order, record.key, sample.key, sample.fields(), out)? {
            sample.write(out.writer())?;
        }
    }
    let mut tally = counts.take();
    tally.merge(&rule.tally);
    Ok(tally)
}
