//! The hosts of a run: how much each is asked at once, how often, and which are left alone
//! because they answer nothing.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};
use std::time::Duration;

use tokio::time::Instant;

use super::failure::Failure;

/// What every host is asked at most.
#[derive(Clone, Copy, Debug)]
pub struct Politeness {
    /// Requests at once.
    pub in_flight: usize,
    /// Time between two starts.
    pub interval: Duration,
    /// Failures in a row, of the kind that blames the host, after which it is left alone; 0 for never.
    pub max_failures: u32,
    /// For how long, the first time; it doubles.
    pub pause: Duration,
}

/// Idle hosts remembered for their failures; beyond that the idle are forgotten.
const MAX_HOSTS: usize = 100_000;

/// The longest pause of a host.
const MAX_PAUSE: Duration = Duration::from_secs(600);

/// What to do with the next job.
pub enum Turn<T> {
    /// Start it.
    Start(T),
    /// Its host has been given up for now: the job fails like the ones before.
    Refuse(T, Failure),
}

struct Host<T> {
    queue: VecDeque<T>,
    in_flight: usize,
    next_start: Instant,
    failures: u32,
    last: Option<Failure>,
    /// When it last gave an answer, of whatever kind.
    answered: Option<Instant>,
    closed_until: Option<Instant>,
    pause: Duration,
    /// Whether it stands in `turns` or `sleepers`.
    is_listed: bool,
}

/// All hosts that have jobs or a history.
pub struct Hosts<T> {
    politeness: Politeness,
    hosts: HashMap<String, Host<T>>,
    /// Hosts with a job that may be able to start: each gets its turn, so a slow one holds up nobody.
    turns: VecDeque<String>,
    /// Hosts that may not start a job before an instant.
    sleepers: BinaryHeap<Reverse<(Instant, String)>>,
}

impl<T> Hosts<T> {
    pub fn new(politeness: Politeness) -> Self {
        Hosts { politeness, hosts: HashMap::new(), turns: VecDeque::new(), sleepers: BinaryHeap::new() }
    }

    /// Queues a job; retries go to the front, for they are older.
    pub fn push(&mut self, name: &str, job: T, to_front: bool, now: Instant) {
        if self.hosts.len() >= MAX_HOSTS {
            self.hosts.retain(|_, host| host.in_flight > 0 || host.is_listed);
        }
        if !self.hosts.contains_key(name) {
            let host = Host {
                queue: VecDeque::new(),
                in_flight: 0,
                next_start: now,
                failures: 0,
                last: None,
                answered: None,
                closed_until: None,
                pause: self.politeness.pause,
                is_listed: false,
            };
            self.hosts.insert(name.to_owned(), host);
        }
        let Some(host) = self.hosts.get_mut(name) else { return };
        if to_front {
            host.queue.push_front(job)
        } else {
            host.queue.push_back(job)
        }
        if !std::mem::replace(&mut host.is_listed, true) {
            self.turns.push_back(name.to_owned());
        }
    }

    /// The next job that may start now, hosts taking turns.
    pub fn next(&mut self, now: Instant) -> Option<Turn<T>> {
        while let Some(Reverse((at, _))) = self.sleepers.peek() {
            if *at > now {
                break;
            }
            self.turns.extend(self.sleepers.pop().map(|Reverse((_, name))| name));
        }
        while let Some(name) = self.turns.pop_front() {
            let Some(host) = self.hosts.get_mut(&name) else { continue };
            let limit = if host.closed_until.is_some() { 1 } else { self.politeness.in_flight };
            if host.closed_until.is_some_and(|until| now < until)
                && let (Some(job), Some(last)) = (host.queue.pop_front(), &host.last)
            {
                let failure = given_up(last, host.failures);
                self.turns.push_front(name);
                return Some(Turn::Refuse(job, failure));
            }
            if host.queue.is_empty() || host.in_flight >= limit {
                host.is_listed = false;
                continue;
            }
            if now < host.next_start {
                self.sleepers.push(Reverse((host.next_start, name)));
                continue;
            }
            let Some(job) = host.queue.pop_front() else { continue };
            host.in_flight += 1;
            host.next_start = now + self.politeness.interval;
            self.turns.push_back(name);
            return Some(Turn::Start(job));
        }
        None
    }

    /// When the next host wakes that sleeps now.
    pub fn wakes_at(&self) -> Option<Instant> {
        self.sleepers.peek().map(|Reverse((at, _))| *at)
    }

    /// When the host of a job in its queue may be asked again.
    pub fn starts_at(&self, wanted: impl Fn(&T) -> bool) -> Option<Instant> {
        self.hosts.values().find(|host| host.queue.iter().any(&wanted)).map(|host| host.next_start)
    }

    /// Starts one particular job, however many its host has in flight; none when it is too early for the host.
    pub fn force(&mut self, wanted: impl Fn(&T) -> bool, now: Instant) -> Option<T> {
        let find = |host: &Host<T>| host.queue.iter().position(&wanted);
        let (host, at) = self.hosts.values_mut().find_map(|host| find(host).map(|at| (host, at)))?;
        if now < host.next_start {
            return None;
        }
        host.in_flight += 1;
        host.next_start = now + self.politeness.interval;
        host.queue.remove(at)
    }

    /// A job of this host that began then has ended, well or with a failure. What began before the host last answered
    /// says less than that answer: of a thousand jobs that time out together it may have had too much at once.
    pub fn ended(&mut self, name: &str, failure: Option<&Failure>, began: Instant, now: Instant) {
        let politeness = self.politeness;
        let Some(host) = self.hosts.get_mut(name) else { return };
        host.in_flight -= 1;
        match failure {
            Some(failure) if failure.code.blames_host() && host.answered.is_some_and(|answered| began < answered) => {
                host.last = Some(failure.clone());
            }
            Some(failure) if failure.code.blames_host() => {
                host.failures += 1;
                host.last = Some(failure.clone());
                let was_on_trial = host.closed_until.is_some_and(|until| now >= until);
                if politeness.max_failures > 0 && (host.failures == politeness.max_failures || was_on_trial) {
                    host.closed_until = Some(now + host.pause);
                    host.pause = (host.pause * 2).min(MAX_PAUSE);
                }
            }
            _ => {
                host.failures = 0;
                host.answered = Some(now);
                host.closed_until = None;
                host.pause = politeness.pause;
            }
        }
        if !host.queue.is_empty() && !std::mem::replace(&mut host.is_listed, true) {
            self.turns.push_back(name.to_owned());
        }
        if host.in_flight == 0 && !host.is_listed && host.failures == 0 && host.next_start <= now {
            self.hosts.remove(name);
        }
    }

    /// Takes all jobs that have not started.
    pub fn drain(&mut self) -> Vec<T> {
        self.hosts.values_mut().flat_map(|host| host.queue.drain(..)).collect()
    }
}

fn given_up(last: &Failure, failures: u32) -> Failure {
    Failure::lasting(last.code, format!("not tried: the host failed {failures} times in a row, last: {}", last.why))
}

#[cfg(test)]
mod tests {
    use super::super::failure::Code;
    use super::*;

    const POLITE: Politeness =
        Politeness { in_flight: 2, interval: Duration::from_secs(1), max_failures: 3, pause: Duration::from_secs(60) };

    fn turn(hosts: &mut Hosts<u32>, now: Instant) -> String {
        match hosts.next(now) {
            Some(Turn::Start(job)) => format!("start {job}"),
            Some(Turn::Refuse(job, failure)) => format!("refuse {job} {}", failure.code.name()),
            None => hosts.wakes_at().map_or("idle".into(), |at| format!("later {:?}", at - now)),
        }
    }

    #[test]
    fn a_host_is_asked_slowly_and_little_at_once() {
        let now = Instant::now();
        let mut hosts = Hosts::new(POLITE);
        (0..4).for_each(|job| hosts.push("h", job, false, now));
        hosts.push("h", 9, true, now);
        assert_eq!(turn(&mut hosts, now), "start 9");
        assert_eq!(turn(&mut hosts, now), "later 1s");
        let later = now + Duration::from_secs(5);
        assert_eq!(turn(&mut hosts, later), "start 0");
        assert_eq!(turn(&mut hosts, later), "idle");
        hosts.ended("h", None, now, later);
        assert_eq!(turn(&mut hosts, later + Duration::from_secs(1)), "start 1");
    }

    #[test]
    fn a_dead_host_is_left_alone_and_then_tried_once() {
        let mut now = Instant::now();
        let mut hosts = Hosts::new(POLITE);
        let failure = Failure::passing(Code::Connect, "refused");
        for job in 0..3 {
            hosts.push("h", job, false, now);
            assert_eq!(turn(&mut hosts, now), format!("start {job}"));
            hosts.ended("h", Some(&failure), now, now);
            now += Duration::from_secs(1);
        }
        (3..6).for_each(|job| hosts.push("h", job, false, now));
        assert_eq!(turn(&mut hosts, now), "refuse 3 connect");
        now += Duration::from_secs(60);
        assert_eq!(turn(&mut hosts, now), "start 4");
        assert_eq!(turn(&mut hosts, now), "idle");
        hosts.ended("h", Some(&failure), now, now);
        assert_eq!(turn(&mut hosts, now + Duration::from_secs(100)), "refuse 5 connect");
    }

    #[test]
    fn failures_of_one_moment_are_no_row_of_them() {
        let began = Instant::now();
        let mut hosts = Hosts::new(Politeness { in_flight: 10, interval: Duration::ZERO, ..POLITE });
        (0..10).for_each(|job| hosts.push("h", job, false, began));
        (0..6).for_each(|job| assert_eq!(turn(&mut hosts, began), format!("start {job}")));
        let failure = Failure::passing(Code::Timeout, "no answer");
        let now = began + Duration::from_secs(20);
        hosts.ended("h", None, began, now);
        (0..5).for_each(|_| hosts.ended("h", Some(&failure), began, now));
        assert_eq!(turn(&mut hosts, now), "start 6");
        // Those that began since then count.
        (7..9).for_each(|job| assert_eq!(turn(&mut hosts, now), format!("start {job}")));
        (0..3).for_each(|_| hosts.ended("h", Some(&failure), now, now + Duration::from_secs(20)));
        assert_eq!(turn(&mut hosts, now + Duration::from_secs(20)), "refuse 9 timeout");
    }

    #[test]
    fn hosts_take_turns() {
        let now = Instant::now();
        let mut hosts = Hosts::new(Politeness { interval: Duration::ZERO, ..POLITE });
        for (name, job) in [("a", 1), ("a", 2), ("a", 3), ("b", 4), ("c", 5)] {
            hosts.push(name, job, false, now);
        }
        let mut started = Vec::new();
        while let Some(Turn::Start(job)) = hosts.next(now) {
            started.push(job);
        }
        assert_eq!(started, [1, 4, 5, 2]);
        assert_eq!(hosts.force(|&job| job == 3, now), Some(3));
    }

    #[test]
    fn a_job_that_is_forced_keeps_the_time_between_two() {
        let (now, second) = (Instant::now(), Duration::from_secs(1));
        let mut hosts = Hosts::new(POLITE);
        (0..5).for_each(|job| hosts.push("h", job, false, now));
        assert_eq!((turn(&mut hosts, now), turn(&mut hosts, now + second)), ("start 0".into(), "start 1".into()));
        assert_eq!(hosts.force(|&job| job == 3, now + second), None);
        assert_eq!(hosts.starts_at(|&job| job == 3), Some(now + 2 * second));
        assert_eq!(hosts.force(|&job| job == 3, now + 2 * second), Some(3));
        assert_eq!(
            (hosts.starts_at(|&job| job == 3), hosts.starts_at(|&job| job == 4)),
            (None, Some(now + 3 * second))
        );
    }
}
