//! This executable and the tools in it: how another process can start one of
//! them.
//!
//! All tools are normally in one executable, `tarpipe`, which acts by the name
//! it is called by or by its first argument. shardrun starts workers that are
//! tools themselves, and gives pipelines a PATH on which the tools are found.

use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use anyhow::{Context, Result, bail};

use crate::run::scratch::Scratch;

/// The tools in this executable, if it contains several.
static TOOLS: OnceLock<Vec<&'static str>> = OnceLock::new();

/// Declares that this executable contains these tools. Only the first call has
/// an effect; without one, the executable is a single tool.
pub fn declare(tools: Vec<&'static str>) {
    _ = TOOLS.set(tools);
}

/// The path of this executable with symbolic links resolved. Fails if `/proc`
/// is not mounted.
pub fn path() -> Result<PathBuf> {
    std::env::current_exe().context("cannot find this program")
}

/// The first words of a command that starts `tool` in another process: the
/// executable, and the tool's name if it contains several. `tool` is the tool
/// that is running now.
///
/// # Errors
///
/// Fails as [`path`] does.
pub fn command(tool: &str) -> Result<Vec<String>> {
    let program = path()?.to_string_lossy().into_owned();
    Ok(if TOOLS.get().is_some() { vec![program, tool.to_owned()] } else { vec![program] })
}

/// The first words of a command that starts another tool of this version: this
/// executable if it contains it, or else the executable beside this one.
pub fn sibling(tool: &str) -> Result<Vec<String>> {
    let program = path()?;
    Ok(match TOOLS.get() {
        Some(_) => vec![program.to_string_lossy().into_owned(), tool.to_owned()],
        None => vec![program.with_file_name(tool).to_string_lossy().into_owned()],
    })
}

/// Creates symbolic links to this executable in `folder`, one per tool, and
/// returns how many tools there are. Existing links to this executable are
/// kept.
///
/// # Errors
///
/// If any of the names exists and is something else, nothing is created;
/// `replace` replaces it instead. Fails as well if a link cannot be created.
pub fn link(folder: &Path, replace: bool) -> Result<usize> {
    let program = path()?;
    let tools = TOOLS.get().map(Vec::as_slice).unwrap_or_default();
    let target = target_in(folder, &program);
    let links: Vec<PathBuf> = tools.iter().map(|tool| folder.join(tool)).collect();
    let is_ours = |link: &Path| link.read_link().is_ok_and(|found| found == target);
    if let Some(taken) = links.iter().find(|link| !replace && link.symlink_metadata().is_ok() && !is_ours(link)) {
        bail!("{}: exists and is not a link to {}; use --force to replace it", taken.display(), program.display());
    }
    for link in links.iter().filter(|link| !is_ours(link)) {
        replace_link(&target, link).with_context(|| link.display().to_string())?;
    }
    Ok(links.len())
}

/// The target of the links: in the executable's own folder its bare name, so
/// that the folder can be moved.
fn target_in(folder: &Path, program: &Path) -> PathBuf {
    let is_own = folder.canonicalize().is_ok_and(|folder| program.parent() == Some(&folder));
    program.file_name().filter(|_| is_own).map_or_else(|| program.to_owned(), PathBuf::from)
}

/// Replaces a file by a link. Another process may be doing the same.
fn replace_link(target: &Path, link: &Path) -> io::Result<()> {
    match std::fs::remove_file(link) {
        Err(err) if err.kind() != io::ErrorKind::NotFound => return Err(err),
        _ => {}
    }
    match symlink(target, link) {
        Err(err) if err.kind() == io::ErrorKind::AlreadyExists && link.read_link()? == target => Ok(()),
        done => done,
    }
}

/// A folder in which commands find the tools by their names, to be put on the
/// PATH.
pub struct ToolFolder {
    path: PathBuf,
    scratch: Option<Scratch>,
}

impl ToolFolder {
    /// The folder of this executable if all tools can be found there; otherwise
    /// a temporary folder with links, which is removed when the value is
    /// dropped.
    ///
    /// Fails if no temporary folder can be created.
    pub fn find() -> Result<Self> {
        let program = path()?;
        let own = program.parent().unwrap_or(Path::new("/")).to_owned();
        let tools = TOOLS.get().map(Vec::as_slice).unwrap_or_default();
        if tools.iter().all(|tool| own.join(tool).exists()) {
            return Ok(ToolFolder { path: own, scratch: None });
        }
        let scratch = Scratch::create(None, false)?;
        let path = scratch.path().to_owned();
        link(&path, false)?;
        Ok(ToolFolder { path, scratch: Some(scratch) })
    }

    /// The path of the folder.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for ToolFolder {
    fn drop(&mut self) {
        if let Some(scratch) = &self.scratch {
            scratch.finish();
        }
    }
}
