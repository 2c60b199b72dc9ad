//! Flags that several tools share. A letter means the same thing in all tools.
//!
//! Each struct is flattened into the flags of a tool. The comments on fields
//! are the help that users see.

use std::io::{IsTerminal, stdin, stdout};
use std::sync::Arc;

use anyhow::{Result, bail};
use clap::Args;

use super::{Samples, Usage};
use crate::compression::Compression;
use crate::location;
use crate::messages::progress;
use crate::messages::{self, Level};
use crate::run::memory::{self, MemoryBudget};
use crate::sample::shard::ShardWriter;
use crate::sink;
use crate::source;
use crate::source::expand;
#[cfg(feature = "stores")]
use crate::store;
use crate::value::size;

/// The sources of a tool that reads samples.
#[derive(Args, Clone, Debug)]
pub struct InputFlags {
    /// Streams to read: paths, http(s)://, s3://, gs://, az://, hf://,
    /// pipe:COMMAND, - for stdin
    ///
    /// {0000..0147} and {a,b} expand to lists, A::B joins two;
    /// train-*.tar and s3://bucket/set/*.tar match files and objects. Compressed streams are
    /// detected. Without a source, stdin is read.
    #[arg(value_name = "SOURCE")]
    pub sources: Vec<String>,

    /// Read more source names from FILE, one per line
    #[arg(short = 'T', long, value_name = "FILE")]
    pub files_from: Vec<String>,

    /// Accept streams that end between two members, without an end-of-archive
    /// marker
    #[arg(long)]
    pub ignore_eof: bool,
}

impl InputFlags {
    /// The names of all sources, expanded, in the order of the command line.
    /// Fails as [`InputFlags::lists`] does.
    pub fn names(&self) -> Result<Vec<String>> {
        Ok(self.lists()?.concat())
    }

    /// The names of all sources, one list per argument or `-T` file; stdin if
    /// there are none.
    ///
    /// # Errors
    ///
    /// An invalid pattern, an unreadable `-T` file, a failed listing of an
    /// object store, or a terminal as stdin (a usage error). Whether the
    /// sources exist is not checked.
    pub fn lists(&self) -> Result<Vec<Vec<String>>> {
        let mut lists = Vec::new();
        for spec in &self.sources {
            lists.push(expand::expand_files(spec)?);
        }
        for file in &self.files_from {
            lists.push(expand::from_file(file)?);
        }
        if self.sources.is_empty() && self.files_from.is_empty() {
            lists.push(vec!["-".into()]);
        }
        if lists.concat().iter().any(|name| name == "-") && stdin().is_terminal() {
            bail!(Usage("stdin is a terminal: name a source or pipe a stream in".into()));
        }
        Ok(lists)
    }

    /// The samples of all sources, loaded into memory one by one. Also tells
    /// the progress display how much there is to read.
    ///
    /// # Errors
    ///
    /// Without sources, stdin is a terminal; a list of sources cannot be read
    /// or expanded. Sources themselves are opened later, by the iterator.
    pub fn samples(&self, limit: &SampleLimit) -> Result<Samples> {
        let names = self.names()?;
        expect_bytes(&names);
        Ok(Samples::new(names, self.ignore_eof, limit.max_sample))
    }
}

/// Tells the progress display the total size, if that of every source is known.
pub fn expect_bytes(names: &[String]) {
    progress::expect(names.iter().map(|name| source::stored_bytes(name)).sum());
}

/// `--max-sample`, for tools that hold samples in memory.
#[derive(Args, Clone, Debug)]
pub struct SampleLimit {
    /// Skip samples larger than SIZE, since each is held in memory
    #[arg(long, value_name = "SIZE", default_value = "1G", value_parser = size::parse)]
    pub max_sample: u64,
}

/// `--memory`, for tools that decode images.
#[derive(Args, Clone, Copy, Debug)]
pub struct DecodingFlags {
    /// Use up to SIZE of memory for decoded images, over all threads [default:
    /// half of the machine's]
    ///
    /// Images that exceed it together wait for each other; one that exceeds it
    /// alone fails with code memory, whatever the number of threads. The
    /// default is half of the machine's memory, or of the limit of its cgroup
    /// or ulimit.
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    memory: Option<u64>,
}

impl DecodingFlags {
    /// A budget of this size, to be shared by all threads. Call it once.
    pub fn budget(&self) -> Arc<MemoryBudget> {
        MemoryBudget::new(self.memory.unwrap_or_else(memory::default_limit))
    }
}

/// The output of a tool that writes one stream of samples.
#[derive(Args, Clone, Debug)]
pub struct OutputFlags {
    /// Write to NAME: a path, s3://, gs://, az://, http(s):// (PUT),
    /// pipe:COMMAND, - for stdout
    ///
    /// A file or object appears under its name only when it is complete. The
    /// suffix selects the compression.
    #[arg(short, long, value_name = "NAME", default_value = "-", value_parser = output_name)]
    pub output: String,

    #[command(flatten)]
    force: ForceFlag,

    #[command(flatten)]
    pub(super) packing: PackingFlags,
}

/// The environment variable that has the effect of `--force` if it is 1.
pub const FORCE_VARIABLE: &str = "TARPIPE_FORCE";

/// What to do with outputs that exist.
#[derive(Args, Clone, Copy, Debug)]
pub struct ForceFlag {
    /// Replace outputs that exist
    ///
    /// Without it, a file that is not empty and an object in a store are kept, and the run ends with status 1
    /// before it has read anything. TARPIPE_FORCE=1 in the environment sets this flag; shardrun does that for its
    /// items, which replace what an earlier attempt has written.
    #[arg(long)]
    pub force: bool,
}

impl ForceFlag {
    /// Returns true if existing outputs are replaced.
    pub fn replaces(self) -> bool {
        self.force || std::env::var_os(FORCE_VARIABLE).is_some_and(|value| value == "1")
    }

    /// Fails if `name` exists and is not to be replaced.
    pub fn check(self, name: &str) -> Result<()> {
        if !self.replaces() && sink::is_taken(name) {
            bail!("{}: exists; use --force to replace it", location::display(name));
        }
        Ok(())
    }
}

/// How the output is compressed.
#[derive(Args, Clone, Copy, Debug)]
pub struct PackingFlags {
    /// Compress with gzip
    #[arg(short = 'z', conflicts_with = "compress")]
    gzip: bool,

    /// Compress with gzip, zstd, xz, bzip2 or lz4, at LEVEL
    ///
    /// JPEGs barely compress (about 1 %); gzip stores incompressible data
    /// unchanged.
    #[arg(long, value_name = "FORMAT[:LEVEL]")]
    compress: Option<Compression>,
}

impl PackingFlags {
    /// The compression that was requested; None leaves it to the suffix of the
    /// output.
    pub fn compression(&self) -> Option<Compression> {
        self.compress.or_else(|| self.gzip.then(Compression::gzip))
    }
}

impl OutputFlags {
    /// Creates the output. Writing an archive to a terminal is a usage error;
    /// otherwise fails as [`sink::Sink::create`] does.
    pub fn create(&self, parallel: &ParallelFlags) -> Result<ShardWriter> {
        refuse_terminal(&self.output)?;
        self.force.check(&self.output)?;
        let options =
            sink::SinkOptions { compression: self.packing.compression(), threads: parallel.threads(), digest: false };
        ShardWriter::create(&self.output, options)
    }
}

/// A usage error if `name` is stdout and stdout is a terminal.
pub fn refuse_terminal(name: &str) -> Result<()> {
    if sink::is_stdout(name) && stdout().is_terminal() {
        bail!(Usage("stdout is a terminal: use -o FILE or a pipe".into()));
    }
    Ok(())
}

/// The value parser of output flags: rejects names that cannot be written
/// before the run, not at its end.
pub fn output_name(name: &str) -> Result<String, String> {
    sink::check_name(name).map(|()| name.to_owned())
}

/// `--parallel`, for tools that work in several threads.
#[derive(Args, Clone, Copy, Debug)]
pub struct ParallelFlags {
    /// Use N threads (0: all cores)
    #[arg(short, long, value_name = "N", default_value_t = 0)]
    pub parallel: usize,
}

impl ParallelFlags {
    /// The number of threads: N, or the number of cores available to the
    /// process for 0. At least 1.
    pub fn threads(&self) -> usize {
        match self.parallel {
            0 => std::thread::available_parallelism().map_or(1, |cores| cores.get()),
            n => n,
        }
    }
}

// How object stores are reached: flags of every tool. Not a doc comment, because clap would print
// that as the help of the whole tool.
#[cfg(feature = "stores")]
#[derive(Args, Clone, Debug)]
pub(super) struct StoreFlags {
    /// Use the object store at URL (overrides AWS_ENDPOINT_URL)
    #[arg(long, value_name = "URL", value_parser = endpoint)]
    endpoint: Option<String>,
}

#[cfg(feature = "stores")]
impl StoreFlags {
    pub(super) fn begin(self) {
        if let Some(url) = self.endpoint {
            store::set_endpoint(url);
        }
    }
}

/// The value parser of `--endpoint`. Credentials in the URL are refused: they
/// would appear in messages of others.
#[cfg(feature = "stores")]
fn endpoint(text: &str) -> Result<String, String> {
    let rest = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
    match rest {
        Some(host) if !host.is_empty() && !host.contains('@') => Ok(text.trim_end_matches('/').to_owned()),
        _ => Err("not of the form http(s)://HOST".into()),
    }
}

/// `-v`, `-q` and `--progress`.
#[derive(Args, Clone, Copy, Debug)]
pub struct Verbosity {
    /// Explain each item that is left out, and print a summary at the end
    #[arg(short, long)]
    verbose: bool,

    /// Print errors only
    #[arg(short, long, conflicts_with = "verbose")]
    quiet: bool,

    /// Show progress (one line every 30 s if stderr is not a terminal)
    #[arg(long)]
    progress: bool,
}

impl Verbosity {
    /// Applies the flags to the process.
    pub(super) fn begin(self) {
        messages::set_level(match self {
            Verbosity { quiet: true, .. } => Level::Quiet,
            Verbosity { verbose: true, .. } => Level::Verbose,
            _ => Level::Normal,
        });
        if !self.quiet {
            progress::start(self.progress);
        }
    }
}
