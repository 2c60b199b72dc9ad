//! Creates names for writing. Every output of every tool goes through here.
//!
//! Output appears under its name only after [`Sink::finish`], and then
//! completely. A sink that is dropped unfinished leaves nothing behind:
//!
//! | name | written | unfinished |
//! |---|---|---|
//! | a path, `file:PATH` | under a temporary name; synced and renamed at the end | removed |
//! | `s3://…`, `gs://…`, `az://…` | as a multipart upload, completed at the end | aborted |
//! | `http://…`, `https://…` | as one chunked PUT | the request is broken off |
//! | `pipe:COMMAND`, `\|COMMAND`, `GCREATE_<SCHEME>` | to the command's stdin; its status counts | the command is killed |
//! | `-`, devices, fifos, `/dev/fd/N` | directly | what was written stays |

mod descriptor;
mod destination;
mod existing;
mod file;
mod put;

use std::io::{self, IoSlice, Write};
use std::path::Path;

use anyhow::{Context, Result};

use crate::compression::{Compression, Encoder};
use crate::location;

use descriptor::Descriptor;
use destination::SinkTarget;
pub use existing::{can_be_listed, existing, existing_in_folder, is_taken, remove};
pub use file::Temporary;

/// The reader of our stdout has closed it, as in `tarcat … | head`. `cli::main`
/// ends such a run quietly, with status 0. A broken pipe anywhere else (a
/// child, a socket) is an ordinary error.
#[derive(Debug)]
pub struct ReaderLeft;

impl std::fmt::Display for ReaderLeft {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the reader of the output has closed it")
    }
}

impl std::error::Error for ReaderLeft {}

/// An output that is being written. Not buffered: write large pieces, or wrap
/// it. `flush` does nothing; only [`Sink::finish`] makes sure that the data has
/// arrived.
///
/// ```
/// use std::io::Write;
/// use tarpipe::sink::{Sink, SinkOptions};
///
/// let folder = tempfile::tempdir()?;
/// let name = format!("{}/list.txt.gz", folder.path().display()); // compressed, by its suffix
/// let mut sink = Sink::create(&name, SinkOptions::default())?;
/// sink.write_all(b"hello")?;
/// assert!(!std::fs::exists(&name)?);
/// sink.finish()?;
/// assert!(std::fs::exists(&name)?);
/// # anyhow::Ok(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct SinkOptions {
    /// The compression; None chooses it by the suffix of the name.
    pub compression: Option<Compression>,
    /// The number of threads that may compress; 0 means 1.
    pub threads: usize,
    /// Whether to compute the SHA-256 of the stored bytes.
    pub digest: bool,
}

/// Writes a small text, such as an index, under `name`, completely or not at
/// all. Fails as [`Sink::create`] and [`Sink::finish`] do.
pub fn write_text(name: &str, text: &str) -> Result<()> {
    write_bytes(name, text.as_bytes())
}

/// The same as [`write_text`] for any bytes.
///
/// # Errors
///
/// Fails as [`write_text`] does.
pub fn write_bytes(name: &str, bytes: &[u8]) -> Result<()> {
    let mut sink = Sink::create(name, SinkOptions::default())?;
    sink.write_all(bytes)?;
    sink.finish().map(drop)
}

/// What [`Sink::finish`] has stored.
#[derive(Clone, Debug)]
pub struct StoredBytes {
    /// The stored size, after compression.
    pub bytes: u64,
    /// SHA-256 of the stored bytes in hexadecimal, if it was requested.
    pub sha256: Option<String>,
}

/// An output on its way.
pub struct Sink {
    name: String,
    layer: Layer,
}

/// The compression on top of the destination.
enum Layer {
    Plain(SinkTarget),
    Compressed(Box<Encoder<SinkTarget>>),
}

impl Layer {
    fn finish(self) -> Result<SinkTarget> {
        match self {
            Layer::Plain(target) => Ok(target),
            Layer::Compressed(encoder) => Ok(encoder.finish()?),
        }
    }
}

impl Sink {
    /// Creates `name` for writing: `-`, a path, `file:`, `http(s)://` (PUT),
    /// `s3://`, `gs://`, `az://`, `pipe:COMMAND` or `|COMMAND`, or a scheme
    /// with a command in `GCREATE_<SCHEME>`. Missing folders are created; an
    /// existing file is replaced at the end.
    ///
    /// # Errors
    ///
    /// The name is empty or a directory, its folder is not writable, its scheme
    /// has no client, or a command cannot be started. Servers are contacted
    /// later, so their refusal may surface in a write or in [`Sink::finish`].
    /// All errors, also those of writes, contain the name.
    pub fn create(name: &str, options: SinkOptions) -> Result<Self> {
        Sink::try_create(name, options).with_context(|| display(name))
    }

    /// The same without compression, whatever the suffix says: for bytes that
    /// are compressed already.
    ///
    /// # Errors
    ///
    /// Fails as [`Sink::create`] does.
    pub fn create_as_is(name: &str) -> Result<Self> {
        let target = SinkTarget::create(name, false).with_context(|| display(name))?;
        Ok(Sink { name: display(name), layer: Layer::Plain(target) })
    }

    fn try_create(name: &str, options: SinkOptions) -> Result<Self> {
        let target = SinkTarget::create(name, options.digest)?;
        let layer = match options.compression.or_else(|| suffix_of(name)) {
            None => Layer::Plain(target),
            Some(compression) => Layer::Compressed(Box::new(compression.encoder(target, options.threads)?)),
        };
        Ok(Sink { name: display(name), layer })
    }

    /// Ends the output and makes it appear under its name. Blocks until it is
    /// stored: synced to disk, accepted by the server, or read by the command,
    /// whose exit status must be 0. On an error nothing appears.
    pub fn finish(self) -> Result<StoredBytes> {
        let Sink { name, layer } = self;
        layer.finish().and_then(SinkTarget::commit).context(name)
    }

    /// Adds the name to an error, but keeps [`ReaderLeft`] recognizable.
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

/// The script of `pipe:COMMAND`, `|COMMAND` or a scheme with a command of its
/// own.
fn command_of(name: &str) -> Option<String> {
    let script = name.strip_prefix("pipe:").or_else(|| name.strip_prefix('|'));
    script.map(str::to_owned).or_else(|| location::command_for("GCREATE", name))
}

/// Returns true if writing to a name goes to our own stdout: `-`,
/// `/dev/stdout`, `/dev/fd/1` or a link to one of them.
pub fn is_stdout(name: &str) -> bool {
    let is_descriptor = || Descriptor::of(location::path_of(name).as_ref()) == Some(Descriptor::Stdout);
    name == "-" || (!is_command(name) && location::is_path(name) && is_descriptor())
}

/// Rejects names that obviously cannot be written: empty ones and directories.
/// Use it to report mistakes before a long run.
///
/// # Errors
///
/// Describes what is wrong, without the name. A folder that is not writable is
/// found only by [`Sink::create`].
pub fn check_name(name: &str) -> Result<(), String> {
    let path = location::path_of(name);
    if path.is_empty() {
        return Err("the output name is empty".into());
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

/// Returns true for `pipe:COMMAND` and `|COMMAND`. Schemes with a command in
/// the environment do not count.
pub fn is_command(name: &str) -> bool {
    name.starts_with("pipe:") || name.starts_with('|')
}

/// Compression by suffix. The last word of a command is not the name of the
/// output.
fn suffix_of(name: &str) -> Option<Compression> {
    Compression::by_suffix(name).filter(|_| !is_command(name))
}

fn display(name: &str) -> String {
    if name == "-" { "stdout".into() } else { name.into() }
}
