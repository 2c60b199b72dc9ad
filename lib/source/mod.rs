//! Opens names for reading. Every input of every tool goes through here.
//!
//! | name | what is read |
//! |---|---|
//! | `-` | stdin |
//! | `pipe:COMMAND` | the output of a shell command, which must succeed |
//! | `http://…`, `https://…` | fetched, and resumed if the connection drops |
//! | `s3://…`, `gs://…`, `az://…` | an object (see [`crate::store`]) |
//! | `hf://datasets/OWNER/NAME[@REVISION]/PATH` | a file of the Hugging Face hub |
//! | `SCHEME://…` with `GOPEN_<SCHEME>` set | the output of that command, with `{}` replaced by the name |
//! | `file:PATH`, anything else | a file |
//!
//! Commands of `GOPEN_…` take precedence over the clients above.
//!
//! Readers returned here block, count their bytes for the progress display, and
//! retry interrupted calls. Everything that goes wrong while reading, including
//! a failed command, is an error of `read`: data followed by a clean end is
//! complete.

pub mod expand;
mod hf;
mod http;
mod version;

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;

use anyhow::{Context, Result, anyhow, bail};
use parking_lot::Mutex;

use crate::compression;
use crate::location;
use crate::messages::progress;
use crate::run::shell::ShellProcess;
#[cfg(feature = "stores")]
use crate::store;

/// The size of pipes, if the kernel grants it: fewer context switches between
/// the stages of a pipeline.
const PIPE_BYTES: usize = 1 << 20;

/// Opens a name for reading, decompressed. The compression is detected from the
/// data.
///
/// # Errors
///
/// The name does not exist, is a directory, is the file that the run writes to,
/// has a scheme without a client, or its server refuses. The error does not
/// contain the name: callers add it.
///
/// ```
/// use std::io::Read;
///
/// let mut text = String::new();
/// tarpipe::source::open("pipe:echo hello | gzip")?.read_to_string(&mut text)?;
/// assert_eq!(text, "hello\n");
/// # anyhow::Ok(())
/// ```
pub fn open(name: &str) -> Result<Box<dyn Read + Send>> {
    Ok(compression::decoder_for(location::path_of(name), open_raw(name)?)?)
}

/// Opens a name for reading as it is stored, without decompressing it. Fails as
/// [`open`] does.
pub fn open_raw(name: &str) -> Result<Box<dyn Read + Send>> {
    Ok(Box::new(RetryInterrupted(progress::Counted(open_uncounted(name)?))))
}

/// Restarts interrupted calls. Not every reader above does, those of CSV among
/// them.
struct RetryInterrupted<R>(R);

impl<R: Read> Read for RetryInterrupted<R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.0.read(buf) {
                Err(err) if err.kind() == io::ErrorKind::Interrupted => {}
                result => return result,
            }
        }
    }
}

/// Chooses the client by the name.
fn open_uncounted(name: &str) -> Result<Box<dyn Read + Send>> {
    if name == "-" {
        return stdin();
    }
    if let Some(script) = name.strip_prefix("pipe:") {
        return Ok(Box::new(Piped::start(script)?));
    }
    if let Some(script) = location::command_for("GOPEN", name) {
        return Ok(Box::new(Piped::start(&script)?));
    }
    match location::scheme(name) {
        Some("http" | "https") => Ok(Box::new(http::HttpDownload::start(name, None)?)),
        Some("hf") => open_on_hub(name),
        #[cfg(feature = "stores")]
        Some("s3" | "gs" | "az") => Ok(Box::new(store::ObjectDownload::start(name)?)),
        Some(scheme) if scheme != "file" => bail!(location::no_client("GOPEN", scheme)),
        _ => Ok(Box::new(open_file(location::path_of(name))?)),
    }
}

/// Starts reading a name that will be opened soon, in the background. Only
/// objects are prefetched, and only a few; for other names it does nothing.
/// Errors are reported when the name is opened.
#[cfg(feature = "stores")]
pub fn prefetch(name: &str) {
    if location::is_object(name) && location::command_for("GOPEN", name).is_none() {
        store::prefetch(name);
    }
}

/// Does nothing: this build has no object stores.
#[cfg(not(feature = "stores"))]
pub fn prefetch(_name: &str) {}

/// Returns true if a name gives the same bytes when it is opened again, at no
/// great cost: files and objects, but not stdin, commands and web servers.
pub fn can_be_read_again(name: &str) -> bool {
    let is_stored = cfg!(feature = "stores") && location::is_object(name);
    is_stored || std::path::Path::new(location::path_of(name)).is_file()
}

/// The stored size of a name if it costs nothing to find out, that is, for
/// regular files (also as stdin). None for everything else.
pub fn stored_bytes(name: &str) -> Option<u64> {
    if name == "-" {
        let stdin = File::from(io::stdin().as_fd().try_clone_to_owned().ok()?);
        return stdin.metadata().ok().filter(|found| found.is_file()).map(|found| found.len());
    }
    let found = std::fs::metadata(location::path_of(name)).ok()?;
    found.is_file().then_some(found.len())
}

fn stdin() -> Result<Box<dyn Read + Send>> {
    let stdin = File::from(io::stdin().as_fd().try_clone_to_owned()?);
    refuse_output(&stdin)?;
    widen_pipe(&stdin);
    Ok(Box::new(stdin))
}

/// Opens a file of the Hugging Face hub.
fn open_on_hub(name: &str) -> Result<Box<dyn Read + Send>> {
    let hf::HubFile { url, token } = hf::locate(name)?;
    let hint = if token.is_some() { "" } else { " (no token: set HF_TOKEN for private datasets)" };
    let download = http::HttpDownload::start(&url, token);
    Ok(Box::new(download.map_err(|err| anyhow!("{err:#}{hint}"))?))
}

/// Opening a directory succeeds, and only reading it would fail.
fn open_file(path: &str) -> Result<File> {
    let file = File::open(path)?;
    if file.metadata()?.is_dir() {
        bail!("is a directory");
    }
    refuse_output(&file)?;
    Ok(file)
}

/// Files other than stdout that are being written in place.
static OUTPUTS: Mutex<Vec<FileId>> = Mutex::new(Vec::new());

/// Device and inode of a regular file.
type FileId = (u64, u64);

/// Remembers a file that is written in place, so that it is not read as well.
pub(crate) fn note_output(file: &File) -> Result<()> {
    OUTPUTS.lock().extend(file_id(file)?);
    Ok(())
}

/// Fails if `file` is one that the run writes to in place (stdout or
/// `/dev/fd/N`): it would read its own output forever. Outputs created with
/// `-o` are not affected, since they replace the file only at the end.
pub fn refuse_output(file: &File) -> Result<()> {
    let Some(id) = file_id(file)? else { return Ok(()) };
    let stdout = File::from(io::stdout().as_fd().try_clone_to_owned()?);
    let is_output = file_id(&stdout)? == Some(id) || OUTPUTS.lock().contains(&id);
    if !is_output {
        return Ok(());
    }
    if file.metadata()?.len() == 0 {
        bail!("is also the output, and the shell has truncated it (use -o, which replaces a file once it is complete)");
    }
    bail!("is also the output (use -o, which replaces a file once it is complete)");
}

fn file_id(file: &File) -> Result<Option<FileId>> {
    let found = file.metadata()?;
    Ok(found.is_file().then(|| (found.dev(), found.ino())))
}

/// Enlarges the buffer of a pipe. Failure costs only speed, and other files are
/// left alone.
pub(crate) fn widen_pipe(pipe: impl AsFd) {
    _ = rustix::pipe::fcntl_setpipe_size(pipe, PIPE_BYTES);
}

/// The output of a command. Reading its end waits for the command and checks
/// its exit status.
struct Piped {
    stdout: std::process::ChildStdout,
    process: Option<ShellProcess>,
}

impl Piped {
    fn start(script: &str) -> Result<Self> {
        let (process, stdout) = ShellProcess::reading(script).context("pipe:")?;
        widen_pipe(&stdout);
        Ok(Piped { stdout, process: Some(process) })
    }
}

impl Read for Piped {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let n = self.stdout.read(buf)?;
        let at_end = n == 0 && !buf.is_empty();
        if let Some(process) = self.process.take_if(|_| at_end) {
            process.wait().map_err(|err| io::Error::other(format!("{err:#}")))?;
        }
        Ok(n)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interrupted_read_is_made_again() {
        struct Interrupted(u32);
        impl Read for Interrupted {
            fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
                self.0 += 1;
                if self.0 == 3 { Ok(buf.len()) } else { Err(io::ErrorKind::Interrupted.into()) }
            }
        }
        assert_eq!(RetryInterrupted(Interrupted(0)).read(&mut [0; 5]).unwrap(), 5);
    }

    #[test]
    fn a_failing_command_is_an_error_even_after_its_last_byte() {
        let mut bytes = Vec::new();
        let err = open_raw("pipe:printf abc; exit 3").unwrap().read_to_end(&mut bytes).unwrap_err();
        assert_eq!(bytes, b"abc");
        assert_eq!(err.to_string(), "the command failed with exit status 3");
    }
}
