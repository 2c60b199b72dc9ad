//! One stream of samples in, shards out: cut by number or size, dealt in turn or by hash.
//! A shard is cut only between samples and appears under its name only when it is whole.

mod close;
mod deal;
mod lane;

use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Parser;
use tarpipe::cli::{self, Input, Outcome, Packing, Parallel, Talk, Usage};
use tarpipe::compression::Compression;
use tarpipe::messages;
use tarpipe::sample::stream::Stream;
use tarpipe::sink;
use tarpipe::source;
use tarpipe::tally::{Tally, counted};
use tarpipe::value::size;
use tarpipe::value::template::Template;

use close::Closing;
use deal::{Deal, Splits};
use lane::{Layout, Room};

/// Cut a stream of samples into shards
///
/// Reads samples in order and writes them to shards named by a pattern. A shard is closed
/// when it holds -n samples or has reached -s bytes, always between two samples; the next
/// sample opens the next shard. -v and --stats tell which limit closed each shard.
///
/// Shards are written under temporary names, synced and renamed, so a shard that exists is
/// complete, whatever happens to the run.
#[derive(Parser)]
#[command(name = "tarsplit", version, after_long_help = EXAMPLES)]
struct Args {
    /// Name shards by PATTERN, with {shard:06} or %06d for the number
    ///
    /// With --by-hash, {split} is the name of the split. pipe:COMMAND and |COMMAND write
    /// each shard to a command. The suffix selects the compression.
    #[arg(short, long, value_name = "PATTERN")]
    output: String,

    /// Close a shard when it holds N samples
    #[arg(short = 'n', long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    samples: Option<u64>,

    /// Close a shard when it reaches SIZE (200M, 1G), before compression
    ///
    /// The sample that reaches SIZE is the last one of the shard.
    #[arg(short, long, value_name = "SIZE", value_parser = size::parse)]
    size: Option<u64>,

    /// Distribute the samples in turn over N shards, all open at once
    #[arg(long, value_name = "N", conflicts_with_all = ["samples", "size", "by_hash", "max_shards"])]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=4096))]
    shards: Option<u64>,

    /// Split by a hash of the key, such as train=0.9,val=0.1
    ///
    /// The shares must add up to 1. The first 8 bytes of the SHA-256 of the key, read as a fraction,
    /// decide: a key always falls into the same split, whatever the order of the samples.
    #[arg(long, value_name = "NAME=SHARE,…")]
    by_hash: Option<Splits>,

    /// Number the first shard N
    #[arg(long, value_name = "N", default_value_t = 0)]
    start: u64,

    /// Stop after N shards and leave the rest of the input unread
    #[arg(long, value_name = "N", conflicts_with = "by_hash")]
    max_shards: Option<u64>,

    /// Run CMD for every finished shard; {} and %s are replaced by its name
    ///
    /// Up to -p commands run at once. If one fails, the run fails.
    #[arg(long, value_name = "CMD")]
    post: Option<String>,

    /// Remove a shard after its --post command has succeeded
    #[arg(long, requires = "post")]
    delete_after_post: bool,

    /// Write an index in DALI's format beside each shard (NAME.idx)
    #[arg(long)]
    index: bool,

    /// Write samples, bytes, fields and SHA-256 as JSON beside each shard (NAME.stats.json)
    #[arg(long)]
    stats: bool,

    #[command(flatten)]
    input: Input,
    #[command(flatten)]
    packing: Packing,
    #[command(flatten)]
    parallel: Parallel,
    #[command(flatten)]
    talk: Talk,
}

const EXAMPLES: &str = "Examples:
  # Shards of up to 10,000 samples and about 1 GB
  tarcat 'raw-{000..099}.tar' | tarsplit -n 10000 -s 1G -o 'train-{shard:06}.tar'

  # Upload each shard as it is finished
  tarsplit -s 1G -o 'tmp-%06d.tar' --post 'gsutil cp {} gs://bucket/' --delete-after-post big.tar

  # A training and a validation set
  tarsplit --by-hash train=0.95,val=0.05 -n 5000 -o '{split}-{shard:05}.tar' big.tar";

fn main() -> ExitCode {
    cli::main(run)
}

fn run(args: Args) -> Result<Outcome> {
    let layout = layout(&args)?;
    let names = args.input.names()?;
    cli::expect_bytes(&names);
    let mut deal = Deal::new(args.shards, args.by_hash.as_ref());
    let mut lanes = deal.lanes(&layout);
    let mut closing = Closing::new(layout.finishing(args.post, args.delete_after_post), args.parallel.threads());
    let mut tally = Tally::default();
    'all: for (i, name) in names.iter().enumerate() {
        let mut stream = Stream::open(name, args.input.ignore_eof)?;
        names.get(i + 1).into_iter().for_each(|next| source::prefetch(next));
        while let Some(head) = stream.next()? {
            let lane = deal.lane_of(&head.key);
            if lanes[lane].room(&mut closing)? == Room::None {
                messages::notice(&format!("stopped after {} (--max-shards)", counted(closing.started(), "shard")));
                break 'all;
            }
            lanes[lane].copy(&mut stream)?;
            tally.done();
        }
        tally.merge(stream.tally());
    }
    lanes.into_iter().try_for_each(|lane| lane.finish(&mut closing))?;
    closing.finish()?;
    Ok(tally.into())
}

/// Checks the flags against each other and says how shards are named and when they are full.
fn layout(args: &Args) -> Result<Layout> {
    let usage = |text: String| Err(Usage(text).into());
    let unlimited = args.samples.is_none() && args.size.is_none();
    if unlimited && args.shards.is_none() && args.by_hash.is_none() {
        return usage("nothing says where to cut: use -n SAMPLES, -s SIZE, --shards N or --by-hash".into());
    }
    let pattern = Template::parse(&args.output, &["shard", "split"]).context(Usage(format!("-o {}", args.output)))?;
    let makes_several = !unlimited || args.shards.is_some();
    if makes_several && !pattern.has("shard") {
        return usage(format!("-o {}: no place for the number of the shard: use {{shard:06}} or %06d", args.output));
    }
    if pattern.has("split") != args.by_hash.is_some() {
        return usage(format!("-o {}: {{split}} and --by-hash go together", args.output));
    }
    if sink::is_command(&args.output) && (args.index || args.stats || args.post.is_some()) {
        return usage("a shard that goes to a command has no name for --index, --stats or --post".into());
    }
    let compression = args.packing.compression();
    if args.index && (compression.is_some() || Compression::by_suffix(&args.output).is_some()) {
        return usage("--index points into uncompressed shards; leave the compression or the index out".into());
    }
    Ok(Layout {
        pattern,
        start: args.start,
        max_samples: args.samples,
        max_bytes: args.size,
        max_shards: args.max_shards,
        index: args.index,
        stats: args.stats,
        compression,
        threads: args.parallel.threads(),
    })
}
