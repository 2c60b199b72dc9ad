//! The flags of tarsplit, and the checks of those that exclude each other.

use anyhow::{Context, Result, bail};
use clap::Parser;
use tarpipe::cli::{ForceFlag, InputFlags, PackingFlags, ParallelFlags, Usage, Verbosity};
use tarpipe::compression::Compression;
use tarpipe::sink;
use tarpipe::tally::counted;
use tarpipe::value::size;
use tarpipe::value::template::Template;

use crate::tarsplit::earlier_shards::EarlierShards;
use crate::tarsplit::finisher::FinishSteps;
use crate::tarsplit::router::Splits;
use crate::tarsplit::sequence::ShardLayout;

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
pub struct Args {
    /// Name shards by PATTERN, with {shard:06} or %06d for the number
    ///
    /// With --by-hash, {split} is the name of the split. pipe:COMMAND and |COMMAND write
    /// each shard to a command. The suffix selects the compression.
    #[arg(short, long, value_name = "PATTERN")]
    pub output: String,

    /// Close a shard when it holds N samples
    #[arg(short = 'n', long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub samples: Option<u64>,

    /// Close a shard when it reaches SIZE (200M, 1G), before compression
    ///
    /// The sample that reaches SIZE is the last one of the shard.
    #[arg(short, long, value_name = "SIZE", value_parser = size::parse)]
    pub size: Option<u64>,

    /// Distribute the samples in turn over N shards, all open at once
    #[arg(long, value_name = "N", conflicts_with_all = ["samples", "size", "by_hash", "max_shards"])]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=4096))]
    pub shards: Option<u64>,

    /// Split by a hash of the key, such as train=0.9,val=0.1
    ///
    /// A list, separated by commas or blanks. The shares must add up to 1. The first 8 bytes of the SHA-256 of the key,
    /// read as a fraction, decide: a key always falls into the same split, whatever the order of the samples.
    #[arg(long, value_name = "NAME=SHARE,…")]
    pub by_hash: Option<Splits>,

    /// Number the first shard N
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub start: u64,

    /// Stop after N shards and leave the rest of the input unread
    #[arg(long, value_name = "N", conflicts_with = "by_hash")]
    pub max_shards: Option<u64>,

    /// Run CMD for every finished shard; {} and %s are replaced by its name
    ///
    /// Up to -p commands run at once. If one fails, the run fails.
    #[arg(long, value_name = "CMD")]
    pub post: Option<String>,

    /// Remove a shard after its --post command has succeeded
    #[arg(long, requires = "post")]
    pub delete_after_post: bool,

    /// Write an index in DALI's format beside each shard (NAME.idx)
    #[arg(long)]
    pub index: bool,

    /// Write samples, bytes, fields and SHA-256 as JSON beside each shard (NAME.stats.json)
    #[arg(long)]
    pub stats: bool,

    #[command(flatten)]
    pub input: InputFlags,
    #[command(flatten)]
    pub force: ForceFlag,
    #[command(flatten)]
    pub packing: PackingFlags,
    #[command(flatten)]
    pub parallel: ParallelFlags,
    #[command(flatten)]
    pub talk: Verbosity,
}

const EXAMPLES: &str = "Examples:
  # Shards of up to 10,000 samples and about 1 GB
  tarcat 'raw-{000..099}.tar' | tarsplit -n 10000 -s 1G -o 'train-{shard:06}.tar'

  # Upload each shard as it is finished
  tarsplit -s 1G -o 'tmp-%06d.tar' --post 'gsutil cp {} gs://bucket/' --delete-after-post big.tar

  # A training and a validation set
  tarsplit --by-hash train=0.95,val=0.05 -n 5000 -o '{split}-{shard:05}.tar' big.tar";

impl Args {
    /// Names and limits of the shards. A usage error for flags that contradict each other.
    pub fn layout(&self) -> Result<ShardLayout> {
        let usage = |text: String| Err(Usage(text).into());
        let output = &self.output;
        let unlimited = self.samples.is_none() && self.size.is_none();
        if unlimited && self.shards.is_none() && self.by_hash.is_none() {
            return usage("no limit for a shard; use -n SAMPLES, -s SIZE, --shards N or --by-hash".into());
        }
        let pattern = Template::parse(output, &["shard", "split"]).context(Usage(format!("-o {output}")))?;
        let makes_several = !unlimited || self.shards.is_some();
        if makes_several && !pattern.has("shard") {
            return usage(format!("-o {output}: no placeholder for the shard number; use {{shard:06}} or %06d"));
        }
        if pattern.has("split") != self.by_hash.is_some() {
            return usage(format!("-o {output}: {{split}} and --by-hash need each other"));
        }
        if sink::is_command(output) && (self.index || self.stats || self.post.is_some()) {
            return usage(format!("-o {output}: --index, --stats and --post need shards that are files"));
        }
        let compression = self.packing.compression();
        if self.index && (compression.is_some() || Compression::by_suffix(output).is_some()) {
            return usage("--index needs uncompressed shards; remove --index or the compression".into());
        }
        Ok(ShardLayout {
            pattern,
            start: self.start,
            max_samples: self.samples,
            max_bytes: self.size,
            max_shards: self.max_shards,
            index: self.index,
            stats: self.stats,
            compression,
            threads: self.parallel.threads(),
        })
    }

    /// Deals with shards of an earlier run that this one could write or leave beside its own: those of the same pattern with
    /// a number from --start on. An error without --force, otherwise a notice at the end about those that remain.
    pub fn check_existing(&self, layout: &ShardLayout) -> Result<EarlierShards> {
        let earlier = EarlierShards::find(&layout.pattern, self.start..self.end(), self.by_hash.as_ref())?;
        if !self.force.replaces()
            && let Some(first) = earlier.first()
        {
            let count = counted(earlier.count() as u64, "shard");
            let exist = if earlier.count() == 1 { "exists" } else { "exist" };
            bail!(
                "-o {}: {count} of this pattern {exist}, such as {first}; remove them, or use --force to replace those that \
                   are written again",
                self.output
            );
        }
        Ok(earlier)
    }

    /// The number after that of the last shard that can be written.
    fn end(&self) -> u64 {
        self.shards.or(self.max_shards).map_or(u64::MAX, |shards| self.start.saturating_add(shards))
    }

    pub fn finish_steps(&self) -> FinishSteps {
        FinishSteps { post: self.post.clone(), delete: self.delete_after_post, stats: self.stats }
    }
}
