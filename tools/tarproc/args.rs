//! The flags of tarproc, and the checks of those that exclude each other.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, bail};
use clap::{Parser, ValueEnum};
use tarpipe::cli::{ForceFlag, InputFlags, PackingFlags, ParallelFlags, SampleLimit, Usage, Verbosity};
use tarpipe::run::scratch::Scratch;
use tarpipe::tally::MaxFailures;
use tarpipe::value::duration;
use tarpipe::value::list::List;
use tarpipe::value::slice::Slice;

use crate::tarproc::command::{CommandLimits, StdoutTarget};
use crate::tarproc::field_filter::FilterFields;
use crate::tarproc::interpreter::Interpreter;
use crate::tarproc::jobs::JobSelection;
use crate::tarproc::pack::PackRules;
use crate::tarproc::settings::RunnerSettings;
use crate::tarproc::worker::WorkerStarts;

/// Run a command on every sample
///
/// Each sample is unpacked into a directory of its own, the command runs there, the remaining files
/// are packed as the new sample, and the directory is removed. Fields are the files sample.EXT;
/// __key__ holds the key and __source__ the name of the stream. If the command changes __key__, the
/// key changes; if it removes every field, the sample is dropped. Files with other names are ignored
/// and counted. TARPROC_KEY, TARPROC_SOURCE and TARPROC_INDEX are in the environment.
///
/// Without -o nothing is packed: the stdout of the commands is printed, unmixed and in the order of
/// the samples. With -o it goes to stderr.
///
/// If a command fails, hangs, leaves a process running or leaves files that cannot be packed, its
/// sample is left out and counted, and the run goes on. The codes are exit_status, signal, timeout,
/// left_running, directory_gone, unreadable, not_a_file, link_outside, too_large, bad_key, same_key
/// and duplicate_field. At the end the exit status is 3 unless --max-failures tolerates that many.
///
/// If the command is not found, no --worker gets as far as its first result, or the machine runs out
/// of processes, file descriptors, memory or room for the directories, the run fails and no sample is
/// blamed.
#[derive(Parser)]
#[command(name = "tarproc", version, after_long_help = EXAMPLES)]
pub struct Args {
    /// Run this shell command on every sample
    #[arg(short, long, value_name = "COMMAND", conflicts_with_all = ["script", "worker"])]
    pub command: Option<String>,

    /// Run this script on every sample
    #[arg(short, long, value_name = "FILE", conflicts_with = "worker")]
    pub script: Option<String>,

    /// Interpreter of the command or script, with its flags
    #[arg(long, value_name = "PROGRAM", default_value = "bash")]
    pub interpreter: String,

    /// Filter field EXT through the command, stdin to stdout, into EXT or NEW; no directory is made
    #[arg(long, value_name = "EXT[:NEW]", conflicts_with_all = ["worker", "batch", "multi", "subdirs", "fast_shell"])]
    pub each: Option<FilterFields>,

    /// Run -p persistent processes of COMMAND that read samples and write results
    ///
    /// For programs that are slow to start. They read a tar stream in which an empty member __end__
    /// follows each sample, and write one in return; tarworker.py does this for Python. If a worker
    /// dies, the sample it worked on fails and the worker is restarted. The run fails if workers die three
    /// times before any of them has returned a result.
    #[arg(long, value_name = "COMMAND", conflicts_with_all = ["batch", "multi", "subdirs", "fast_shell"])]
    pub worker: Option<String>,

    /// Give N samples to each run of the command, in the sub-directories 000000, 000001, …
    #[arg(long, value_name = "N", conflicts_with_all = ["fast_shell", "subdirs"], value_parser = clap::value_parser!(u32).range(1..))]
    pub batch: Option<u32>,

    /// Fork a running bash for each sample instead of starting a new one
    ///
    /// Faster, but $$ is then the same for all samples, and $0, $SHLVL and $BASH_SUBSHELL differ.
    #[arg(long)]
    pub fast_shell: bool,

    /// Run N commands at a time (0: one per core)
    #[arg(short, long, value_name = "N", default_value_t = 1)]
    pub parallel: usize,

    /// What to do when a command fails
    #[arg(short = 'e', long, value_name = "WHAT", default_value = "skip")]
    pub on_error: OnCommandError,

    /// Retry a failed sample up to N times
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub retries: u32,

    /// End a command, and everything it started, after TIME, such as 90s or 10m
    ///
    /// That includes processes in sessions of their own, such as daemons, unless the system has no
    /// /proc. A daemon that commands share has to be started before tarproc.
    #[arg(long, value_name = "TIME", value_parser = duration::parse_limit)]
    pub timeout: Option<Duration>,

    /// Exit with status 3 if more than N samples (or P%) fail
    #[arg(long, value_name = "N|P%", default_value = "0")]
    pub max_failures: MaxFailures,

    /// Write failed samples to FILE, unchanged, with the command's log in tarproc.log
    #[arg(long, value_name = "FILE")]
    pub failed: Option<String>,

    /// Stop after N samples
    #[arg(long, value_name = "N")]
    pub count: Option<u64>,

    /// Take only samples LO, LO+STEP, … below HI
    #[arg(long, value_name = "LO:HI[:STEP]")]
    pub slice: Option<Slice>,

    /// Unpack only these fields, and drop the others
    ///
    /// A list, separated by commas or blanks.
    #[arg(short, long, value_name = "FIELDS")]
    pub fields: Option<List>,

    /// Add the command's output to the sample, as field EXT
    #[arg(long, value_name = "EXT", requires = "output")]
    pub add_log: Option<String>,

    /// Print the commands' stdout even with -o
    #[arg(short = 'O', long, requires = "output")]
    pub command_output: bool,

    /// Base name of a sample's files
    #[arg(short, long, value_name = "NAME", default_value = "sample")]
    pub base: String,

    /// Pack sample-N.* files as samples of their own, with the key in sample-N.__key__ or KEY/N
    #[arg(short, long, requires = "output")]
    pub multi: bool,

    /// Pack sub-directories as samples of their own, with the key in N/__key__ or KEY/N
    #[arg(short = 'S', long, requires = "output")]
    pub subdirs: bool,

    /// Keep the directories, and print where they are
    #[arg(long)]
    pub keep_dirs: bool,

    /// Make the directories in DIR (default: /dev/shm with 1 GB free, TMPDIR or /tmp, or /var/tmp)
    ///
    /// Places that are mounted noexec are skipped unless all are.
    #[arg(long, value_name = "DIR")]
    pub tmpdir: Option<PathBuf>,

    /// Write samples as they are done, not in input order
    #[arg(long)]
    pub unordered: bool,

    /// Kind of the sources
    #[arg(long, value_name = "MODE", default_value = "tar")]
    pub mode: InputMode,

    /// Pack samples and write them to NAME: a path, s3://, gs://, az://, http(s):// (PUT), pipe:COMMAND, - for stdout
    #[arg(short, long, value_name = "NAME")]
    pub output: Option<String>,

    #[command(flatten)]
    pub force: ForceFlag,
    #[command(flatten)]
    pub packing: PackingFlags,
    #[command(flatten)]
    pub held: SampleLimit,
    #[command(flatten)]
    pub input: InputFlags,
    #[command(flatten)]
    pub talk: Verbosity,
}

/// What the sources contain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum InputMode {
    /// Archives of samples.
    Tar,
    /// Text; each line is a sample with the field txt.
    Lines,
    /// Text; each page, up to a form feed, is a sample with the field txt.
    Pages,
    /// Text; each line is the key of a sample without fields.
    Keys,
    /// JSON lines; each is a sample with the field json, its key from __key__ or key.
    Rows,
}

/// What a failed command means for the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum OnCommandError {
    /// The sample is left out and counted.
    Skip,
    /// The exit status of the command is ignored: its files are packed.
    Ignore,
    /// The run ends.
    Abort,
}

const EXAMPLES: &str = "Examples:
  # See what the command sees
  tarproc -c ls --count 3 train-0000.tar

  # Pictures in another format, on all cores
  tarproc -p 0 -c 'convert sample.jpg sample.ppm; rm sample.jpg' train-0000.tar -o out.tar

  # Filter one field
  tarproc --each json -c 'jq -c .caption' in.tar -o out.tar

  # A persistent Python program
  tarproc -p 4 --worker 'python3 embed.py' --timeout 60 --failed failed.tar in.tar -o out.tar";

impl Args {
    pub fn threads(&self) -> usize {
        ParallelFlags { parallel: self.parallel }.threads()
    }

    /// Whether the stdout of the commands is printed.
    pub fn prints_stdout(&self) -> bool {
        self.output.is_none() || self.command_output
    }

    /// The settings of the runners. A usage error for flags that contradict each other.
    pub fn runner_settings(&self) -> Result<RunnerSettings> {
        if self.output.is_none() && (self.each.is_some() || self.worker.is_some()) {
            bail!(Usage("--each and --worker need an output; use -o FILE, or -o - for stdout".into()));
        }
        if self.fast_shell && self.interpreter != "bash" {
            bail!(Usage("--fast-shell works only with bash".into()));
        }
        if self.base.is_empty() || self.base.contains(['/', '.', '\0']) {
            bail!(Usage("--base must be a file name without dots".into()));
        }
        let line = self.command.as_deref().or(self.worker.as_deref());
        Ok(RunnerSettings {
            interpreter: Interpreter::new(&self.interpreter, line, self.script.as_deref())?,
            packing: PackRules {
                base: self.base.clone(),
                multi: self.multi,
                subdirs: self.subdirs,
                max_sample: self.held.max_sample,
            },
            packs: self.output.is_some(),
            limits: CommandLimits { timeout: self.timeout, max_output: self.held.max_sample },
            stdout: if self.prints_stdout() { StdoutTarget::Kept } else { StdoutTarget::Logged },
            ignore_status: self.on_error == OnCommandError::Ignore,
            scratch: Arc::new(Scratch::create(self.tmpdir.as_deref(), self.keep_dirs)?),
            worker_starts: WorkerStarts::default(),
        })
    }

    pub fn job_selection(&self) -> JobSelection {
        JobSelection {
            slice: self.slice.unwrap_or(Slice::ALL).skip_and_count(0, self.count),
            fields: self.fields.as_ref().map(|fields| fields.to_vec()),
            batch: self.batch.unwrap_or(1) as usize,
        }
    }
}
