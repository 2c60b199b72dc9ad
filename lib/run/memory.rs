//! A memory budget that the workers of a process share, for the buffers that
//! they decode into. Images and frames are much larger than their files, so
//! that a limit on the size of samples does not bound them.
//!
//! A job takes its share before it decodes and keeps it until its result is
//! written. Results are written in the order of the jobs; therefore shares are
//! handed out in that order too ([`MemoryTurn`]). A job that holds a share
//! comes before every job that waits, so it will be written and give its share
//! back: no job ever waits for a later one, and there is no deadlock.
//!
//! Only buffers are counted. The allocator may keep freed blocks of up to 32 MB
//! per thread; larger ones are returned to the system at once.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use parking_lot::{Condvar, Mutex};
use rustix::process::{Resource, getrlimit};

/// Assumed if the system does not say how much memory it has.
const UNKNOWN: u64 = 4 << 30;

/// A number of bytes that all workers share.
///
/// ```
/// use tarpipe::run::memory::MemoryBudget;
///
/// let budget = MemoryBudget::new(100);
/// for (turn, size) in budget.turns([60, 50].into_iter()) {
///     let mut share = turn.take(size); // waits until every earlier job has taken its share, and for room
///     share.shrink_to(10); // the result is smaller than what decoding it needed
/// } // dropping the share gives the rest back
/// ```
pub struct MemoryBudget {
    limit: u64,
    state: Mutex<BudgetState>,
    changed: Condvar,
}

/// Who has taken how much, and whose turn it is.
#[derive(Default)]
struct BudgetState {
    used: u64,
    /// The number of the job whose turn it is.
    next: u64,
    /// Later jobs that have given up their turn.
    passed: BTreeSet<u64>,
}

impl BudgetState {
    /// Marks a turn as over. Turns may end in any order; the next one is the
    /// first that has not.
    fn pass(&mut self, number: u64) {
        self.passed.insert(number);
        while self.passed.remove(&self.next) {
            self.next += 1;
        }
    }
}

impl MemoryBudget {
    /// A budget of `limit` bytes, none of them taken.
    pub fn new(limit: u64) -> Arc<Self> {
        Arc::new(MemoryBudget { limit, state: Mutex::default(), changed: Condvar::new() })
    }

    /// The size of the whole budget. A job that alone needs more can never be
    /// processed, whatever else runs: the caller has to fail it.
    pub fn limit(&self) -> u64 {
        self.limit
    }

    /// Blocks until `bytes` are free and takes them; a request for more than
    /// the whole budget takes all of it. The holder must not wait for any other
    /// job before it gives them back; jobs that do use [`MemoryTurn::take`].
    pub fn take(self: &Arc<Self>, bytes: u64) -> MemoryShare {
        self.take_when(bytes, |_| true)
    }

    /// Pairs each job with its turn, in order. Lazy: a job gets its number when
    /// the iterator yields it, and every turn must be taken or dropped, or
    /// later jobs wait forever.
    pub fn turns<I: Iterator>(self: &Arc<Self>, jobs: I) -> impl Iterator<Item = (MemoryTurn, I::Item)> + use<I> {
        let budget = Arc::clone(self);
        (0..).zip(jobs).map(move |(number, job)| (MemoryTurn { budget: Arc::clone(&budget), number }, job))
    }

    /// Blocks until `may` allows it and there is room.
    fn take_when(self: &Arc<Self>, bytes: u64, may: impl Fn(&BudgetState) -> bool) -> MemoryShare {
        let bytes = bytes.min(self.limit);
        let wait = |state: &mut BudgetState| !may(state) || state.used + bytes > self.limit;
        let mut state = self.state.lock();
        self.changed.wait_while(&mut state, wait);
        state.used += bytes;
        MemoryShare { budget: Arc::clone(self), bytes }
    }
}

/// The right of one job to take its share after all earlier jobs. Dropping it
/// without taking a share lets the next job proceed.
pub struct MemoryTurn {
    budget: Arc<MemoryBudget>,
    number: u64,
}

impl MemoryTurn {
    /// Blocks until every earlier job has taken its share or given up its turn,
    /// and then until `bytes` are free; a request for more than the whole
    /// budget takes all of it.
    pub fn take(self, bytes: u64) -> MemoryShare {
        self.budget.take_when(bytes, |state| state.next == self.number)
    }
}

impl Drop for MemoryTurn {
    fn drop(&mut self) {
        self.budget.state.lock().pass(self.number);
        self.budget.changed.notify_all();
    }
}

/// Bytes taken from a budget; dropping it gives them back.
pub struct MemoryShare {
    budget: Arc<MemoryBudget>,
    bytes: u64,
}

impl MemoryShare {
    /// Gives back all but `bytes`. A share never grows: if `bytes` is more than
    /// it holds, nothing changes.
    pub fn shrink_to(&mut self, bytes: u64) {
        let extra = self.bytes.saturating_sub(bytes);
        self.bytes -= extra;
        if extra > 0 {
            self.budget.state.lock().used -= extra;
            self.budget.changed.notify_all();
        }
    }
}

impl Drop for MemoryShare {
    fn drop(&mut self) {
        self.shrink_to(0);
    }
}

/// The default of `--memory`: half of the memory that this process may use.
/// That is the least of the machine's memory, the limits of its cgroup
/// (containers, Slurm, systemd) and its resource limits (`ulimit`); 4 GB are
/// assumed if none of them is known. Reads a few small files.
pub fn default_limit() -> u64 {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let cgroup = cgroup_limit(Path::new("/sys/fs/cgroup"), &read("/proc/self/cgroup"));
    let limits = [Resource::As, Resource::Data].map(|resource| getrlimit(resource).current);
    let known = [machine_memory(&read("/proc/meminfo")), cgroup].into_iter().chain(limits).flatten();
    known.min().unwrap_or(UNKNOWN) / 2
}

/// An upper bound of what a decoder may allocate for this PNG besides the
/// pixels: a few rows, and metadata. Metadata is limited because a compressed
/// colour profile of one megabyte can inflate to a gigabyte before the size of
/// the image is known.
pub fn png_overhead(bytes: &[u8]) -> u64 {
    const METADATA: u64 = 16 << 20;
    let width = bytes.get(16..).and_then(<[u8]>::first_chunk).map_or(0, |width| u32::from_be_bytes(*width));
    METADATA + 2 * (bytes.len() as u64 + 8 * u64::from(width))
}

/// The total in /proc/meminfo.
fn machine_memory(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok().map(|kilobytes| kilobytes << 10)
}

/// The least memory limit of the cgroups listed in `membership`
/// (/proc/self/cgroup) and of their parents, for version 1 and 2. In a
/// container the paths may be those of the host, so that only the root can be
/// found.
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
        let budget = MemoryBudget::new(100);
        let mut turns: Vec<MemoryTurn> = budget.turns(0..4).map(|(turn, _)| turn).collect();
        let (last, third, second) = (turns.pop().unwrap(), turns.pop().unwrap(), turns.pop().unwrap());
        let (sender, order) = channel();
        let wait = |name: &'static str, turn: MemoryTurn, bytes: u64| {
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
        assert_eq!(budget.state.lock().used, 91);
        drop(held);
        assert_eq!(budget.state.lock().used, 0);
    }

    #[test]
    fn a_share_beyond_the_budget_is_all_of_it_and_comes_back() {
        let budget = MemoryBudget::new(100);
        let held = budget.take(1000);
        let waiting = std::thread::spawn({
            let budget = Arc::clone(&budget);
            move || drop(budget.take(1))
        });
        std::thread::sleep(Duration::from_millis(20));
        assert!(!waiting.is_finished());
        drop(held);
        waiting.join().unwrap();
        assert_eq!(budget.state.lock().used, 0);
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
