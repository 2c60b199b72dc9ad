//! Where the bytes of a sink go, and how they appear there: one variant of
//! [`Destination`] per kind of name.

use std::fs::File;
use std::io::{self, IoSlice, Write};
use std::os::fd::AsFd;
use std::path::Path;
use std::process::ChildStdin;

use anyhow::{Error, Result, bail};

use super::descriptor::{self, Descriptor};
use super::{ReaderLeft, StoredBytes, Temporary, check_name, command_of, is_stdout, put};
use crate::digest::Digest;
use crate::location;
use crate::run::shell::ShellProcess;
use crate::source;
#[cfg(feature = "stores")]
use crate::store;

/// The stored bytes: counted, and hashed if requested, on their way to the
/// destination.
pub(super) struct SinkTarget {
    destination: Destination,
    bytes: u64,
    digest: Option<Digest>,
}

impl SinkTarget {
    /// Creates the destination of a name.
    pub(super) fn create(name: &str, with_digest: bool) -> Result<Self> {
        let destination = Destination::create(name)?;
        Ok(SinkTarget { destination, bytes: 0, digest: with_digest.then(Digest::new) })
    }

    /// Makes the bytes appear under their name.
    pub(super) fn commit(self) -> Result<StoredBytes> {
        self.destination.commit()?;
        Ok(StoredBytes { bytes: self.bytes, sha256: self.digest.map(Digest::hex) })
    }

    /// Counts and hashes the first `n` bytes of the buffers.
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

impl Write for SinkTarget {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        self.write_vectored(&[IoSlice::new(buf)])
    }

    fn write_vectored(&mut self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        let n = match &mut self.destination {
            Destination::Stdout(stdout) => stdout.write_vectored(bufs).map_err(reader_left),
            Destination::Device(device) => device.write_vectored(bufs),
            Destination::File(file) => file.write_vectored(bufs),
            Destination::Command(stdin, _) => stdin.write_vectored(bufs),
            Destination::Put(upload) => upload.write_vectored(bufs),
            #[cfg(feature = "stores")]
            Destination::Store(upload) => upload.write_vectored(bufs),
        }?;
        self.record(bufs, n);
        Ok(n)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The kinds of outputs; see the head of [`super`].
enum Destination {
    Stdout(File),
    Device(File),
    File(Temporary),
    Command(ChildStdin, ShellProcess),
    Put(put::PutUpload),
    #[cfg(feature = "stores")]
    Store(Box<store::ObjectUpload>),
}

impl Destination {
    /// Chooses the destination by the name: commands before schemes, schemes
    /// before paths.
    fn create(name: &str) -> Result<Self> {
        check_name(name).map_err(Error::msg)?;
        if is_stdout(name) {
            let stdout = File::from(io::stdout().as_fd().try_clone_to_owned()?);
            source::widen_pipe(&stdout);
            return Ok(Destination::Stdout(stdout));
        }
        if let Some(script) = command_of(name) {
            let (process, stdin) = ShellProcess::writing(&script)?;
            source::widen_pipe(&stdin);
            return Ok(Destination::Command(stdin, process));
        }
        match location::scheme(name) {
            Some("http" | "https") => Ok(Destination::Put(put::PutUpload::start(name)?)),
            #[cfg(feature = "stores")]
            Some("s3" | "gs" | "az") => Ok(Destination::Store(Box::new(store::ObjectUpload::start(name)?))),
            Some(scheme) if scheme != "file" => bail!(location::no_client("GCREATE", scheme)),
            _ => Destination::of_path(location::path_of(name).as_ref()),
        }
    }

    /// Descriptors, devices and fifos are written directly; everything else
    /// gets a temporary name first.
    fn of_path(path: &Path) -> Result<Self> {
        if let Some(Descriptor::Other(path)) = Descriptor::of(path) {
            let file = descriptor::open(&path)?;
            source::note_output(&file)?;
            return Ok(Destination::Device(file));
        }
        match std::fs::metadata(path) {
            Ok(found) if !found.is_file() => Ok(Destination::Device(File::options().write(true).open(path)?)),
            _ => Ok(Destination::File(Temporary::create(path)?)),
        }
    }

    /// Waits until the output is stored, and makes it appear.
    fn commit(self) -> Result<()> {
        match self {
            Destination::Stdout(_) | Destination::Device(_) => Ok(()),
            Destination::File(file) => file.commit(),
            Destination::Command(stdin, process) => {
                drop(stdin);
                process.wait()
            }
            Destination::Put(upload) => upload.finish(),
            #[cfg(feature = "stores")]
            Destination::Store(upload) => upload.finish(),
        }
    }
}

/// Only our own stdout can lose its reader; see [`ReaderLeft`].
fn reader_left(err: io::Error) -> io::Error {
    match err.kind() {
        io::ErrorKind::BrokenPipe => io::Error::new(io::ErrorKind::BrokenPipe, ReaderLeft),
        _ => err,
    }
}
