//! The flags that several tools share. A letter means one thing in the whole kit.

use std::io::{IsTerminal, stdin, stdout};
use std::sync::Arc;

use anyhow::{Result, bail};
use clap::Args;

use super::{Samples, Usage};
use crate::compression::Compression;
use crate::messages::progress;
use crate::messages::{self, Level};
use crate::run::memory::{self, Budget};
use crate::sample::shard::Shard;
use crate::sink;
use crate::source;
use crate::source::expand;
#[cfg(feature = "stores")]
use crate::store;
use crate::value::size;

/// Where samples come from.
#[derive(Args, Clone, Debug)]
pub struct Input {
    /// Streams to read: paths, http(s)://, s3://, gs://, az://, hf://, pipe:COMMAND, - for stdin
    ///
    /// {0000..0147} and {a,b} expand to lists, A::B joins two; s3://bucket/set/*.tar lists the matching
    /// objects. Compressed streams are detected. Without a source, stdin is read.
    #[arg(value_name = "SOURCE")]
    pub sources: Vec<String>,

    /// Read more source names from FILE, one per line
    #[arg(short = 'T', long, value_name = "FILE")]
    pub files_from: Vec<String>,

    /// Accept streams that end between two members, without an end-of-archive marker
    #[arg(long)]
    pub ignore_eof: bool,
}

impl Input {
    /// The names of all sources, in order.
    pub fn names(&self) -> Result<Vec<String>> {
        Ok(self.lists()?.concat())
    }

    /// The names of all sources, one list per argument.
    pub fn lists(&self) -> Result<Vec<Vec<String>>> {
        let mut lists = Vec::new();
        for spec in &self.sources {
            lists.push(expand::expand(spec)?);
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

    /// The samples of all sources, read into memory one by one.
    pub fn samples(&self, held: &Held) -> Result<Samples> {
        let names = self.names()?;
        expect_bytes(&names);
        Ok(Samples::new(names, self.ignore_eof, held.max_sample))
    }
}

/// Gives the progress bar its total, if every source's size is known.
pub fn expect_bytes(names: &[String]) {
    progress::expect(names.iter().map(|name| source::stored_bytes(name)).sum());
}

/// For tools that hold a sample in memory.
#[derive(Args, Clone, Debug)]
pub struct Held {
    /// Skip samples larger than SIZE, since each is held in memory
    #[arg(long, value_name = "SIZE", default_value = "1G", value_parser = size::parse)]
    pub max_sample: u64,
}

/// For tools that decode pictures.
#[derive(Args, Clone, Copy, Debug)]
pub struct Decoding {
    /// Use up to SIZE of memory for decoded pictures, in all threads together [default: half of the machine's]
    ///
    /// Pictures that need more together wait for each other; one that needs more alone fails with code memory, for any
    /// number of threads. The default is half of the machine's memory, or of the limit of its cgroup or ulimit.
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    memory: Option<u64>,
}

impl Decoding {
    /// The memory of all threads.
    pub fn budget(&self) -> Arc<Budget> {
        Budget::new(self.memory.unwrap_or_else(memory::default_limit))
    }
}

/// Where samples go.
#[derive(Args, Clone, Debug)]
pub struct Output {
    /// Write to NAME: a path, s3://, gs://, az://, http(s):// (PUT), pipe:COMMAND, - for stdout
    ///
    /// A file or object appears under its name only when it is complete. The suffix selects the compression.
    #[arg(short, long, value_name = "NAME", default_value = "-", value_parser = output_name)]
    pub output: String,

    #[command(flatten)]
    pub(super) packing: Packing,
}

/// How output is compressed.
#[derive(Args, Clone, Copy, Debug)]
pub struct Packing {
    /// Compress with gzip
    #[arg(short = 'z', conflicts_with = "compress")]
    gzip: bool,

    /// Compress with gzip, zstd, xz, bzip2 or lz4, at LEVEL
    ///
    /// JPEGs barely compress (about 1 %); gzip stores incompressible data unchanged.
    #[arg(long, value_name = "FORMAT[:LEVEL]")]
    compress: Option<Compression>,
}

impl Packing {
    /// What was asked for; None leaves it to the suffix.
    pub fn compression(&self) -> Option<Compression> {
        self.compress.or_else(|| self.gzip.then(Compression::gzip))
    }
}

impl Output {
    /// Creates the output archive. An archive never goes to a terminal.
    pub fn create(&self, parallel: &Parallel) -> Result<Shard> {
        refuse_terminal(&self.output)?;
        let options =
            sink::Options { compression: self.packing.compression(), threads: parallel.threads(), digest: false };
        Shard::create(&self.output, options)
    }
}

/// A usage error when `name` is stdout and stdout is a terminal.
pub fn refuse_terminal(name: &str) -> Result<()> {
    if sink::is_stdout(name) && stdout().is_terminal() {
        bail!(Usage("stdout is a terminal: use -o FILE or a pipe".into()));
    }
    Ok(())
}

/// A name of an output, for flags: a mistake in it is found before the run, not at its end.
pub fn output_name(name: &str) -> Result<String, String> {
    sink::check_name(name).map(|()| name.to_owned())
}

/// How much runs at once.
#[derive(Args, Clone, Copy, Debug)]
pub struct Parallel {
    /// Use N threads (0: all cores)
    #[arg(short, long, value_name = "N", default_value_t = 0)]
    pub parallel: usize,
}

impl Parallel {
    /// The number of threads meant.
    pub fn threads(&self) -> usize {
        match self.parallel {
            0 => std::thread::available_parallelism().map_or(1, |cores| cores.get()),
            n => n,
        }
    }
}

// How object stores are reached: flags that every tool takes without naming them. Not a doc comment, because
// clap would print that as the help of the whole tool.
#[cfg(feature = "stores")]
#[derive(Args, Clone, Debug)]
pub(super) struct Stores {
    /// Use the object store at URL (overrides AWS_ENDPOINT_URL)
    #[arg(long, value_name = "URL", value_parser = endpoint)]
    endpoint: Option<String>,
}

#[cfg(feature = "stores")]
impl Stores {
    pub(super) fn begin(self) {
        if let Some(url) = self.endpoint {
            store::set_endpoint(url);
        }
    }
}

#[cfg(feature = "stores")]
fn endpoint(text: &str) -> Result<String, String> {
    let rest = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
    match rest {
        Some(host) if !host.is_empty() && !host.contains('@') => Ok(text.trim_end_matches('/').to_owned()),
        _ => Err("it is not of the form http(s)://HOST".into()),
    }
}

/// How much is printed on stderr.
#[derive(Args, Clone, Copy, Debug)]
pub struct Talk {
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

impl Talk {
    pub(super) fn begin(self) {
        messages::set_level(match self {
            Talk { quiet: true, .. } => Level::Quiet,
            Talk { verbose: true, .. } => Level::Verbose,
            _ => Level::Normal,
        });
        if !self.quiet {
            progress::start(self.progress);
        }
    }
}
