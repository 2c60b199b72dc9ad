//! The queue of each host: limits its requests in flight and its request rate, and pauses hosts that keep failing. Hosts take
//! turns, so that a slow one does not delay the others.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};
use std::time::Duration;

use tokio::time::Instant;

use crate::fetch::failure::FetchFailure;

/// The limits that apply to each host.
#[derive(Clone, Copy, Debug)]
pub struct HostLimits {
    pub in_flight: usize,
    /// The least time between the starts of two requests.
    pub interval: Duration,
    /// Consecutive failures of the host itself after which it is paused; 0 for never.
    pub max_failures: u32,
    /// The first pause; each further one is twice as long.
    pub pause: Duration,
}

/// Hosts to remember; beyond that, those without rows are forgotten.
const MAX_HOSTS: usize = 100_000;

/// The longest pause of a host.
const MAX_PAUSE: Duration = Duration::from_secs(600);

/// What to do with the next row.
pub enum NextRow {
    Start(u64),
    /// Its host is paused: the row fails like the last one.
    Refuse(u64, FetchFailure),
}

struct HostQueue {
    /// Rows by index.
    queue: VecDeque<u64>,
    in_flight: usize,
    /// The earliest start of its next request.
    next_start: Instant,
    /// Consecutive failures of the host itself.
    failures: u32,
    last_failure: Option<FetchFailure>,
    /// When it last responded, with success or not.
    last_response: Option<Instant>,
    paused_until: Option<Instant>,
    pause: Duration,
    /// Whether it is in `runnable` or `delayed`.
    is_listed: bool,
}

/// All hosts that have rows, or failures to remember.
pub struct HostQueues {
    limits: HostLimits,
    hosts: HashMap<String, HostQueue>,
    /// Hosts that may be able to start a row, in the order of their turns.
    runnable: VecDeque<String>,
    /// Hosts that may not start a row before a certain time.
    delayed: BinaryHeap<Reverse<(Instant, String)>>,
}

impl HostQueues {
    pub fn new(limits: HostLimits) -> Self {
        HostQueues { limits, hosts: HashMap::new(), runnable: VecDeque::new(), delayed: BinaryHeap::new() }
    }

    /// Queues a row. Retries go to the front, because they are older.
    pub fn push(&mut self, name: &str, row: u64, to_front: bool, now: Instant) {
        if self.hosts.len() >= MAX_HOSTS {
            self.hosts.retain(|_, host| host.in_flight > 0 || host.is_listed);
        }
        if !self.hosts.contains_key(name) {
            let host = HostQueue {
                queue: VecDeque::new(),
                in_flight: 0,
                next_start: now,
                failures: 0,
                last_failure: None,
                last_response: None,
                paused_until: None,
                pause: self.limits.pause,
                is_listed: false,
            };
            self.hosts.insert(name.to_owned(), host);
        }
        let Some(host) = self.hosts.get_mut(name) else { return };
        if to_front {
            host.queue.push_front(row)
        } else {
            host.queue.push_back(row)
        }
        if !std::mem::replace(&mut host.is_listed, true) {
            self.runnable.push_back(name.to_owned());
        }
    }

    /// The next row that may start now. Hosts take turns.
    pub fn next(&mut self, now: Instant) -> Option<NextRow> {
        while let Some(Reverse((at, _))) = self.delayed.peek() {
            if *at > now {
                break;
            }
            self.runnable.extend(self.delayed.pop().map(|Reverse((_, name))| name));
        }
        while let Some(name) = self.runnable.pop_front() {
            let Some(host) = self.hosts.get_mut(&name) else { continue };
            let limit = if host.paused_until.is_some() { 1 } else { self.limits.in_flight };
            if host.paused_until.is_some_and(|until| now < until)
                && let (Some(row), Some(last)) = (host.queue.pop_front(), &host.last_failure)
            {
                let failure = paused_failure(last, host.failures);
                self.runnable.push_front(name);
                return Some(NextRow::Refuse(row, failure));
            }
            if host.queue.is_empty() || host.in_flight >= limit {
                host.is_listed = false;
                continue;
            }
            if now < host.next_start {
                self.delayed.push(Reverse((host.next_start, name)));
                continue;
            }
            let Some(row) = host.queue.pop_front() else { continue };
            host.in_flight += 1;
            host.next_start = now + self.limits.interval;
            self.runnable.push_back(name);
            return Some(NextRow::Start(row));
        }
        None
    }

    /// When the next of the delayed hosts may start a row.
    pub fn wakes_at(&self) -> Option<Instant> {
        self.delayed.peek().map(|Reverse((at, _))| *at)
    }

    /// When this host may start its next row, if `row` is in its queue.
    pub fn starts_at(&self, name: &str, row: u64) -> Option<Instant> {
        self.hosts.get(name).filter(|host| host.queue.contains(&row)).map(|host| host.next_start)
    }

    /// Starts a particular row, even if its host has too many in flight. False if it is not in the queue of this host, or too
    /// early for the host's rate.
    pub fn force_start(&mut self, name: &str, row: u64, now: Instant) -> bool {
        let Some(host) = self.hosts.get_mut(name).filter(|host| now >= host.next_start) else { return false };
        let Some(at) = host.queue.iter().position(|&queued| queued == row) else { return false };
        host.in_flight += 1;
        host.next_start = now + self.limits.interval;
        host.queue.remove(at).is_some()
    }

    /// Records the end of an attempt at this host. Failures of attempts that started before the host last responded do not count
    /// towards the pause: if a thousand time out together, the host may only have been overloaded for a moment.
    pub fn complete(&mut self, name: &str, failure: Option<&FetchFailure>, started: Instant, now: Instant) {
        let limits = self.limits;
        let Some(host) = self.hosts.get_mut(name) else { return };
        host.in_flight -= 1;
        match failure {
            Some(failure)
                if failure.code.blames_host() && host.last_response.is_some_and(|responded| started < responded) =>
            {
                host.last_failure = Some(failure.clone());
            }
            Some(failure) if failure.code.blames_host() => {
                host.failures += 1;
                host.last_failure = Some(failure.clone());
                let was_trial = host.paused_until.is_some_and(|until| now >= until);
                if limits.max_failures > 0 && (host.failures == limits.max_failures || was_trial) {
                    host.paused_until = Some(now + host.pause);
                    host.pause = (host.pause * 2).min(MAX_PAUSE);
                }
            }
            _ => {
                host.failures = 0;
                host.last_response = Some(now);
                host.paused_until = None;
                host.pause = limits.pause;
            }
        }
        if !host.queue.is_empty() && !std::mem::replace(&mut host.is_listed, true) {
            self.runnable.push_back(name.to_owned());
        }
        if host.in_flight == 0 && !host.is_listed && host.failures == 0 && host.next_start <= now {
            self.hosts.remove(name);
        }
    }
}

fn paused_failure(last: &FetchFailure, failures: u32) -> FetchFailure {
    FetchFailure::permanent(
        last.code,
        format!("not tried: the host is paused after {failures} consecutive failures; last failure: {}", last.message),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fetch::failure::FailureCode;

    const POLITE: HostLimits =
        HostLimits { in_flight: 2, interval: Duration::from_secs(1), max_failures: 3, pause: Duration::from_secs(60) };

    fn next(hosts: &mut HostQueues, now: Instant) -> String {
        match hosts.next(now) {
            Some(NextRow::Start(job)) => format!("start {job}"),
            Some(NextRow::Refuse(job, failure)) => format!("refuse {job} {}", failure.code.name()),
            None => hosts.wakes_at().map_or("idle".into(), |at| format!("later {:?}", at - now)),
        }
    }

    #[test]
    fn a_host_gets_few_requests_at_a_time_and_slowly() {
        let now = Instant::now();
        let mut hosts = HostQueues::new(POLITE);
        (0..4).for_each(|job| hosts.push("h", job, false, now));
        hosts.push("h", 9, true, now);
        assert_eq!(next(&mut hosts, now), "start 9");
        assert_eq!(next(&mut hosts, now), "later 1s");
        let later = now + Duration::from_secs(5);
        assert_eq!(next(&mut hosts, later), "start 0");
        assert_eq!(next(&mut hosts, later), "idle");
        hosts.complete("h", None, now, later);
        assert_eq!(next(&mut hosts, later + Duration::from_secs(1)), "start 1");
    }

    #[test]
    fn a_dead_host_is_paused_and_then_tried_once() {
        let mut now = Instant::now();
        let mut hosts = HostQueues::new(POLITE);
        let failure = FetchFailure::transient(FailureCode::Connect, "refused");
        for job in 0..3 {
            hosts.push("h", job, false, now);
            assert_eq!(next(&mut hosts, now), format!("start {job}"));
            hosts.complete("h", Some(&failure), now, now);
            now += Duration::from_secs(1);
        }
        (3..6).for_each(|job| hosts.push("h", job, false, now));
        assert_eq!(next(&mut hosts, now), "refuse 3 connect");
        now += Duration::from_secs(60);
        assert_eq!(next(&mut hosts, now), "start 4");
        assert_eq!(next(&mut hosts, now), "idle");
        hosts.complete("h", Some(&failure), now, now);
        assert_eq!(next(&mut hosts, now + Duration::from_secs(100)), "refuse 5 connect");
    }

    #[test]
    fn failures_at_one_moment_are_not_consecutive() {
        let started = Instant::now();
        let mut hosts = HostQueues::new(HostLimits { in_flight: 10, interval: Duration::ZERO, ..POLITE });
        (0..10).for_each(|job| hosts.push("h", job, false, started));
        (0..6).for_each(|job| assert_eq!(next(&mut hosts, started), format!("start {job}")));
        let failure = FetchFailure::transient(FailureCode::Timeout, "no answer");
        let now = started + Duration::from_secs(20);
        hosts.complete("h", None, started, now);
        (0..5).for_each(|_| hosts.complete("h", Some(&failure), started, now));
        assert_eq!(next(&mut hosts, now), "start 6");
        // Those that started since then count.
        (7..9).for_each(|job| assert_eq!(next(&mut hosts, now), format!("start {job}")));
        (0..3).for_each(|_| hosts.complete("h", Some(&failure), now, now + Duration::from_secs(20)));
        assert_eq!(next(&mut hosts, now + Duration::from_secs(20)), "refuse 9 timeout");
    }

    #[test]
    fn hosts_take_turns() {
        let now = Instant::now();
        let mut hosts = HostQueues::new(HostLimits { interval: Duration::ZERO, ..POLITE });
        for (name, job) in [("a", 1), ("a", 2), ("a", 3), ("b", 4), ("c", 5)] {
            hosts.push(name, job, false, now);
        }
        let mut order = Vec::new();
        while let Some(NextRow::Start(job)) = hosts.next(now) {
            order.push(job);
        }
        assert_eq!(order, [1, 4, 5, 2]);
        assert!(hosts.force_start("a", 3, now));
    }

    #[test]
    fn a_forced_job_keeps_the_interval() {
        let (now, second) = (Instant::now(), Duration::from_secs(1));
        let mut hosts = HostQueues::new(POLITE);
        (0..5).for_each(|job| hosts.push("h", job, false, now));
        assert_eq!((next(&mut hosts, now), next(&mut hosts, now + second)), ("start 0".into(), "start 1".into()));
        assert!(!hosts.force_start("h", 3, now + second));
        assert_eq!(hosts.starts_at("h", 3), Some(now + 2 * second));
        assert!(hosts.force_start("h", 3, now + 2 * second));
        assert_eq!((hosts.starts_at("h", 3), hosts.starts_at("h", 4)), (None, Some(now + 3 * second)));
    }
}
