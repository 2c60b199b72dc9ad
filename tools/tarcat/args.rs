//! The flags of tarcat.

use clap::Parser;
use tarpipe::cli::{InputFlags, OutputFlags, ParallelFlags, SampleLimit, Verbosity};
use tarpipe::sample::join_on::JoinOn;
use tarpipe::sample::select::Select;
use tarpipe::value::list::List;
use tarpipe::value::partition::Partition;
use tarpipe::value::slice::Slice;

use crate::tarcat::edit::{KeptFields, Rekey};

/// Concatenate streams of samples; slice, select, rename, shuffle and mix them
///
/// Reads the sources one after another and writes their samples as one stream, in order. The
/// flags act in this order: sources are picked (--shard-slice, --shard) and shuffled, samples are
/// selected (--keys, --not-keys, --select), counted off (--slice, --skip, --count), their fields
/// picked (-f, --drop), shuffled (--shuffle) and rekeyed (--rekey).
///
/// Untouched members keep their headers and bytes. Members that belong to no sample
/// (directories, links, dot-files, names without a dot) are dropped and counted.
#[derive(Parser)]
#[command(name = "tarcat", version, after_long_help = EXAMPLES)]
pub struct Args {
    /// Keep only samples LO, LO+STEP, … below HI
    #[arg(long, value_name = "LO:HI[:STEP]")]
    pub slice: Option<Slice>,

    /// Skip the first N samples
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub skip: u64,

    /// Stop after N samples
    #[arg(long, value_name = "N")]
    pub count: Option<u64>,

    /// Read only these sources, counted from 0
    #[arg(long, value_name = "LO:HI[:STEP]")]
    pub shard_slice: Option<Slice>,

    /// Take part I of N: every N-th source, or every N-th sample of a single source
    ///
    /// I counts from 0. env reads both from TARPIPE_SHARD (I/N), a Slurm array or a Kubernetes
    /// Indexed Job.
    #[arg(long, value_name = "I/N|env")]
    pub shard: Option<Partition>,

    /// Keep only these fields; NEW=OLD;OLDER renames the first that exists
    ///
    /// A list, separated by commas or blanks. For example 'jpg cls=class;label'. Fields keep their order.
    /// A sample with none of them fails as no_field.
    #[arg(short, long, value_name = "FIELDS")]
    pub fields: Option<KeptFields>,

    /// Remove these fields, such as 'json txt'
    ///
    /// A list, separated by commas or blanks.
    #[arg(long, value_name = "FIELDS")]
    pub drop: Option<List>,

    /// Keep the samples for which a CEL expression holds
    ///
    /// The variables are key, fields (the list of fields) and each field by name: json fields as
    /// values, others as text; sample["c.jpg"] for names that are not identifiers. key.glob('a/*')
    /// and key.matches('regex') test the key.
    #[arg(long, value_name = "EXPR")]
    pub select: Option<Select>,

    /// Keep only the samples whose key is in FILE
    ///
    /// FILE is a text with one key per line, a csv, tsv, json, jsonl, parquet or arrow table with a
    /// column key (see --on), or an .npy array of text or of pairs of 64-bit numbers, as in DataComp.
    /// It can be any source. The order of the stream is kept. Lists of more than about 30 million keys
    /// are looked up in an unnamed file in TMPDIR.
    #[arg(long, value_name = "FILE")]
    pub keys: Option<String>,

    /// Keep only the samples whose key is not in FILE
    #[arg(long, value_name = "FILE")]
    pub not_keys: Option<String>,

    /// Look up VALUE of each sample in --keys and --not-keys, and in COLUMN of tables
    ///
    /// VALUE is key (the default), a field such as cls, or a value in a JSON field such as json.uid.
    /// COLUMN defaults to the last part of VALUE. A sample without VALUE is in no list.
    #[arg(long, value_name = "VALUE[=COLUMN]")]
    pub on: Option<JoinOn>,

    /// Give samples new keys: a template such as {index:09}, or s/REGEX/REPLACEMENT/
    ///
    /// Templates take {index} (the number of the sample in the output), {key} and {base} (the last
    /// component of the key); replacements take $1.
    #[arg(long, value_name = "PATTERN")]
    pub rekey: Option<Rekey>,

    /// Shuffle the sources, and the samples through a buffer of N
    ///
    /// The buffer holds at most 1G, so large samples are shuffled less well.
    #[arg(long, value_name = "N")]
    pub shuffle: Option<usize>,

    /// Read N sources at a time, taking one sample from each in turn
    #[arg(long, value_name = "N", conflicts_with = "weights")]
    pub mix: Option<usize>,

    /// Draw from the SOURCE arguments at random, with these weights
    ///
    /// A list, separated by commas or blanks. One weight per argument, such as 7,2,1. An argument drops
    /// out when it has been read to its end.
    #[arg(long, value_name = "W,W…")]
    pub weights: Vec<List<f64>>,

    /// Seed of the random choices: the same number gives the same output
    #[arg(long, value_name = "S", default_value_t = 0)]
    pub seed: u64,

    /// Tolerate up to N missing or damaged sources; samples before the damage are kept
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub max_bad: u64,

    #[command(flatten)]
    pub held: SampleLimit,
    #[command(flatten)]
    pub input: InputFlags,
    #[command(flatten)]
    pub output: OutputFlags,
    #[command(flatten)]
    pub parallel: ParallelFlags,
    #[command(flatten)]
    pub talk: Verbosity,
}

const EXAMPLES: &str = "Examples:
  # A dataset as one stream
  tarcat 'train-{0000..0147}.tar' | tarsplit -n 10000 -o 'big-{shard:05}.tar'

  # Large pictures only, with new keys, shuffled
  tarcat --select 'json.width >= 512' --shuffle 5000 --rekey '{index:09}' a.tar b.tar -o big.tar

  # The samples of a list, by a value of their JSON
  tarcat --keys uids.npy --on json.uid 'shard-{000..147}.tar' | tarsplit -n 10000 -o 'chosen-{shard:05}.tar'

  # Three parts of one dataset for each part of another
  tarcat --weights 3,1 'laion-{00..99}.tar' 'coco-{00..09}.tar' -o mix.tar";

impl Args {
    /// Whether a flag needs whole samples in memory. --max-bad does: a sample that turns out to be damaged must not
    /// have reached the output in part.
    pub fn needs_samples_in_memory(&self) -> bool {
        self.fields.is_some()
            || self.drop.is_some()
            || self.select.is_some()
            || self.on.as_ref().is_some_and(|on| !on.is_key())
            || self.rekey.is_some()
            || self.shuffle.is_some()
            || self.mix.is_some()
            || !self.weights.is_empty()
            || self.max_bad > 0
    }
}
