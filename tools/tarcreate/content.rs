//! The content of a field: where it is, and how it is read.

use std::fs::File;
use std::io::{self, ErrorKind, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use tarpipe::location;
use tarpipe::messages::progress;
use tarpipe::run::shell::quote;
use tarpipe::source;

use crate::tarcreate::planned_sample::ItemRefusal;

/// Bytes of a sample that workers load into memory; the rest is copied when the sample is written.
pub const READ_AHEAD: u64 = 8 << 20;

/// Where the content of a field is.
#[derive(Debug)]
pub enum Content {
    /// In the plan or table itself.
    Text(Vec<u8>),
    /// In a file.
    Path(PathBuf),
    /// At a URL or from a command, by the name that [`source::open_raw`] accepts.
    Stream(String),
}

/// Turns the text of a source into a [`Content`].
#[derive(Clone, Debug)]
pub struct ContentResolver {
    /// The directory for relative paths and commands.
    pub base: Option<PathBuf>,
    /// Whether commands may run.
    pub pipes: bool,
}

impl ContentResolver {
    /// The content that `text` names. Nothing is opened.
    pub fn resolve(&self, text: &str) -> Result<Content, ItemRefusal> {
        if let Some(literal) = text.strip_prefix("text:") {
            return Ok(Content::Text(literal.as_bytes().to_vec()));
        }
        if let Some(script) = text.strip_prefix("pipe:") {
            if !self.pipes {
                return Err(ItemRefusal::new("pipe", format!("{text}: commands need --allow-pipes")));
            }
            let change_directory =
                self.base.as_ref().map(|base| format!("cd -- {} || exit\n", quote(&base.to_string_lossy())));
            return Ok(Content::Stream(format!("pipe:{}{script}", change_directory.unwrap_or_default())));
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

/// Content that was loaded, or an open file to copy it from.
pub enum FieldData {
    InMemory(Vec<u8>),
    OnDisk(File, u64),
}

impl FieldData {
    pub fn bytes(&self) -> u64 {
        match self {
            FieldData::InMemory(data) => data.len() as u64,
            FieldData::OnDisk(_, bytes) => *bytes,
        }
    }
}

/// Limits for content, and where large content is kept.
#[derive(Clone, Debug)]
pub struct ContentLimits {
    /// Maximum size of a file.
    pub max_size: u64,
    /// Directory for streams that are too large for memory.
    pub tmpdir: PathBuf,
}

impl Content {
    /// Loads content of up to `read_ahead` bytes into memory. A larger file stays open; a larger stream goes to an
    /// unnamed file.
    pub fn read(self, read_ahead: u64, limits: &ContentLimits) -> Result<FieldData, ItemRefusal> {
        match self {
            Content::Text(text) => Ok(FieldData::InMemory(text)),
            Content::Path(path) => {
                let shown = path.to_string_lossy().into_owned();
                let data =
                    read_file(&path, read_ahead, limits).map_err(|err| refusal(&shown, &err, limits.max_size))?;
                progress::add_bytes(data.bytes());
                Ok(data)
            }
            Content::Stream(name) => {
                let unreadable = |err: anyhow::Error| ItemRefusal::new("unreadable", format!("{name}: {err:#}"));
                let input = source::open_raw(&name).map_err(unreadable)?;
                read_stream(input, read_ahead, limits).map_err(|err| refusal(&name, &err, limits.max_size))
            }
        }
    }

    /// What is wrong with it, as far as can be told without opening it.
    pub fn check(&self) -> Option<ItemRefusal> {
        let Content::Path(path) = self else { return None };
        let shown = path.to_string_lossy();
        match std::fs::metadata(path) {
            Ok(found) if found.is_dir() => Some(refusal(&shown, &ErrorKind::IsADirectory.into(), 0)),
            Ok(_) => None,
            Err(err) => Some(refusal(&shown, &err, 0)),
        }
    }
}

fn read_file(path: &Path, read_ahead: u64, limits: &ContentLimits) -> io::Result<FieldData> {
    let mut file = File::open(path)?;
    let found = file.metadata()?;
    if !found.is_file() {
        return read_stream(file, read_ahead, limits); // reading a folder fails with the right error
    }
    if found.len() > limits.max_size {
        return Err(ErrorKind::FileTooLarge.into());
    }
    if found.len() > read_ahead {
        return Ok(FieldData::OnDisk(file, found.len()));
    }
    let mut data = Vec::with_capacity(found.len() as usize + 1);
    file.read_to_end(&mut data)?;
    Ok(FieldData::InMemory(data))
}

fn read_stream(mut input: impl Read, read_ahead: u64, limits: &ContentLimits) -> io::Result<FieldData> {
    let limit = limits.max_size;
    let mut data = Vec::new();
    (&mut input).take(read_ahead.min(limit) + 1).read_to_end(&mut data)?;
    if data.len() as u64 > limit {
        return Err(ErrorKind::FileTooLarge.into());
    }
    if data.len() as u64 <= read_ahead {
        return Ok(FieldData::InMemory(data));
    }
    let mut file = tempfile::tempfile_in(&limits.tmpdir)?;
    let mut whole = io::Cursor::new(data).chain(input).take(limit + 1);
    let bytes = io::copy(&mut whole, &mut file)?;
    if bytes > limit {
        return Err(ErrorKind::FileTooLarge.into());
    }
    file.seek(SeekFrom::Start(0))?;
    Ok(FieldData::OnDisk(file, bytes))
}

fn refusal(shown: &str, err: &io::Error, limit: u64) -> ItemRefusal {
    match err.kind() {
        ErrorKind::NotFound if shown.is_empty() => ItemRefusal::new("missing", "empty source"),
        ErrorKind::NotFound => ItemRefusal::new("missing", format!("{shown}: no such file")),
        ErrorKind::FileTooLarge => ItemRefusal::new("too_large", format!("{shown}: larger than {limit} bytes")),
        ErrorKind::IsADirectory => ItemRefusal::new("unreadable", format!("{shown}: is a directory")),
        _ => ItemRefusal::new("unreadable", format!("{shown}: {err}")),
    }
}
