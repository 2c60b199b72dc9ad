//! The flags of tarcheck, and the checks they ask for.

use clap::Parser;
use tarpipe::cli::{self, InputFlags, ParallelFlags, Verbosity};
use tarpipe::value::list::List;

use crate::tarcheck::loaders::Loader;
use crate::tarcheck::shard::Checks;

/// Verify shards: whole, well-formed, complete, without repeated keys
///
/// Reads every shard to its end and checks headers, sizes, the end of the archive (and so the
/// checksums of a compressed one), repeated fields in a sample, repeated keys within and across
/// shards, hostile names, and with --require the fields that every sample must have.
///
/// Prints a table, and for each fault the shard, the byte offset and the sample. The exit status is
/// 1 if there is any fault.
#[derive(Parser)]
#[command(name = "tarcheck", version, after_long_help = EXAMPLES)]
pub struct Args {
    /// Require these fields in every sample, such as 'jpg cls'
    ///
    /// A list, separated by commas or blanks.
    #[arg(long, value_name = "FIELDS", default_value = "", hide_default_value = true)]
    pub require: List,

    /// Allow repeated keys, within and across shards
    #[arg(long)]
    pub allow_repeats: bool,

    /// Report what these loaders would fail on or lose: hf, webdataset, energon, wids, ray
    ///
    /// A list, separated by commas or blanks. hf is load_dataset("webdataset") of Hugging Face
    /// datasets, ray is ray.data.read_webdataset. Each finding names the shard, the byte offset, the
    /// sample and, where one helps, the command that repairs it. The findings count as faults: the
    /// exit status is 1 if a named loader would fail or lose samples. Only the content of text,
    /// class and JSON fields up to 16 MB is decoded; images are not.
    #[arg(long = "for", value_name = "LOADERS", default_value = "", hide_default_value = true)]
    pub loaders: List<Loader>,

    /// Print the verdict as JSON
    #[arg(long)]
    pub json: bool,

    /// Write an index in DALI's format beside each shard (NAME.idx)
    #[arg(long)]
    pub index: bool,

    /// Write an index of all shards in WIDS' JSON format, with counts and SHA-256
    #[arg(long, value_name = "FILE", value_parser = cli::output_name)]
    pub wids: Option<String>,

    /// Describe at most N faults per shard (0: all); every fault is counted
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub show: usize,

    #[command(flatten)]
    pub input: InputFlags,
    #[command(flatten)]
    pub parallel: ParallelFlags,
    #[command(flatten)]
    pub talk: Verbosity,
}

const EXAMPLES: &str = "Examples:
  # Check that the dataset is complete, and every sample has a picture and a class
  tarcheck --require 'jpg cls' 'train-{000000..000147}.tar'

  # Can Hugging Face datasets and Energon load these shards as they are?
  tarcheck --for hf,energon train-*.tar

  # Indexes for random access
  tarcheck --index --wids train.json train-*.tar

  # List the damaged shards
  tarcheck --json train-*.tar | jq -r '.shards[] | select(.faults > 0) | .shard'";

impl Args {
    pub fn checks(&self) -> Checks {
        Checks {
            loaders: self.loaders.to_vec(),
            required: self.require.to_vec(),
            ignore_eof: self.input.ignore_eof,
            keys: !self.allow_repeats || self.loaders.iter().any(|loader| loader.refuses_repeated_key(false)),
            index: self.index,
            digest: self.wids.is_some(),
            show: if self.show == 0 { usize::MAX } else { self.show },
        }
    }
}
