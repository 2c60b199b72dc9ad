//! Names that can be read: one place opens them all.
//!
//! `-` is stdin; `pipe:COMMAND` the output of a shell command; `http://` and `https://` are
//! fetched, and resumed when the connection drops; `s3://`, `gs://` and `az://` are object stores,
//! `hf://` is the Hugging Face hub; any `SCHEME://` is handed to the command in `GOPEN_<SCHEME>`, if
//! there is one, where `{}` stands for the name; all else is a path.

pub mod expand;
mod hf;
mod http;
mod version;

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result, anyhow, bail};

use crate::compression;
use crate::location;
use crate::messages::progress;
use crate::run::shell::Process;
#[cfg(feature = "stores")]
use crate::store;

/// Pipes are made this large where the kernel grants it: fewer switches between stages.
const PIPE_BYTES: usize = 1 << 20;

/// Opens a name for reading, decompressed.
pub fn open(name: &str) -> Result<Box<dyn Read + Send>> {
    Ok(compression::decoder_for(location::path_of(name), open_raw(name)?)?)
}

/// Opens a name for reading, as it is stored.
pub fn open_raw(name: &str) -> Result<Box<dyn Read + Send>> {
    Ok(Box::new(Patient(progress::Counted(open_uncounted(name)?))))
}

/// Makes an interrupted call again. Not every reader above does, those of CSV among them.
struct Patient<R>(R);

impl<R: Read> Read for Patient<R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.0.read(buf) {
                Err(err) if err.kind() == io::ErrorKind::Interrupted => {}
                result => return result,
            }
        }
    }
}

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
        Some("http" | "https") => Ok(Box::new(http::Download::start(name, None)?)),
        Some("hf") => open_on_hub(name),
        #[cfg(feature = "stores")]
        Some("s3" | "gs" | "az") => Ok(Box::new(store::Download::start(name)?)),
        Some(scheme) if scheme != "file" => bail!(location::no_client("GOPEN", scheme)),
        _ => Ok(Box::new(open_file(location::path_of(name))?)),
    }
}

/// Starts to read the beginning of a name that will be opened soon. Only object stores are read
/// ahead, and only a few; for all others it does nothing.
#[cfg(feature = "stores")]
pub fn prefetch(name: &str) {
    if location::is_object(name) && location::command_for("GOPEN", name).is_none() {
        store::prefetch(name);
    }
}

/// Does nothing: there are no object stores in this build.
#[cfg(not(feature = "stores"))]
pub fn prefetch(_name: &str) {}

/// Whether a name gives the same bytes when it is opened once more, at no great cost.
pub fn can_be_read_again(name: &str) -> bool {
    let is_stored = cfg!(feature = "stores") && location::is_object(name);
    is_stored || std::path::Path::new(location::path_of(name)).is_file()
}

/// How many bytes the name holds as stored, where that costs nothing to know.
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

fn open_on_hub(name: &str) -> Result<Box<dyn Read + Send>> {
    let hf::Location { url, token } = hf::locate(name)?;
    let hint = if token.is_some() { "" } else { " (without a token: set HF_TOKEN for private datasets)" };
    let download = http::Download::start(&url, token);
    Ok(Box::new(download.map_err(|err| anyhow!("{err:#}{hint}"))?))
}

fn open_file(path: &str) -> Result<File> {
    let file = File::open(path)?;
    if file.metadata()?.is_dir() {
        bail!("is a directory");
    }
    refuse_output(&file)?;
    Ok(file)
}

/// Files other than stdout that are written to in place.
static OUTPUTS: Mutex<Vec<FileId>> = Mutex::new(Vec::new());

/// Device and inode of a regular file.
type FileId = (u64, u64);

/// Remembers a file that is written to in place, so that it is not read as well.
pub(crate) fn note_output(file: &File) -> Result<()> {
    OUTPUTS.lock().unwrap_or_else(PoisonError::into_inner).extend(file_id(file)?);
    Ok(())
}

/// An error when `file` is what the run writes to: it would read its own output, without end.
pub fn refuse_output(file: &File) -> Result<()> {
    let Some(id) = file_id(file)? else { return Ok(()) };
    let stdout = File::from(io::stdout().as_fd().try_clone_to_owned()?);
    let is_output =
        file_id(&stdout)? == Some(id) || OUTPUTS.lock().unwrap_or_else(PoisonError::into_inner).contains(&id);
    if !is_output {
        return Ok(());
    }
    if file.metadata()?.len() == 0 {
        bail!("is also the output, and the shell has emptied it (use -o, which replaces a file when it is whole)");
    }
    bail!("is also the output (use -o, which replaces a file when it is whole)");
}

fn file_id(file: &File) -> Result<Option<FileId>> {
    let found = file.metadata()?;
    Ok(found.is_file().then(|| (found.dev(), found.ino())))
}

/// Asks for a larger buffer if this is a pipe. Refusal costs only speed.
pub(crate) fn widen_pipe(pipe: impl AsFd) {
    _ = rustix::pipe::fcntl_setpipe_size(pipe, PIPE_BYTES);
}

/// The output of a command. Its exit status is part of reading it to the end.
struct Piped {
    stdout: std::process::ChildStdout,
    process: Option<Process>,
}

impl Piped {
    fn start(script: &str) -> Result<Self> {
        let (process, stdout) = Process::reading(script).context("pipe:")?;
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
        assert_eq!(Patient(Interrupted(0)).read(&mut [0; 5]).unwrap(), 5);
    }

    #[test]
    fn a_failing_command_is_an_error_even_after_its_last_byte() {
        let mut bytes = Vec::new();
        let err = open_raw("pipe:printf abc; exit 3").unwrap().read_to_end(&mut bytes).unwrap_err();
        assert_eq!(bytes, b"abc");
        assert_eq!(err.to_string(), "the command failed with exit status 3");
    }
}
