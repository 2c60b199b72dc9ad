//! Samples in, samples out, and between them a command on every sample, in parallel and in order.
//! A sample that fails is left out and counted; none is ever passed on unprocessed.

mod batch;
mod budget;
mod command;
mod directory;
mod each;
mod fast;
mod file;
mod input;
mod interpreter;
mod job;
mod link;
mod log;
mod outlet;
mod pack;
mod shell;
mod worker;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use anyhow::{Result, bail};
use clap::Parser;
use tarpipe::cli::{self, Held, Input, Outcome, Packing, Parallel, Samples, SharedTally, Talk, Usage};
use tarpipe::run::pool;
use tarpipe::run::scratch::Scratch;
use tarpipe::run::watched;
use tarpipe::sample::Sample;
use tarpipe::sample::shard::Shard;
use tarpipe::sink::{Options, Sink};
use tarpipe::tally::MaxFailures;
use tarpipe::value::duration;
use tarpipe::value::slice::Slice;

use batch::Batch;
use budget::Budget;
use command::{Limits, Stdout};
use each::{Each, Fields};
use input::{Choice, Jobs, Mode, Pieces};
use interpreter::Interpreter;
use job::Way;
use outlet::{OnError, Outlet};
use shell::{Settings, Shell};
use worker::Worker;

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
/// left_running, directory_gone, unreadable, not_a_file, link_outside, too_large, disk_full,
/// bad_key, same_key and duplicate_field. If the machine runs out of processes, file descriptors or
/// memory, the run fails and no sample is blamed.
#[derive(Parser)]
#[command(name = "tarproc", version, after_long_help = EXAMPLES)]
struct Args {
    /// Run this shell command on every sample
    #[arg(short, long, value_name = "COMMAND", conflicts_with_all = ["script", "worker"])]
    command: Option<String>,

    /// Run this script on every sample
    #[arg(short, long, value_name = "FILE", conflicts_with = "worker")]
    script: Option<String>,

    /// Interpreter of the command or script, with its flags
    #[arg(long, value_name = "PROGRAM", default_value = "bash")]
    interpreter: String,

    /// Filter field EXT through the command, stdin to stdout, into EXT or NEW; no directory is made
    #[arg(long, value_name = "EXT[:NEW]", conflicts_with_all = ["worker", "batch", "multi", "subdirs", "fast_shell"])]
    each: Option<Fields>,

    /// Run -p persistent processes of COMMAND that read samples and write results
    ///
    /// For programs that are slow to start. They read a tar stream in which an empty member __end__
    /// follows each sample, and write one in return; tarworker.py does this for Python. If a worker
    /// dies, the sample it worked on fails and the worker is restarted.
    #[arg(long, value_name = "COMMAND", conflicts_with_all = ["batch", "multi", "subdirs", "fast_shell"])]
    worker: Option<String>,

    /// Give N samples to each run of the command, in the sub-directories 000000, 000001, …
    #[arg(long, value_name = "N", conflicts_with_all = ["fast_shell", "subdirs"], value_parser = clap::value_parser!(u32).range(1..))]
    batch: Option<u32>,

    /// Fork a running bash for each sample instead of starting a new one
    ///
    /// Faster, but $$ is then the same for all samples, and $0, $SHLVL and $BASH_SUBSHELL differ.
    #[arg(long)]
    fast_shell: bool,

    /// Run N commands at a time (0: one per core)
    #[arg(short, long, value_name = "N", default_value_t = 1)]
    parallel: usize,

    /// What to do when a command fails
    #[arg(short = 'e', long, value_name = "WHAT", default_value = "skip")]
    on_error: OnError,

    /// Retry a failed sample up to N times
    #[arg(long, value_name = "N", default_value_t = 0)]
    retries: u32,

    /// End a command, and everything it started, after TIME, such as 90s or 10m
    ///
    /// That includes processes in sessions of their own, such as daemons, unless the system has no
    /// /proc. A daemon that commands share has to be started before tarproc.
    #[arg(long, value_name = "TIME", value_parser = duration::parse_limit)]
    timeout: Option<Duration>,

    /// Exit with status 3 if more than N samples (or P%) fail [default: if all fail]
    #[arg(long, value_name = "N|P%")]
    max_failures: Option<MaxFailures>,

    /// Write failed samples to FILE, unchanged, with the command's log in tarproc.log
    #[arg(long, value_name = "FILE")]
    failed: Option<String>,

    /// Stop after N samples
    #[arg(long, value_name = "N")]
    count: Option<u64>,

    /// Take only samples LO, LO+STEP, … below HI
    #[arg(long, value_name = "LO:HI[:STEP]")]
    slice: Option<Slice>,

    /// Unpack only these fields, and drop the others
    #[arg(short, long, value_name = "FIELDS")]
    fields: Option<String>,

    /// Add the command's output to the sample, as field EXT
    #[arg(long, value_name = "EXT", requires = "output")]
    add_log: Option<String>,

    /// Print the commands' stdout even with -o
    #[arg(short = 'O', long, requires = "output")]
    command_output: bool,

    /// Base name of a sample's files
    #[arg(short, long, value_name = "NAME", default_value = "sample")]
    base: String,

    /// Pack sample-N.* files as samples of their own, with the key in sample-N.__key__ or KEY/N
    #[arg(short, long, requires = "output")]
    multi: bool,

    /// Pack sub-directories as samples of their own, with the key in N/__key__ or KEY/N
    #[arg(short = 'S', long, requires = "output")]
    subdirs: bool,

    /// Keep the directories, and print where they are
    #[arg(long)]
    keep_dirs: bool,

    /// Make the directories in DIR (default: /dev/shm with 1 GB free, TMPDIR or /tmp, or /var/tmp)
    ///
    /// Places that are mounted noexec are skipped unless all are.
    #[arg(long, value_name = "DIR")]
    tmpdir: Option<PathBuf>,

    /// Write samples as they are done, not in input order
    #[arg(long)]
    unordered: bool,

    /// Kind of the sources
    #[arg(long, value_name = "MODE", default_value = "tar")]
    mode: Mode,

    /// Pack samples and write them to NAME: a path, s3://, gs://, az://, http(s):// (PUT), pipe:COMMAND, - for stdout
    #[arg(short, long, value_name = "NAME")]
    output: Option<String>,

    #[command(flatten)]
    packing: Packing,
    #[command(flatten)]
    held: Held,
    #[command(flatten)]
    input: Input,
    #[command(flatten)]
    talk: Talk,
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

fn main() -> ExitCode {
    cli::main(run)
}

fn run(args: Args) -> Result<Outcome> {
    watched::adopt_orphans();
    let settings = Arc::new(settings(&args)?);
    let tally = SharedTally::default();
    let mut outlet = outlet(&args)?;
    let max_failures = process(args, &settings, &tally, &mut outlet)?;
    let mut counts = outlet.finish()?;
    settings.scratch.finish();
    counts.merge(&tally.take());
    Ok(Outcome { tally: counts, max_failures })
}

fn settings(args: &Args) -> Result<Settings> {
    if args.output.is_none() && (args.each.is_some() || args.worker.is_some()) {
        bail!(Usage("--each and --worker make samples: say where to with -o FILE, or -o - for stdout".into()));
    }
    if args.fast_shell && args.interpreter != "bash" {
        bail!(Usage("--fast-shell works with bash alone".into()));
    }
    if args.base.is_empty() || args.base.contains(['/', '.', '\0']) {
        bail!(Usage("--base is the start of a file name, without dots".into()));
    }
    let line = args.command.as_deref().or(args.worker.as_deref());
    let stdout = if args.output.is_none() || args.command_output { Stdout::Kept } else { Stdout::Logged };
    Ok(Settings {
        interpreter: Interpreter::new(&args.interpreter, line, args.script.as_deref())?,
        packing: pack::Packing {
            base: args.base.clone(),
            multi: args.multi,
            subdirs: args.subdirs,
            max_sample: args.held.max_sample,
        },
        packs: args.output.is_some(),
        limits: Limits { timeout: args.timeout, max_output: args.held.max_sample },
        stdout,
        ignore_status: args.on_error == OnError::Ignore,
        scratch: Arc::new(Scratch::create(args.tmpdir.as_deref(), args.keep_dirs)?),
    })
}

fn outlet(args: &Args) -> Result<Outlet> {
    let mut outlet = Outlet::new(args.on_error, args.add_log.clone());
    let parallel = Parallel { parallel: args.parallel };
    let options = Options { compression: args.packing.compression(), threads: parallel.threads(), digest: false };
    if args.command_output && args.output.as_deref() == Some("-") {
        bail!(Usage("-O and -o - both write to stdout: use -o FILE".into()));
    }
    if let Some(name) = &args.output {
        cli::refuse_terminal(name)?;
        outlet.archive = Some(Shard::create(name, options)?);
    }
    if args.output.is_none() || args.command_output {
        outlet.stdout = Some(Sink::create("-", Options::default())?);
    }
    if let Some(name) = &args.failed {
        outlet.failed = Some(Shard::create(name, Options { compression: None, ..options })?);
    }
    Ok(outlet)
}

/// Everything from the sources to the outlet. Returns when no worker is left.
fn process(
    args: Args,
    settings: &Arc<Settings>,
    tally: &SharedTally,
    outlet: &mut Outlet,
) -> Result<Option<MaxFailures>> {
    let parallel = Parallel { parallel: args.parallel }.threads();
    let limits = pool::Limits { ordered: !args.unordered, bytes: u64::MAX, ..pool::Limits::for_workers(parallel) };
    let samples = samples(&args, tally)?;
    let (retries, keep, max_failures) = (args.retries, args.failed.is_some(), args.max_failures);
    let jobs = Jobs::new(samples, choice(&args), Budget::new(parallel));
    let (alive, all_ended) = mpsc::channel::<()>();
    let factory = {
        let settings = Arc::clone(settings);
        move |_| {
            let (mut way, alive) = (way(&args, &settings), alive.clone());
            move |job| {
                let _alive = &alive; // dropped with the worker
                Ok(job::run(way.as_mut(), job, retries, keep))
            }
        }
    };
    // The budget counts bytes, so the pool need not.
    pool::run(limits, jobs, |_| 0, factory, |answer| outlet.take(answer))?;
    _ = all_ended.recv();
    watched::end_orphans();
    Ok(max_failures)
}

fn samples(args: &Args, tally: &SharedTally) -> Result<Box<dyn Iterator<Item = Result<Sample>> + Send>> {
    let names = args.input.names()?;
    cli::expect_bytes(&names);
    let max_sample = args.held.max_sample;
    Ok(match args.mode {
        Mode::Tar => Box::new(Samples::new(names, args.input.ignore_eof, max_sample).counted_in(tally)),
        mode => Box::new(Pieces::new(names, mode, max_sample, tally)),
    })
}

fn choice(args: &Args) -> Choice {
    let words = |list: &String| list.split([' ', ',']).filter(|word| !word.is_empty()).map(str::to_owned).collect();
    Choice {
        slice: args.slice.unwrap_or(Slice::ALL).skip_and_count(0, args.count),
        fields: args.fields.as_ref().map(words),
        batch: args.batch.unwrap_or(1) as usize,
    }
}

fn way(args: &Args, settings: &Arc<Settings>) -> Box<dyn Way> {
    let settings = Arc::clone(settings);
    if let Some(fields) = &args.each {
        Box::new(Each::new(settings, fields.clone()))
    } else if args.worker.is_some() {
        Box::new(Worker::new(settings))
    } else if args.batch.is_some() {
        Box::new(Batch::new(settings))
    } else {
        Box::new(Shell::new(settings, args.fast_shell))
    }
}
