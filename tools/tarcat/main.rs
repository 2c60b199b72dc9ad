//! Streams in, one stream out: concatenated, sliced, selected, renamed, rekeyed, shuffled, mixed.
//! Samples that no flag inspects pass through without being held in memory; no sample is
//! changed unless a flag asks for it.

mod edit;
mod order;

use std::process::ExitCode;

use anyhow::{Result, bail};
use clap::Parser;
use tarpipe::cli::{self, Held, Input, Outcome, Output, Parallel, Samples, SharedTally, Talk, Usage};
use tarpipe::messages;
use tarpipe::sample::Sample;
use tarpipe::sample::select::Select;
use tarpipe::sample::shard::Shard;
use tarpipe::sample::stream::Stream;
use tarpipe::source;
use tarpipe::value::partition::Rank;
use tarpipe::value::slice::Slice;

use edit::{Fields, Rekey, drop_fields};
use order::{Mix, Shuffle};

/// Concatenate streams of samples; slice, select, rename, shuffle and mix them
///
/// Reads the sources one after another and writes their samples as one stream, in order. The
/// flags act in this order: sources are picked (--shard-slice, --shard) and shuffled, samples are
/// selected (--select), counted off (--slice, --skip, --count), their fields picked (-f, --drop),
/// shuffled (--shuffle) and rekeyed (--rekey).
///
/// Untouched members keep their headers and bytes. Members that belong to no sample
/// (directories, links, dot-files, names without a dot) are dropped and counted.
#[derive(Parser)]
#[command(name = "tarcat", version, after_long_help = EXAMPLES)]
struct Args {
    /// Keep only samples LO, LO+STEP, … below HI
    #[arg(long, value_name = "LO:HI[:STEP]")]
    slice: Option<Slice>,

    /// Skip the first N samples
    #[arg(long, value_name = "N", default_value_t = 0)]
    skip: u64,

    /// Stop after N samples
    #[arg(long, value_name = "N")]
    count: Option<u64>,

    /// Read only these sources, counted from 0
    #[arg(long, value_name = "LO:HI[:STEP]")]
    shard_slice: Option<Slice>,

    /// Take part I of N: every N-th source, or every N-th sample of a single source
    ///
    /// I counts from 0. env reads both from TARPIPE_SHARD (I/N), a Slurm array or a Kubernetes
    /// Indexed Job.
    #[arg(long, value_name = "I/N|env")]
    shard: Option<Rank>,

    /// Keep only these fields; NEW=OLD;OLDER renames the first that exists
    ///
    /// A list separated by blanks, such as 'jpg cls=class;label'. Fields keep their order. A
    /// sample with none of them fails as no_field.
    #[arg(short, long, value_name = "FIELDS")]
    fields: Option<Fields>,

    /// Remove these fields, such as 'json txt'
    #[arg(long, value_name = "FIELDS")]
    drop: Option<String>,

    /// Keep the samples for which a CEL expression holds
    ///
    /// The variables are key, fields (the list of fields) and each field by name: json fields as
    /// values, others as text; sample["c.jpg"] for names that are not identifiers. key.glob('a/*')
    /// and key.matches('regex') test the key.
    #[arg(long, value_name = "EXPR")]
    select: Option<Select>,

    /// Give samples new keys: a template such as {index:09}, or s/REGEX/REPLACEMENT/
    ///
    /// Templates take {index} (the number of the sample in the output), {key} and {base} (the last
    /// component of the key); replacements take $1.
    #[arg(long, value_name = "PATTERN")]
    rekey: Option<Rekey>,

    /// Shuffle the sources, and the samples through a buffer of N
    ///
    /// The buffer holds at most 1G, so large samples are shuffled less well.
    #[arg(long, value_name = "N")]
    shuffle: Option<usize>,

    /// Read N sources at a time, taking one sample from each in turn
    #[arg(long, value_name = "N", conflicts_with = "weights")]
    mix: Option<usize>,

    /// Draw from the SOURCE arguments at random, with these weights
    ///
    /// One weight per argument, such as 7,2,1. An argument drops out when it has been read to its end.
    #[arg(long, value_name = "W,W…", value_delimiter = ',')]
    weights: Vec<f64>,

    /// Seed of the random choices: the same number gives the same output
    #[arg(long, value_name = "S", default_value_t = 0)]
    seed: u64,

    /// Tolerate up to N missing or damaged sources; samples before the damage are kept
    #[arg(long, value_name = "N", default_value_t = 0)]
    max_bad: u64,

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
  # A dataset as one stream
  tarcat 'train-{0000..0147}.tar' | tarsplit -n 10000 -o 'big-{shard:05}.tar'

  # Large pictures only, with new keys, shuffled
  tarcat --select 'json.width >= 512' --shuffle 5000 --rekey '{index:09}' a.tar b.tar -o big.tar

  # Three parts of one dataset for each part of another
  tarcat --weights 3,1 'laion-{00..99}.tar' 'coco-{00..09}.tar' -o mix.tar";

fn main() -> ExitCode {
    cli::main(run)
}

fn run(args: Args) -> Result<Outcome> {
    let lists = args.input.lists()?;
    let several = lists.iter().map(Vec::len).sum::<usize>() > 1;
    let window = Window::new(&args, several);
    let sources = pick_sources(&args, lists, several)?;
    let mut out = args.output.create(&args.parallel)?;
    let tally = SharedTally::default();
    if looks_inside(&args) {
        edit(args, sources, window, &mut out, &tally)?;
    } else {
        pass(&sources.concat(), args.input.ignore_eof, window, &mut out, &tally)?;
    }
    out.finish()?;
    Ok(tally.take().into())
}

/// The lists of sources that are read, an argument each, in reading order.
fn pick_sources(args: &Args, mut lists: Vec<Vec<String>>, several: bool) -> Result<Vec<Vec<String>>> {
    if !args.weights.is_empty() && args.weights.len() != lists.len() {
        bail!(Usage(format!("--weights has {} numbers for {} arguments", args.weights.len(), lists.len())));
    }
    let slice = args.shard_slice.unwrap_or(Slice::ALL);
    let mut position = 0;
    for list in &mut lists {
        list.retain(|_| {
            position += 1;
            let at = position - 1;
            slice.has(at) && !args.shard.is_some_and(|rank| several && !rank.has(at))
        });
    }
    order::shuffle_sources(&mut lists, args.shuffle.map(|_| args.seed));
    cli::expect_bytes(&lists.concat());
    Ok(lists)
}

/// Which samples are taken, by their position.
struct Window {
    rank: Option<Rank>,
    slice: Slice,
    read: u64,
    fit: u64,
}

impl Window {
    fn new(args: &Args, several: bool) -> Self {
        let slice = args.slice.unwrap_or(Slice::ALL).skip_and_count(args.skip, args.count);
        Window { rank: args.shard.filter(|_| !several), slice, read: 0, fit: 0 }
    }

    /// Whether the next sample that was read is this process's part.
    fn is_ours(&mut self) -> bool {
        self.read += 1;
        self.rank.is_none_or(|rank| rank.has(self.read - 1))
    }

    /// Whether the next sample that was selected is in the slice.
    fn takes(&mut self) -> bool {
        self.fit += 1;
        self.slice.has(self.fit - 1)
    }

    fn is_over(&self) -> bool {
        self.slice.is_over(self.fit)
    }
}

/// Whether anything asks for samples in memory. Damage must not reach the output in the middle
/// of a sample, so bearing it does too.
fn looks_inside(args: &Args) -> bool {
    args.fields.is_some()
        || args.drop.is_some()
        || args.select.is_some()
        || args.rekey.is_some()
        || args.shuffle.is_some()
        || args.mix.is_some()
        || !args.weights.is_empty()
        || args.max_bad > 0
}

/// Samples straight from the sources to the output, never held.
fn pass(names: &[String], ignore_eof: bool, mut window: Window, out: &mut Shard, tally: &SharedTally) -> Result<()> {
    for (i, name) in names.iter().enumerate() {
        if window.is_over() {
            break;
        }
        let mut stream = Stream::open(name, ignore_eof)?;
        names.get(i + 1).into_iter().for_each(|next| source::prefetch(next));
        while !window.is_over() && stream.next()?.is_some() {
            if window.is_ours() && window.takes() {
                out.copy(&mut stream, |_| {})?;
                tally.add(|tally| tally.done());
            }
        }
        tally.merge(stream.tally());
    }
    Ok(())
}

/// Samples through memory, and through everything that was asked for.
fn edit(args: Args, sources: Vec<Vec<String>>, mut window: Window, out: &mut Shard, tally: &SharedTally) -> Result<()> {
    let (ignore_eof, max_sample, counts) = (args.input.ignore_eof, args.held.max_sample, tally.clone());
    let open = move |names| Samples::new(names, ignore_eof, max_sample).counted_in(&counts);
    let mut bad_left = args.max_bad;
    let mut shuffle = Shuffle::new(args.shuffle, args.seed);
    let mut index = 0;
    let mut write = |mut sample: Sample| -> Result<()> {
        if let Some(rekey) = &args.rekey {
            sample.rekey(rekey.key(&sample.key, index)?);
        }
        index += 1;
        out.write(&sample)?;
        tally.add(|tally| tally.done());
        Ok(())
    };
    let mut samples = Mix::new(sources, args.mix, args.weights, args.seed, open);
    while !window.is_over() {
        let mut sample = match samples.next() {
            None => break,
            Some(Err(err)) if bad_left > 0 => {
                bad_left -= 1;
                messages::notice(&format!("{err:#}; going on without the rest of it"));
                tally.add(|tally| tally.fail("damaged"));
                continue;
            }
            Some(sample) => sample?,
        };
        let fits = window.is_ours() && args.select.as_ref().is_none_or(|select| select.takes(&sample, tally));
        if !fits || !window.takes() {
            continue;
        }
        drop_fields(&mut sample, args.drop.as_deref());
        if let Some(fields) = &args.fields {
            fields.pick(&mut sample);
        }
        if sample.members.is_empty() {
            tally.add(|tally| tally.fail("no_field"));
            continue;
        }
        if let Some(sample) = shuffle.swap(sample) {
            write(sample)?;
        }
    }
    shuffle.drain().try_for_each(write)
}
