//! Processes as `/proc` describes them. Used to tell whether the writer of a
//! temporary file is alive ([`super::owner`]) and to find the processes that a
//! command started.
//!
//! If `/proc` is missing, or is that of another PID namespace, its process IDs
//! are not ours; then every function here finds nothing. Nothing here fails:
//! processes come and go while one looks.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::sync::LazyLock;

/// The kernel's flag for a process that is exiting.
const PF_EXITING: u64 = 4;
/// The bit of SIGKILL in a mask of pending signals.
const SIGKILL_BIT: u64 = 1 << 8;

/// A snapshot of one process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Process {
    /// Process ID.
    pub pid: i32,
    /// Process ID of its parent.
    pub parent: i32,
    /// ID of its process group.
    pub group: i32,
    /// When it started, in clock ticks since boot. Together with the process ID
    /// it identifies the process.
    pub start: u64,
    /// Whether it is a zombie: it has ended, and its parent has not reaped it
    /// yet.
    pub has_ended: bool,
    is_exiting: bool,
}

impl Process {
    /// Returns true if this very process still runs, not another one with the
    /// same ID.
    pub fn is_alive(&self) -> bool {
        find(self.pid).is_some_and(|now| now.start == self.start && !now.has_ended)
    }

    /// Returns true if it has been killed or is exiting, and will be gone in a
    /// moment.
    pub fn is_dying(&self) -> bool {
        let is_pending = |line: &str| {
            let mask = line.strip_prefix("SigPnd:").or_else(|| line.strip_prefix("ShdPnd:"));
            mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).is_some_and(|mask| mask & SIGKILL_BIT != 0)
        };
        let status = || fs::read_to_string(format!("/proc/{}/status", self.pid)).unwrap_or_default();
        self.is_exiting || status().lines().any(is_pending)
    }
}

/// Whether `/proc` belongs to our PID namespace.
fn is_ours() -> bool {
    static OURS: LazyLock<bool> = LazyLock::new(|| {
        let own = fs::read_link("/proc/self").ok();
        own.is_some_and(|own| own.to_str() == Some(&std::process::id().to_string()))
    });
    *OURS
}

/// Looks up a process by its ID.
pub fn find(pid: i32) -> Option<Process> {
    if !is_ours() {
        return None;
    }
    parse(pid, &fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

/// This process; None if `/proc` is missing or belongs to another PID
/// namespace.
pub fn own() -> Option<Process> {
    find(std::process::id() as i32)
}

/// Parses /proc/PID/stat.
fn parse(pid: i32, stat: &str) -> Option<Process> {
    // The name in parentheses may contain anything, parentheses included.
    let fields: Vec<&str> = stat.rsplit_once(") ")?.1.split(' ').collect();
    let number = |at: usize| fields.get(at)?.parse::<u64>().ok();
    Some(Process {
        pid,
        parent: number(1)? as i32,
        group: number(2)? as i32,
        start: number(19)?,
        has_ended: matches!(*fields.first()?, "Z" | "X"),
        is_exiting: number(6)? & PF_EXITING != 0,
    })
}

/// Every visible process. Costs one read per process.
pub(crate) fn all() -> Vec<Process> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| find(entry.file_name().to_str()?.parse().ok()?)).collect()
}

/// Process IDs of the children of our main thread. Adopted orphans are among
/// them; children that other threads started are not. Usually the list is
/// empty, which costs one short read.
pub fn children_of_main() -> Vec<i32> {
    static LIST: LazyLock<Option<File>> = LazyLock::new(|| {
        let own = std::process::id();
        File::open(format!("/proc/self/task/{own}/children")).ok().filter(|_| is_ours())
    });
    let mut list = [0; 4096];
    let read = LIST.as_ref().and_then(|file| file.read_at(&mut list, 0).ok());
    match read.filter(|&n| n < list.len()) {
        Some(0) => Vec::new(),
        Some(n) => String::from_utf8_lossy(&list[..n]).split_whitespace().filter_map(|pid| pid.parse().ok()).collect(),
        // The kernel lacks the file, no file descriptor was left for it, or the list is long.
        None => {
            let own = std::process::id() as i32;
            all().iter().filter(|process| process.parent == own).map(|process| process.pid).collect()
        }
    }
}

/// The value of an environment variable that a process was started with; None
/// if it is not set or we are not allowed to look.
pub fn variable(pid: i32, name: &str) -> Option<String> {
    let environment = fs::read(format!("/proc/{pid}/environ")).ok()?;
    let mut variables = environment.split(|&byte| byte == 0);
    let value = variables.find_map(|variable| variable.strip_prefix(name.as_bytes())?.strip_prefix(b"="))?;
    Some(String::from_utf8_lossy(value).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_with_parentheses_and_spaces_do_not_mislead() {
        let stat = "7 (a) Z (b) S 3 5 5 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 8123 9 10";
        let process = parse(7, stat).unwrap();
        assert_eq!((process.parent, process.group, process.start, process.has_ended), (3, 5, 8123, false));
        assert!(parse(7, "7 (a) Z 3").is_none());
    }

    #[test]
    fn a_child_is_found_and_its_end_is_seen() {
        let mut child = std::process::Command::new("sleep").arg("1000").spawn().unwrap();
        let found = all().into_iter().find(|found| found.pid == child.id() as i32).unwrap();
        assert_eq!(found.parent, std::process::id() as i32);
        assert!(found.is_alive() && !found.is_dying());
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(!found.is_alive());
    }
}
