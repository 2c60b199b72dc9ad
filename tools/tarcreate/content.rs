//! What goes into a field: where it is, and how it is read.

use std::fs::File;
use std::io::{self, ErrorKind, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use tarpipe::location;
use tarpipe::messages::progress;
use tarpipe::run::shell::quote;
use tarpipe::source;

use crate::item::Refusal;

/// Bytes of a sample that are read ahead of their turn; larger files are read when it comes.
pub const EAGER: u64 = 8 << 20;

/// Where the content of a field is.
#[derive(Debug)]
pub enum Content {
    /// Here.
    Text(Vec<u8>),
    /// In a file.
    Path(PathBuf),
    /// Behind a URL or a command, by the name that [`source::open_raw`] takes.
    Stream(String),
}

/// How sources are understood.
#[derive(Clone, Debug)]
pub struct Reading {
    /// Where relative paths begin.
    pub base: Option<PathBuf>,
    /// Whether commands are run.
    pub pipes: bool,
}

impl Reading {
    /// The content that `text` names.
    pub fn content(&self, text: &str) -> Result<Content, Refusal> {
        if let Some(literal) = text.strip_prefix("text:") {
            return Ok(Content::Text(literal.as_bytes().to_vec()));
        }
        if let Some(script) = text.strip_prefix("pipe:") {
            if !self.pipes {
                return Err(Refusal::new("pipe", format!("{text}: commands are run only with --allow-pipes")));
            }
            let there = self.base.as_ref().map(|base| format!("cd -- {} || exit\n", quote(&base.to_string_lossy())));
            return Ok(Content::Stream(format!("pipe:{}{script}", there.unwrap_or_default())));
        }
        match location::scheme(text) {
            Some(scheme) if scheme != "file" => Ok(Content::Stream(text.to_owned())),
            _ => {
                let path = Path::new(location::path_of(text));
                let base = self.base.as_ref().filter(|_| !text.is_empty());
                Ok(Content::Path(base.map_or_else(|| path.to_owned(), |base| base.join(path))))
            }
        }
    }
}

/// Content that was read, or is ready to be.
pub enum Data {
    Held(Vec<u8>),
    Stored(File, u64),
}

impl Data {
    pub fn bytes(&self) -> u64 {
        match self {
            Data::Held(data) => data.len() as u64,
            Data::Stored(_, bytes) => *bytes,
        }
    }
}

/// How much room there is for content.
#[derive(Clone, Debug)]
pub struct Room {
    /// Bytes that a file may have.
    pub limit: u64,
    /// Where streams go that are too large to be held.
    pub tmpdir: PathBuf,
}

impl Content {
    /// Reads up to `eager` bytes into memory; what is larger stays where it is, or goes to a
    /// file without a name.
    pub fn read(self, eager: u64, room: &Room) -> Result<Data, Refusal> {
        match self {
            Content::Text(text) => Ok(Data::Held(text)),
            Content::Path(path) => {
                let said = path.to_string_lossy().into_owned();
                let data = read_file(&path, eager, room).map_err(|err| refusal(&said, &err, room.limit))?;
                progress::add_bytes(data.bytes());
                Ok(data)
            }
            Content::Stream(name) => {
                let unreadable = |err: anyhow::Error| Refusal::new("unreadable", format!("{name}: {err:#}"));
                let input = source::open_raw(&name).map_err(unreadable)?;
                read_stream(input, eager, room).map_err(|err| refusal(&name, &err, room.limit))
            }
        }
    }

    /// What is wrong with it, as far as a look from outside tells.
    pub fn look(&self) -> Option<Refusal> {
        let Content::Path(path) = self else { return None };
        let said = path.to_string_lossy();
        match std::fs::metadata(path) {
            Ok(found) if found.is_dir() => Some(refusal(&said, &ErrorKind::IsADirectory.into(), 0)),
            Ok(_) => None,
            Err(err) => Some(refusal(&said, &err, 0)),
        }
    }
}

fn read_file(path: &Path, eager: u64, room: &Room) -> io::Result<Data> {
    let mut file = File::open(path)?;
    let found = file.metadata()?;
    if !found.is_file() {
        return read_stream(file, eager, room); // a folder says so when it is read
    }
    if found.len() > room.limit {
        return Err(ErrorKind::FileTooLarge.into());
    }
    if found.len() > eager {
        return Ok(Data::Stored(file, found.len()));
    }
    let mut data = Vec::with_capacity(found.len() as usize + 1);
    file.read_to_end(&mut data)?;
    Ok(Data::Held(data))
}

fn read_stream(mut input: impl Read, eager: u64, room: &Room) -> io::Result<Data> {
    let limit = room.limit;
    let mut data = Vec::new();
    (&mut input).take(eager.min(limit) + 1).read_to_end(&mut data)?;
    if data.len() as u64 > limit {
        return Err(ErrorKind::FileTooLarge.into());
    }
    if data.len() as u64 <= eager {
        return Ok(Data::Held(data));
    }
    let mut file = tempfile::tempfile_in(&room.tmpdir)?;
    let mut whole = io::Cursor::new(data).chain(input).take(limit + 1);
    let bytes = io::copy(&mut whole, &mut file)?;
    if bytes > limit {
        return Err(ErrorKind::FileTooLarge.into());
    }
    file.seek(SeekFrom::Start(0))?;
    Ok(Data::Stored(file, bytes))
}

fn refusal(said: &str, err: &io::Error, limit: u64) -> Refusal {
    match err.kind() {
        ErrorKind::NotFound if said.is_empty() => Refusal::new("missing", "an empty source"),
        ErrorKind::NotFound => Refusal::new("missing", format!("{said}: no such file")),
        ErrorKind::FileTooLarge => Refusal::new("too_large", format!("{said}: larger than {limit} bytes")),
        ErrorKind::IsADirectory => Refusal::new("unreadable", format!("{said}: is a directory")),
        _ => Refusal::new("unreadable", format!("{said}: {err}")),
    }
}
