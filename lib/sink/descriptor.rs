//! Names of open file descriptors: `/dev/stdout`, `/dev/fd/3`,
//! `/proc/self/fd/3`, and links to them. They are written to directly and never
//! replaced: the file may not have a name any more, and renaming would replace
//! the link itself.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

/// The number of links that are followed before a name is considered a loop.
const LINKS: usize = 40;

/// A file descriptor that is given by name.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Descriptor {
    /// Our own stdout.
    Stdout,
    /// Any other, also of another process.
    Other(PathBuf),
}

impl Descriptor {
    /// The descriptor that a path refers to; None for all other paths.
    pub(super) fn of(path: &Path) -> Option<Self> {
        // These are links into /proc, which need not be mounted.
        match path.to_str() {
            Some("/dev/stdout") => return Some(Descriptor::Stdout),
            Some("/dev/stderr" | "/dev/stdin") => return Some(Descriptor::Other(path.to_owned())),
            _ => {}
        }
        let mut path = path.to_owned();
        for _ in 0..LINKS {
            let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
            let folder = fs::canonicalize(folder).ok()?;
            path = folder.join(path.file_name()?);
            if folder.starts_with("/proc") && folder.ends_with("fd") {
                let is_own = fs::canonicalize("/proc/self/fd").is_ok_and(|own| own == folder);
                let is_stdout = is_own && path.ends_with("1");
                return Some(if is_stdout { Descriptor::Stdout } else { Descriptor::Other(path) });
            }
            path = folder.join(fs::read_link(&path).ok()?);
        }
        None
    }
}

/// Reopens a descriptor. A regular file is opened for appending, or it would be
/// overwritten from its beginning.
pub(super) fn open(path: &Path) -> io::Result<File> {
    let is_file = fs::metadata(path)?.is_file();
    File::options().append(is_file).write(true).open(path)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn names_of_descriptors_are_known_through_links() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        symlink("/proc/self/fd/1", at("stdout")).unwrap();
        symlink("stdout", at("link")).unwrap();
        symlink("/dev/fd", at("descriptors")).unwrap();
        symlink("loop", at("loop")).unwrap();
        fs::write(at("file"), "").unwrap();
        symlink("file", at("to-file")).unwrap();
        for name in ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"] {
            assert_eq!(Descriptor::of(Path::new(name)), Some(Descriptor::Stdout), "{name}");
        }
        for name in ["stdout", "link", "descriptors/1"] {
            assert_eq!(Descriptor::of(&at(name)), Some(Descriptor::Stdout), "{name}");
        }
        assert!(matches!(Descriptor::of(&at("descriptors/0")), Some(Descriptor::Other(_))));
        assert!(matches!(Descriptor::of(Path::new("/dev/stderr")), Some(Descriptor::Other(_))));
        for name in ["file", "to-file", "loop", "nothing", "no/thing"] {
            assert_eq!(Descriptor::of(&at(name)), None, "{name}");
        }
        assert_eq!(Descriptor::of(Path::new("/dev/null")), None);
        assert_eq!(Descriptor::of(Path::new("plain.tar")), None);
    }
}
