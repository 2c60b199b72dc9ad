//! The command line: starting a run, and the subcommands for an existing one.

use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::{Parser, Subcommand};
use tarpipe::cli::{Usage, Verbosity};
use tarpipe::value::list::List;

use crate::shardrun::settings::RunSettings;

/// Run a pipeline for every shard: here, or on Slurm, Kubernetes, Spark or Ray
///
/// The pipeline runs once per item, under bash -o pipefail -eu. In the pipeline and in names, {} is the item, {i} or
/// {:05} its number from 0, {n} the number of items, {dir}, {base} and {ext} the parts of its name; values are quoted
/// for the shell. The same values are in SHARD, SHARD_INDEX and SHARD_COUNT. Other braces are left alone; {{i}} is the
/// text {i}.
///
/// The stdout of the pipeline is committed to -o only when every stage has succeeded. An item whose output exists is
/// done; if outputs cannot be listed, the job log decides. Run the same command again to do what is missing; while an
/// engine is still working on the run, the command joins it and submits nothing.
///
/// A run has a folder with its plan, its job log (one JSON line per item) and the stderr of each item. Every item is
/// tried; the exit status is 3 if any failed.
#[derive(Parser)]
#[command(name = "shardrun", version, after_long_help = EXAMPLES)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true, disable_help_subcommand = true)]
pub struct Args {
    /// Pipeline to run, as for bash -c
    #[arg(value_name = "PIPELINE", required = true)]
    pub pipeline: Option<String>,

    /// Items; {0000..0147} and {a,b} expand to lists
    #[arg(value_name = "ITEM")]
    pub items: Vec<String>,

    /// Run the pipeline for items 0 to N-1
    #[arg(short, long, value_name = "N")]
    pub number: Option<u64>,

    /// Read items from FILE, one per line
    #[arg(short = 'T', long, value_name = "FILE")]
    pub files_from: Vec<String>,

    /// Run the pipeline once per shard of the rows of TABLE
    ///
    /// The pipeline reads its rows with urlcat TABLE --shard {i}/{n} --rows-per-shard N, or --shard env.
    #[arg(long, value_name = "TABLE")]
    pub shards_of: Vec<String>,

    /// Rows per shard
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(1..))]
    pub rows_per_shard: u64,

    /// Write the pipeline's stdout to NAME, a template: a path, an object, an http(s):// URL, pipe:COMMAND
    ///
    /// The suffix chooses the compression, unless the bytes are compressed already. Without it, stdout goes to the log.
    #[arg(short, long, value_name = "NAME")]
    pub output: Option<String>,

    /// Another file that the pipeline must write (a template); an item is done only when it exists
    #[arg(long, value_name = "FILE")]
    pub also: Vec<String>,

    /// Folder of the run [default: one per plan, in .shardrun]
    #[arg(long, value_name = "DIR")]
    pub run: Option<PathBuf>,

    /// Run pipelines in DIR [default: this folder; with --on k8s, the image's]
    #[arg(long, value_name = "DIR")]
    pub chdir: Option<PathBuf>,

    /// Run finished items again, and discard an earlier plan of this run
    #[arg(long)]
    pub redo: bool,

    /// Print the exact scripts and manifests that would run, and do nothing
    #[arg(long)]
    pub dry_run: bool,

    #[command(flatten)]
    pub settings: RunSettings,
    #[command(flatten)]
    pub talk: Verbosity,

    #[command(subcommand)]
    pub command: Option<RunCommand>,
}

/// Subcommands: actions on an existing run, and hidden ones that shardrun itself and its engines call.
#[derive(Subcommand)]
pub enum RunCommand {
    /// Show the state of a run: items done, running, failed and left; the slowest and the failed ones
    Status {
        /// The run [default: the one used last in this folder]
        dir: Option<PathBuf>,
        /// Repeat every few seconds until the run ends
        #[arg(long)]
        watch: bool,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Print the stderr of items
    Logs {
        /// The run [default: the one used last in this folder]
        dir: Option<PathBuf>,
        /// Only the items with these numbers
        ///
        /// A list, separated by commas or blanks.
        #[arg(long, value_name = "N")]
        item: Vec<List<u64>>,
        /// Only the failed items
        #[arg(long)]
        failed: bool,
    },
    /// Run unfinished items again, with the flags of the last time
    Retry {
        /// The run [default: the one used last in this folder]
        dir: Option<PathBuf>,
        /// Only the failed items
        #[arg(long)]
        failed: bool,
    },
    /// End a run and wait until all of its processes and jobs have ended; finished outputs stay
    ///
    /// A local run on another machine or in another container must be cancelled there.
    Cancel {
        /// The run [default: the only active one in this folder]
        dir: Option<PathBuf>,
        /// Collect the results, then delete the run's Jobs, ConfigMaps and pods with their logs, finished ones too (k8s)
        #[arg(long)]
        delete: bool,
    },
    /// Write a report of a run
    Report {
        /// The run [default: the one used last in this folder]
        dir: Option<PathBuf>,
        /// Write an HTML page to FILE
        #[arg(long, value_name = "FILE", default_value = "-")]
        html: String,
    },
    /// Run one task of a bundle (engines call this on their workers)
    #[command(hide = true)]
    Item {
        /// Bundle file, - for stdin, or the folder of a submission
        #[arg(default_value = "-")]
        bundle: String,
        /// Number of the task [default: JOB_COMPLETION_INDEX, else 0]
        task: Option<usize>,
        /// Exit with status 0 even if items failed: some engines would run a failed task again
        #[arg(long = "final")]
        is_final: bool,
        /// Run bundles of one task each from stdin until it ends
        #[arg(long, conflicts_with_all = ["bundle", "task", "is_final"])]
        serve: bool,
    },
    /// Add results from stdin to a run (drivers call this)
    #[command(hide = true)]
    Record {
        /// The run
        dir: PathBuf,
    },
    /// End the pipelines of a process that is killed (shardrun calls this; stdin ends with that process)
    #[command(hide = true)]
    Guard {
        /// How that process marks what its commands start
        mark: String,
    },
}

const EXAMPLES: &str = "Examples:
  # 148 shards on all cores
  shardrun -n 148 -o 'out-{:04}.tar' 'curl -sf http://host/train-{:04}.tgz | tarproc -c \"gm convert sample.jpg sample.ppm\" -o -'

  # Names from a file, 64 at a time on Slurm, into a bucket
  shardrun --on slurm -j 64 -T shards.txt -o 's3://bucket/{base}.tar' 'tarcat {} | tarresize -s 256'

  # Look at the state and at failures, then retry
  shardrun status; shardrun logs --failed; shardrun retry --failed

  # One shard per 10,000 rows of a table
  shardrun --shards-of urls.parquet -o 'web-{:05}.tar' 'urlcat urls.parquet --shard env --rows-per-shard 10000 | fetch'";

impl Args {
    /// Checks that clap cannot express.
    pub fn check(&self) -> Result<()> {
        if self.output.as_deref() == Some("-") {
            bail!(Usage("-o -: items cannot share stdout; give a name per item, such as -o 'out-{}.tar'".into()));
        }
        self.settings.check()
    }
}
