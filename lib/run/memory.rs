//! One memory budget for everything that the workers of a process decode. Pictures and frames are far larger than
//! their files, so a limit on the bytes of samples says nothing about them.
//!
//! A job takes its share before it decodes and keeps the bytes of its result until they are written. Results are
//! written in the order of the jobs, so shares are handed out in that order too ([`Turn`]): whoever holds one comes
//! before whoever waits, gets written, and gives it back. A job never waits for a later one, and nothing deadlocks.
//!
//! What is counted are buffers. The allocator may keep freed ones of up to 32 MB for a thread; larger ones go back to
//! the system at once.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use rustix::process::{Resource, getrlimit};

/// Assumed where the system does not say how much memory it has.
const UNKNOWN: u64 = 4 << 30;

/// Bytes that all workers share.
pub struct Budget {
    limit: u64,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    used: u64,
    /// The job whose turn it is.
    next: u64,
    /// Later jobs that do not want a turn.
    passed: BTreeSet<u64>,
}

impl State {
    fn pass(&mut self, number: u64) {
        self.passed.insert(number);
        while self.passed.remove(&self.next) {
            self.next += 1;
        }
    }
}

impl Budget {
    /// A budget of `limit` bytes.
    pub fn new(limit: u64) -> Arc<Self> {
        Arc::new(Budget { limit, state: Mutex::default(), changed: Condvar::new() })
    }

    /// All of it. A job that needs more alone cannot be done, whatever else runs: the caller fails it.
    pub fn limit(&self) -> u64 {
        self.limit
    }

    /// Waits for `bytes`, or for the whole budget if that is less. The holder must give them back without waiting for
    /// any other job; otherwise use [`Turn::take`].
    pub fn take(self: &Arc<Self>, bytes: u64) -> Held {
        self.take_when(bytes, |_| true)
    }

    /// Gives each job its turn, in their order.
    pub fn turns<I: Iterator>(self: &Arc<Self>, jobs: I) -> impl Iterator<Item = (Turn, I::Item)> + use<I> {
        let budget = Arc::clone(self);
        (0..).zip(jobs).map(move |(number, job)| (Turn { budget: Arc::clone(&budget), number }, job))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take_when(self: &Arc<Self>, bytes: u64, may: impl Fn(&State) -> bool) -> Held {
        let bytes = bytes.min(self.limit);
        let wait = |state: &mut State| !may(state) || state.used + bytes > self.limit;
        let mut state = self.changed.wait_while(self.state(), wait).unwrap_or_else(PoisonError::into_inner);
        state.used += bytes;
        Held { budget: Arc::clone(self), bytes }
    }
}

/// The right of one job to its share. Dropping it lets the next job have its turn.
pub struct Turn {
    budget: Arc<Budget>,
    number: u64,
}

impl Turn {
    /// Waits until every earlier job has taken its share or passed, and then for `bytes`, or for the whole budget if
    /// that is less.
    pub fn take(self, bytes: u64) -> Held {
        self.budget.take_when(bytes, |state| state.next == self.number)
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.budget.state().pass(self.number);
        self.budget.changed.notify_all();
    }
}

/// A share of the budget; given back when dropped.
pub struct Held {
    budget: Arc<Budget>,
    bytes: u64,
}

impl Held {
    /// Gives back all but `bytes`, which may not be more than are held: a result larger than its share counts as that.
    pub fn shrink_to(&mut self, bytes: u64) {
        let extra = self.bytes.saturating_sub(bytes);
        self.bytes -= extra;
        if extra > 0 {
            self.budget.state().used -= extra;
            self.budget.changed.notify_all();
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.shrink_to(0);
    }
}

/// The default budget: half of the memory that this process may use. That is the memory of the machine, or the limit of
/// its cgroup (containers, Slurm, systemd), or its resource limit (ulimit), whichever is least.
pub fn default_limit() -> u64 {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let cgroup = cgroup_limit(Path::new("/sys/fs/cgroup"), &read("/proc/self/cgroup"));
    let limits = [Resource::As, Resource::Data].map(|resource| getrlimit(resource).current);
    let known = [machine_memory(&read("/proc/meminfo")), cgroup].into_iter().chain(limits).flatten();
    known.min().unwrap_or(UNKNOWN) / 2
}

/// What a decoder of this PNG may allocate besides the pixels that it hands over: a few rows, and metadata. A colour
/// profile is compressed, and one of a megabyte can inflate to a gigabyte before anybody knows the size of the picture.
pub fn png_overhead(bytes: &[u8]) -> u64 {
    const METADATA: u64 = 16 << 20;
    let width = bytes.get(16..).and_then(<[u8]>::first_chunk).map_or(0, |width| u32::from_be_bytes(*width));
    METADATA + 2 * (bytes.len() as u64 + 8 * u64::from(width))
}

fn machine_memory(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok().map(|kilobytes| kilobytes << 10)
}

/// The least limit of the cgroups that `membership` (/proc/self/cgroup) names and of those above them, in either version.
/// In a container the names may be those of the host, and only the root is there.
fn cgroup_limit(root: &Path, membership: &str) -> Option<u64> {
    let limits = membership.lines().flat_map(|line| {
        let mut parts = line.splitn(3, ':').skip(1);
        let (controllers, group) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
        let (home, file) = match controllers {
            "" => (root.to_owned(), "memory.max"),
            _ if controllers.split(',').any(|name| name == "memory") => (root.join("memory"), "memory.limit_in_bytes"),
            _ => return Vec::new(),
        };
        let groups = Path::new(group.trim_start_matches('/')).ancestors();
        let read = |group: &Path| fs::read_to_string(home.join(group).join(file)).ok()?.trim().parse().ok();
        groups.filter_map(read).collect::<Vec<u64>>()
    });
    limits.min()
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;
    use std::time::Duration;

    use super::*;

    #[test]
    fn shares_are_handed_out_in_the_order_of_the_jobs() {
        let budget = Budget::new(100);
        let mut turns: Vec<Turn> = budget.turns(0..4).map(|(turn, _)| turn).collect();
        let (last, third, second) = (turns.pop().unwrap(), turns.pop().unwrap(), turns.pop().unwrap());
        let (sender, order) = channel();
        let wait = |name: &'static str, turn: Turn, bytes: u64| {
            let sender = sender.clone();
            std::thread::spawn(move || {
                let held = turn.take(bytes);
                sender.send(name).unwrap();
                held
            })
        };
        let last = wait("last", last, 1);
        let second = wait("second", second, 60);
        assert!(order.recv_timeout(Duration::from_millis(50)).is_err(), "the first job has not had its turn");
        drop(third); // it wants nothing
        let mut first = turns.pop().unwrap().take(80);
        // There would be room for the last, but it must not overtake the second.
        assert!(order.recv_timeout(Duration::from_millis(50)).is_err(), "80 and 60 are more than 100");
        first.shrink_to(30);
        let mut done = [order.recv().unwrap(), order.recv().unwrap()];
        done.sort_unstable();
        assert_eq!(done, ["last", "second"]);
        let held = [first, second.join().unwrap(), last.join().unwrap()];
        assert_eq!(budget.state().used, 91);
        drop(held);
        assert_eq!(budget.state().used, 0);
    }

    #[test]
    fn a_share_beyond_the_budget_is_all_of_it_and_comes_back() {
        let budget = Budget::new(100);
        let held = budget.take(1000);
        let waiting = std::thread::spawn({
            let budget = Arc::clone(&budget);
            move || drop(budget.take(1))
        });
        std::thread::sleep(Duration::from_millis(20));
        assert!(!waiting.is_finished());
        drop(held);
        waiting.join().unwrap();
        assert_eq!(budget.state().used, 0);
    }

    #[test]
    fn the_least_limit_of_a_cgroup_and_its_parents_counts() {
        let root = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        let limit = |membership: &str| cgroup_limit(root.path(), membership);
        assert_eq!(limit("0::/job/step\n"), None);
        write("job/step/memory.max", "max\n");
        write("job/memory.max", "5000\n");
        assert_eq!(limit("0::/job/step\n"), Some(5000));
        assert_eq!(limit("0::/elsewhere\n"), None);
        write("memory.max", "9000\n");
        assert_eq!(limit("0::/elsewhere\n"), Some(9000));
        write("memory/slurm/memory.limit_in_bytes", "700\n");
        assert_eq!(limit("9:cpu:/slurm\n4:cpuset,memory:/slurm/x\n"), Some(700));
        assert_eq!(machine_memory("MemTotal:       24000 kB\nMemFree: 1 kB\n"), Some(24_576_000));
        assert!(default_limit() > 0);
    }
}
