//! shardrun on the real engines, brought up for the test. They take minutes to install, so these tests are
//! ignored unless `scripts/test --engines` runs them, one at a time.

mod bring_up;
mod k8s;
mod ray;
mod slurm;
mod spark;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::support::{Run, TempDir, bash, dir, list, status};

/// A task's first attempts fail, another fails for ever, until somebody mends it.
const FLAKY: &str = "case {} in 1) echo x >>tries; (( $(wc -l <tries) > 2 ));; 2) [ -e mended ];; esac; echo {}";
/// Items 0 and 1 are quick, the others are held until `go` is there; each says where it began.
const HELD: &str = "echo $$ >>began-{}; until [ {} -lt 2 ] || [ -e go ]; do sleep 0.1; done; echo {}";
/// The same, and leaves `beside` when the shell that had the item before is still there (a zombie is not).
const ALONE: &str = "if [ -e began-{} ] && grep -q ') [^Z]' /proc/$(tail -n 1 began-{})/stat; then touch beside; fi; \
    echo $$ >>began-{}; until [ {} -lt 2 ] || [ -e go ]; do sleep 0.1; done; echo {}";
/// What the README does to every sample.
const GRAY: &str = "tarproc -c 'gm convert sample.jpg -colorspace gray sample.ppm; rm sample.jpg' raw-{:03}.tar -o -";

/// An engine that runs for one test, and a folder to work in.
pub struct Engine {
    name: &'static str,
    home: TempDir,
    work: TempDir,
    /// What shardrun needs to use it.
    flags: String,
}

impl Engine {
    /// Brings up `tests/engines/NAME`; `flags` may use what its environment file sets.
    fn up(name: &'static str, words: &str, flags: &str) -> Self {
        let engine = Engine { name, home: dir(), work: dir(), flags: flags.to_owned() };
        engine.control("up", words);
        engine
    }

    /// Runs the engine's script.
    #[track_caller]
    fn control(&self, verb: &str, words: &str) {
        let script = repository().join("tests/engines").join(self.name);
        bash(&format!("'{}' {verb} '{}' {words}", script.display(), self.home.path().display())).done().status(0);
    }

    /// A bash script with the engine's environment, in the working folder.
    fn bash(&self, script: &str) -> Run {
        bash(&format!(". '{}/env'; {script}", self.home.path().display())).cwd(self.work.path())
    }

    /// shardrun for items 0 to 5, the run in `run`, outputs in `out-N`.
    fn shardrun(&self, more: &str, pipeline: &str) -> Run {
        let flags = &self.flags;
        // ${enter-} goes to where the engine is, should it be apart.
        self.bash(&format!("exec ${{enter-}} shardrun {flags} --run run -n 6 -o 'out-{{}}' {more} \"$PIPELINE\""))
            .env("PIPELINE", pipeline)
    }

    /// The same in the background; it must be waited for.
    fn begin(&self, more: &str, pipeline: &str) -> Waiting {
        let mut command = self.shardrun(more, pipeline).into_command();
        let errors = self.path("stderr");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(fs::File::create(&errors).unwrap());
        Waiting { child: command.spawn().unwrap(), errors }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.work.path().join(name)
    }

    fn status(&self) -> String {
        let text = self.bash("${enter-} shardrun status run").done().status(0).stdout_text();
        text.lines().next().unwrap().to_owned()
    }

    /// The last line of the job log about an item.
    fn record(&self, item: u64) -> Value {
        let lines = list(self.path("run/log")).into_iter();
        let text: String = lines.map(|name| fs::read_to_string(self.path("run/log").join(name)).unwrap()).collect();
        let records = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let its = records.filter(|record| record["item"] == item && record["state"] != "running");
        its.max_by(|a, b| a["start"].as_f64().partial_cmp(&b["start"].as_f64()).unwrap()).unwrap_or_default()
    }

    /// Waits until items have begun.
    fn until_begun(&self, items: &[u64]) {
        until("items begin", || items.iter().all(|item| self.path(&format!("began-{item}")).exists()));
    }

    /// How often items have begun, all attempts together.
    fn begun(&self) -> usize {
        let count =
            |item| fs::read_to_string(self.path(&format!("began-{item}"))).map_or(0, |text| text.lines().count());
        (0..6).map(count).sum()
    }

    /// A process that has the task of an item, and everything above it, taken away: the worker's death by KILL.
    fn takes_a_worker_away_and_goes_on(&self) {
        let waiting = self.begin("-j 1", HELD);
        self.until_begun(&[2]);
        let pid = fs::read_to_string(self.path("began-2")).unwrap().trim().to_owned();
        bash(&format!("kill -9 {}", writer_to(&parent(&pid)))).ok();
        until("the orphan ends", || !is_alive(&pid));
        until("it begins again", || self.begun() == 4);
        fs::write(self.path("go"), "").unwrap();
        waiting.ends(0);
        self.complete();
        self.clear();
    }

    /// The second of two nodes goes, with what runs there: that begins again.
    fn takes_a_node_away_and_goes_on(&self) {
        let waiting = self.begin("", HELD);
        // One node has room for two: something runs on either.
        self.until_begun(&[2, 3, 4]);
        self.control("crash", "2");
        // Before that, an orphan could still do its item, and nothing would begin again.
        until("what ran there ends", || self.held().iter().any(|pid| !is_alive(pid)));
        fs::write(self.path("go"), "").unwrap();
        waiting.ends(0);
        assert!(self.begun() > 6, "nothing began again");
        self.complete();
    }

    /// The shells of the items that wait for `go`.
    fn held(&self) -> Vec<String> {
        let began = (2..6).filter_map(|item| fs::read_to_string(self.path(&format!("began-{item}"))).ok());
        began.map(|pids| pids.trim().to_owned()).collect()
    }

    /// Every output is there and holds what it should, and nothing else is beside them.
    #[track_caller]
    fn complete(&self) {
        for item in 0..6 {
            assert_eq!(fs::read_to_string(self.path(&format!("out-{item}"))).unwrap(), format!("{item}\n"));
        }
        let rest: Vec<String> = list(self.work.path()).into_iter().filter(|name| name.starts_with('.')).collect();
        assert!(rest.is_empty(), "{rest:?}");
        assert!(self.status().contains("6 of 6 done"), "{}", self.status());
    }

    /// Forgets the outputs and the run.
    fn clear(&self) {
        for name in list(self.work.path()) {
            let path = self.path(&name);
            if path.is_dir() { fs::remove_dir_all(path).unwrap() } else { fs::remove_file(path).unwrap() }
        }
    }

    /// The README's pipeline makes the same bytes here and on this machine alone.
    fn gives_the_bytes_of_local(&self) {
        let pictures = "for i in 000 001 002 003; do mkdir $i; for k in a b c; do \
            gm convert -size 40x30 gradient:red-blue -rotate $((10#$i * 7)) $i/$k.jpg; echo $k >$i/$k.cls; done; \
            tar cf raw-$i.tar --sort=name --mtime=@0 -C $i $(ls $i); rm -r $i; done";
        self.bash(pictures).ok();
        let command = |on: &str, to: &str| {
            format!("${{enter-}} shardrun {on} --run run-{to} -n 4 -o '{to}-{{:03}}.tar' \"$PIPELINE\"")
        };
        self.bash(&command("", "local")).env("PIPELINE", GRAY).ok();
        self.bash(&command(&self.flags, "engine")).env("PIPELINE", GRAY).done().status(0);
        for shard in 0..4 {
            let read = |name: &str| fs::read(self.path(&format!("{name}-{shard:03}.tar"))).unwrap();
            assert!(read("local").len() > 10240 && read("local") == read("engine"), "shard {shard} differs");
        }
        self.clear();
    }

    /// An item that fails twice, one that always fails; then the same command does what is missing.
    fn retries_fails_and_resumes(&self) {
        let done = self.shardrun("--retries 2", FLAKY).done().status(3);
        done.stderr_has("item 2 (2): the command failed with exit status 1");
        assert_eq!(self.record(1)["attempts"], 3);
        assert_eq!((&self.record(2)["attempts"], &self.record(2)["code"]), (&3.into(), &"exit_status".into()));
        assert!(self.status().contains("5 of 6 done (83 %), 0 running, 1 failed, 0 left"), "{}", self.status());
        assert!(!self.path("out-2").exists());
        fs::write(self.path("mended"), "").unwrap();
        self.shardrun("--retries 2", FLAKY).done().status(0);
        self.complete();
        assert_eq!(fs::read_to_string(self.path("tries")).unwrap().lines().count(), 3, "item 1 ran again");
        self.clear();
    }

    /// After `kill -9` of shardrun its driver ends what runs, and the same command completes it, never beside the driver.
    fn ends_with_shardrun_and_resumes(&self) {
        let mut killed = self.begin("", ALONE);
        self.until_begun(&[2, 3, 4, 5]);
        let line = "2 of 6 done (33 %), 4 running, 0 failed, 0 left";
        until("status knows what runs", || self.status().contains(line));
        killed.child.kill().unwrap();
        killed.child.wait().unwrap();
        let again = self.begin("", ALONE);
        until("the four begin again", || self.begun() == 10);
        fs::write(self.path("go"), "").unwrap();
        again.ends(0);
        assert!(!self.path("beside").exists(), "an item ran twice at once");
        self.complete();
        self.clear();
    }

    /// After `kill -9` of shardrun, `shardrun cancel` returns when nothing runs any more.
    fn is_cancelled_without_shardrun(&self) {
        let mut killed = self.begin("", HELD);
        self.until_begun(&[2, 3, 4, 5]);
        killed.child.kill().unwrap();
        killed.child.wait().unwrap();
        self.bash("${enter-} shardrun cancel run").done().status(0);
        assert!(self.status().contains(" 0 running, 0 failed, 4 left"), "{}", self.status());
        until("the held ones end", || !self.held().iter().any(|pid| is_alive(pid)));
        self.clear();
    }

    /// On a terminal, the bar counts items.
    fn shows_items_on_a_terminal(&self) {
        let flags = &self.flags;
        let words = format!("shardrun {flags} --run run -n 6 -o 'out-{{}}' \"$PIPELINE\"");
        let run = self.bash("exec ${enter-} script -qefc \"$WORDS\" screen").env("PIPELINE", HELD).env("WORDS", &words);
        let mut run = run.into_command();
        run.stdin(Stdio::null()).stdout(Stdio::null());
        let waiting = Waiting { child: run.spawn().unwrap(), errors: self.path("screen") };
        let shown = || fs::read(self.path("screen")).is_ok_and(|text| has(&text, b"2 of 6 items"));
        until("the bar shows the quick ones", shown);
        fs::write(self.path("go"), "").unwrap();
        waiting.ends(0);
        self.complete();
        self.clear();
    }

    /// `shardrun cancel` ends what runs; the same command completes it.
    fn cancels_and_resumes(&self) {
        let waiting = self.begin("", HELD);
        self.until_begun(&[2, 3]);
        until("the quick ones end", || self.path("out-0").exists() && self.path("out-1").exists());
        self.bash("${enter-} shardrun cancel run").done().status(0).stderr_has("run: ended ");
        waiting.ends_badly();
        for item in [2, 3] {
            let pid = fs::read_to_string(self.path(&format!("began-{item}"))).unwrap();
            until("the held ones end", || !is_alive(pid.lines().last().unwrap()));
            assert!(!self.path(&format!("out-{item}")).exists());
        }
        fs::write(self.path("go"), "").unwrap();
        self.shardrun("", HELD).done().status(0);
        self.complete();
        self.clear();
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.control("down", "");
    }
}

/// shardrun at work in the background.
struct Waiting {
    child: Child,
    errors: PathBuf,
}

impl Waiting {
    /// Waits for its end, which must be this.
    #[track_caller]
    fn ends(mut self, expected: i32) {
        let got = status(self.child.wait().unwrap());
        assert_eq!(got, expected, "{}", fs::read_to_string(&self.errors).unwrap());
    }

    /// Waits for its end, which must not be a success.
    #[track_caller]
    fn ends_badly(mut self) {
        assert_ne!(status(self.child.wait().unwrap()), 0);
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        // It must have the time to end what it started.
        _ = bash(&format!("kill {}", self.child.id())).done();
        _ = self.child.wait();
    }
}

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).to_owned()
}

/// Where `tests/engines/install` put an engine.
fn installed(name: &str) -> String {
    let cache = std::env::var("TARPIPE_ENGINES").expect("scripts/test --engines sets TARPIPE_ENGINES");
    Path::new(&cache).join(name).display().to_string()
}

/// The process exists and is not a zombie.
fn is_alive(pid: &str) -> bool {
    fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| !stat.contains(") Z "))
}

fn has(text: &[u8], part: &[u8]) -> bool {
    text.windows(part.len()).any(|found| found == part)
}

fn parent(pid: &str) -> String {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    stat.rsplit_once(')').unwrap().1.split_whitespace().nth(1).unwrap().to_owned()
}

/// The process at the other end of a process's stdin.
fn writer_to(reader: &str) -> String {
    let pipe = fs::read_link(format!("/proc/{reader}/fd/0")).unwrap();
    let has_it = |pid: &String| {
        let open = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
        pid != reader && open.into_iter().any(|fd| fs::read_link(fd.path()).is_ok_and(|found| found == pipe))
    };
    list("/proc").into_iter().find(has_it).unwrap()
}

/// Waits until `ready` holds; a test that waits for ever fails.
fn until(what: &str, mut ready: impl FnMut() -> bool) {
    let started = Instant::now();
    while !ready() {
        assert!(started.elapsed() < Duration::from_secs(600), "never: {what}");
        std::thread::sleep(Duration::from_millis(100));
    }
}
