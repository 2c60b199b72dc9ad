//! The flags of tarcheck, and the checks they ask for.

use clap::Parser;
use tarpipe::cli::{self, InputFlags, ParallelFlags, Verbosity};
use tarpipe::value::list::List;

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

  # Indexes for random access
  tarcheck --index --wids train.json train-*.tar

  # List the damaged shards
  tarcheck --json train-*.tar | jq -r '.shards[] | select(.faults > 0) | .shard'";

impl Args {
    pub fn checks(&self) -> Checks {
        Checks {
            required: self.require.to_vec(),
            ignore_eof: self.input.ignore_eof,
            keys: !self.allow_repeats,
            index: self.index,
            digest: self.wids.is_some(),
            show: if self.show == 0 { usize::MAX } else { self.show },
        }
    }
}
