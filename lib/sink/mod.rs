//! Names that can be written: one place creates them all.
//!
//! What is written appears under its name only after [`Sink::finish`]: files are written under
//! a temporary name, synced and renamed; objects are completed; a command gets its end of input,
//! and its status counts. A sink dropped unfinished leaves nothing behind.

mod descriptor;
mod existing;
mod file;
mod put;

use std::fs::File;
use std::io::{self, IoSlice, Write};
use std::os::fd::AsFd;
use std::path::Path;
use std::process::ChildStdin;

use anyhow::{Context, Error, Result, bail};

use crate::compression::{Compression, Encoder};
use crate::digest::Digest;
use crate::location;
use crate::run::shell::Process;
use crate::source;
#[cfg(feature = "stores")]
use crate::store;

use descriptor::Descriptor;
pub use existing::existing;
pub use file::Temporary;

/// Only our own stdout closing means that the reader left. It ends a run quietly.
#[derive(Debug)]
pub struct ReaderLeft;

impl std::fmt::Display for ReaderLeft {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the reader of the output left")
    }
}

impl std::error::Error for ReaderLeft {}

/// How a sink is made.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// None: by the suffix of the name.
    pub compression: Option<Compression>,
    /// Threads that may compress.
    pub threads: usize,
    /// Whether to take a SHA-256 of the stored bytes.
    pub digest: bool,
}

/// Writes a small text, such as an index, under `name`: whole or not at all.
pub fn write_text(name: &str, text: &str) -> Result<()> {
    write_bytes(name, text.as_bytes())
}

/// The same for any bytes.
pub fn write_bytes(name: &str, bytes: &[u8]) -> Result<()> {
    let mut sink = Sink::create(name, Options::default())?;
    sink.write_all(bytes)?;
    sink.finish().map(drop)
}

/// What was stored.
#[derive(Clone, Debug)]
pub struct Stored {
    /// Bytes after compression.
    pub bytes: u64,
    /// SHA-256 in hexadecimal, when it was asked for.
    pub sha256: Option<String>,
}

/// An output on its way.
pub struct Sink {
    name: String,
    layer: Layer,
}

enum Layer {
    Plain(Target),
    Compressed(Box<Encoder<Target>>),
}

impl Layer {
    fn finish(self) -> Result<Target> {
        match self {
            Layer::Plain(target) => Ok(target),
            Layer::Compressed(encoder) => Ok(encoder.finish()?),
        }
    }
}

impl Sink {
    /// Creates a name for writing: `-`, a path, `file:`, `http(s)://` (PUT), `s3://`, `gs://`,
    /// `az://`, `pipe:COMMAND` or `|COMMAND`, or a scheme with a command in `GCREATE_<SCHEME>`.
    pub fn create(name: &str, options: Options) -> Result<Self> {
        Sink::try_create(name, options).with_context(|| display(name))
    }

    /// The same for bytes that are stored as they come, whatever the suffix says.
    pub fn create_as_is(name: &str) -> Result<Self> {
        let place = Place::create(name).with_context(|| display(name))?;
        Ok(Sink { name: display(name), layer: Layer::Plain(Target { place, bytes: 0, digest: None }) })
    }

    fn try_create(name: &str, options: Options) -> Result<Self> {
        let target = Target { place: Place::create(name)?, bytes: 0, digest: options.digest.then(Digest::new) };
        let layer = match options.compression.or_else(|| suffix_of(name)) {
            None => Layer::Plain(target),
            Some(compression) => Layer::Compressed(Box::new(compression.encoder(target, options.threads)?)),
        };
        Ok(Sink { name: display(name), layer })
    }

    /// Makes what was written appear under its name.
    pub fn finish(self) -> Result<Stored> {
        let Sink { name, layer } = self;
        layer.finish().and_then(Target::commit).context(name)
    }

    fn explain<T>(&self, result: io::Result<T>) -> io::Result<T> {
        result.map_err(|err| match err.get_ref() {
            Some(inner) if inner.is::<ReaderLeft>() => err,
            _ => io::Error::new(err.kind(), format!("{}: {err}", self.name)),
        })
    }
}

impl Write for Sink {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        let result = match &mut self.layer {
            Layer::Plain(target) => target.write(buf),
            Layer::Compressed(encoder) => encoder.write(buf),
        };
        self.explain(result)
    }

    fn write_vectored(&mut self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        match &mut self.layer {
            Layer::Plain(target) => {
                let result = target.write_vectored(bufs);
                self.explain(result)
            }
            Layer::Compressed(_) => self.write(bufs.iter().find(|buf| !buf.is_empty()).map_or(&[], |buf| buf)),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The stored bytes: counted, hashed when asked, put in their place.
struct Target {
    place: Place,
    bytes: u64,
    digest: Option<Digest>,
}

impl Target {
    fn commit(self) -> Result<Stored> {
        self.place.commit()?;
        Ok(Stored { bytes: self.bytes, sha256: self.digest.map(Digest::hex) })
    }

    fn record(&mut self, bufs: &[IoSlice<'_>], mut n: usize) {
        self.bytes += n as u64;
        let Some(digest) = &mut self.digest else { return };
        for buf in bufs {
            let part = n.min(buf.len());
            digest.update(&buf[..part]);
            n -= part;
        }
    }
}

impl Write for Target {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        self.write_vectored(&[IoSlice::new(buf)])
    }

    fn write_vectored(&mut self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        let n = match &mut self.place {
            Place::Stdout(stdout) => stdout.write_vectored(bufs).map_err(reader_left),
            Place::Device(device) => device.write_vectored(bufs),
            Place::File(file) => file.write_vectored(bufs),
            Place::Command(stdin, _) => stdin.write_vectored(bufs),
            Place::Put(upload) => upload.write_vectored(bufs),
            #[cfg(feature = "stores")]
            Place::Store(upload) => upload.write_vectored(bufs),
        }?;
        self.record(bufs, n);
        Ok(n)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

enum Place {
    Stdout(File),
    Device(File),
    File(Temporary),
    Command(ChildStdin, Process),
    Put(put::Upload),
    #[cfg(feature = "stores")]
    Store(Box<store::Upload>),
}

impl Place {
    fn create(name: &str) -> Result<Self> {
        check_name(name).map_err(Error::msg)?;
        if is_stdout(name) {
            let stdout = File::from(io::stdout().as_fd().try_clone_to_owned()?);
            source::widen_pipe(&stdout);
            return Ok(Place::Stdout(stdout));
        }
        if let Some(script) = command_of(name) {
            let (process, stdin) = Process::writing(&script)?;
            source::widen_pipe(&stdin);
            return Ok(Place::Command(stdin, process));
        }
        match location::scheme(name) {
            Some("http" | "https") => Ok(Place::Put(put::Upload::start(name)?)),
            #[cfg(feature = "stores")]
            Some("s3" | "gs" | "az") => Ok(Place::Store(Box::new(store::Upload::start(name)?))),
            Some(scheme) if scheme != "file" => bail!(location::no_client("GCREATE", scheme)),
            _ => Place::of_path(location::path_of(name).as_ref()),
        }
    }

    /// A descriptor, a device or a fifo is written to; everything else gets a temporary name first.
    fn of_path(path: &Path) -> Result<Self> {
        if let Some(Descriptor::Other(path)) = Descriptor::of(path) {
            let file = descriptor::open(&path)?;
            source::note_output(&file)?;
            return Ok(Place::Device(file));
        }
        match std::fs::metadata(path) {
            Ok(found) if !found.is_file() => Ok(Place::Device(File::options().write(true).open(path)?)),
            _ => Ok(Place::File(Temporary::create(path)?)),
        }
    }

    fn commit(self) -> Result<()> {
        match self {
            Place::Stdout(_) | Place::Device(_) => Ok(()),
            Place::File(file) => file.commit(),
            Place::Command(stdin, process) => {
                drop(stdin);
                process.wait()
            }
            Place::Put(upload) => upload.finish(),
            #[cfg(feature = "stores")]
            Place::Store(upload) => upload.finish(),
        }
    }
}

/// The script behind `pipe:COMMAND`, `|COMMAND` or a scheme with a command of its own.
fn command_of(name: &str) -> Option<String> {
    let script = name.strip_prefix("pipe:").or_else(|| name.strip_prefix('|'));
    script.map(str::to_owned).or_else(|| location::command_for("GCREATE", name))
}

/// Whether what is written to a name goes to our own stdout: `-`, `/dev/stdout`, `/dev/fd/1` or a link to one of them.
pub fn is_stdout(name: &str) -> bool {
    let is_descriptor = || Descriptor::of(location::path_of(name).as_ref()) == Some(Descriptor::Stdout);
    name == "-" || (!is_command(name) && location::is_path(name) && is_descriptor())
}

/// Says why nothing can be written under a name, where the name alone shows it: it is empty, or that of a directory.
pub fn check_name(name: &str) -> Result<(), String> {
    let path = location::path_of(name);
    if path.is_empty() {
        return Err("an output needs a name".into());
    }
    if is_command(name) || !location::is_path(name) {
        return Ok(());
    }
    match Path::new(path).is_dir() {
        true => Err("is a directory".into()),
        false if path.ends_with('/') => Err("names a directory, not a file".into()),
        false => Ok(()),
    }
}

/// Whether a name is a command that gets what is written, whatever the environment says of its scheme.
pub fn is_command(name: &str) -> bool {
    name.starts_with("pipe:") || name.starts_with('|')
}

/// Compression by suffix, for names of things; a command's last word is no such name.
fn suffix_of(name: &str) -> Option<Compression> {
    Compression::by_suffix(name).filter(|_| !is_command(name))
}

fn reader_left(err: io::Error) -> io::Error {
    match err.kind() {
        io::ErrorKind::BrokenPipe => io::Error::new(io::ErrorKind::BrokenPipe, ReaderLeft),
        _ => err,
    }
}

fn display(name: &str) -> String {
    if name == "-" { "stdout".into() } else { name.into() }
}
