//! Shared by all tests: runs tools and pipelines, makes and reads archives, and serves HTTP.

pub mod archives;
pub mod server;
pub mod web;

use std::fmt::Write as _;
use std::io::Write as _;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Output, Stdio};
use std::sync::Once;

pub use archives::{Archive, members, names};
pub use tempfile::TempDir;

/// The names of all tools, in the order of the table in tools/lib.rs.
pub const TOOLS: [&str; tarpipe_tools::TOOLS.len()] = {
    let mut names = [""; tarpipe_tools::TOOLS.len()];
    let mut i = 0;
    while i < names.len() {
        names[i] = tarpipe_tools::TOOLS[i].name;
        i += 1;
    }
    names
};

/// The path of a tool: a link beside the executable that contains all tools.
pub fn tool(name: &str) -> PathBuf {
    static LINKS: Once = Once::new();
    let program = Path::new(env!("CARGO_BIN_EXE_tarpipe"));
    let folder = program.parent().unwrap();
    LINKS.call_once(|| {
        assert!(Command::new(program).args(["link", "--force"]).arg(folder).status().unwrap().success());
    });
    folder.join(name)
}

/// A temporary folder, removed at the end of the test.
pub fn dir() -> TempDir {
    tempfile::Builder::new().prefix("tarpipe-test-").tempdir().unwrap()
}

/// A command about to run.
pub struct Run {
    command: Command,
    stdin: Vec<u8>,
}

/// A tool about to run with these arguments.
pub fn run<S: AsRef<str>>(name: &str, args: impl IntoIterator<Item = S>) -> Run {
    let mut command = Command::new(tool(name));
    command.args(args.into_iter().map(|arg| arg.as_ref().to_owned()));
    Run { command: replacing(command), stdin: Vec::new() }
}

/// Lets tools replace outputs that exist: many tests run a command twice in one folder.
fn replacing(mut command: Command) -> Command {
    command.env("TARPIPE_FORCE", "1");
    command
}

/// A tool about to run with arguments separated by spaces.
pub fn words(name: &str, args: &str) -> Run {
    run(name, args.split_whitespace())
}

/// A bash script about to run, with the tools on its PATH.
pub fn bash(script: &str) -> Run {
    let mut command = Command::new("bash");
    let path = std::env::var("PATH").unwrap();
    command.args(["-o", "pipefail", "-c", script]);
    command.env("PATH", format!("{}:{path}", tool("x").parent().unwrap().display()));
    Run { command: replacing(command), stdin: Vec::new() }
}

impl Run {
    /// Bytes for stdin.
    pub fn stdin(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.stdin = bytes.into();
        self
    }

    /// More arguments. For a script, the first one is its `$0`.
    pub fn args<S: AsRef<str>>(mut self, args: impl IntoIterator<Item = S>) -> Self {
        self.command.args(args.into_iter().map(|arg| arg.as_ref().to_owned()));
        self
    }

    /// The folder to run in.
    pub fn cwd(mut self, folder: impl AsRef<Path>) -> Self {
        self.command.current_dir(folder);
        self
    }

    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.command.env(name, value);
        self
    }

    /// Refuses to replace outputs, as the tools do for users.
    pub fn without_force(mut self) -> Self {
        self.command.env_remove("TARPIPE_FORCE");
        self
    }

    /// The command itself, for tests that control the child process.
    pub fn into_command(self) -> Command {
        self.command
    }

    /// Runs to the end.
    pub fn done(mut self) -> Done {
        self.command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = self.command.spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        let bytes = self.stdin;
        // A tool may exit before it has read everything.
        let feeder = std::thread::spawn(move || _ = stdin.write_all(&bytes));
        let output = child.wait_with_output().unwrap();
        feeder.join().unwrap();
        Done { shown: format!("{:?}", self.command), output }
    }

    /// Runs to the end, which must be a success without messages; returns stdout.
    pub fn ok(self) -> Vec<u8> {
        self.done().status(0).stderr("").stdout()
    }

    /// Runs to the end, which must be a failure with exactly this message.
    pub fn fails(self, status: i32, stderr: &str) -> Done {
        self.done().status(status).stderr(stderr)
    }
}

/// A command that has run.
pub struct Done {
    shown: String,
    output: Output,
}

impl Done {
    /// Asserts the exit status; 128+N for signal N.
    #[track_caller]
    pub fn status(self, expected: i32) -> Self {
        assert_eq!(status(self.output.status), expected, "{}", self.show());
        self
    }

    /// Asserts exactly this on stderr, apart from a final newline and the examples of failures before the summary.
    #[track_caller]
    pub fn stderr(self, expected: &str) -> Self {
        let got = without_examples(&self.stderr_text());
        assert_eq!(got.trim_end_matches('\n'), expected, "{}", self.show());
        self
    }

    /// Asserts that stderr contains this.
    #[track_caller]
    pub fn stderr_has(self, part: &str) -> Self {
        assert!(self.stderr_text().contains(part), "no {part:?} in stderr\n{}", self.show());
        self
    }

    pub fn status_code(&self) -> i32 {
        status(self.output.status)
    }

    pub fn stderr_text(&self) -> String {
        String::from_utf8_lossy(&self.output.stderr).into_owned()
    }

    pub fn stdout(self) -> Vec<u8> {
        self.output.stdout
    }

    pub fn stdout_text(self) -> String {
        String::from_utf8(self.output.stdout).unwrap()
    }

    /// What a failed assertion prints.
    fn show(&self) -> String {
        let mut text = format!("command: {}\nstatus: {}\n", self.shown, self.output.status);
        _ = writeln!(text, "stderr: {}", self.stderr_text());
        match archives::try_members(&self.output.stdout) {
            Ok(members) => members.iter().for_each(|m| _ = writeln!(text, "member: {} ({} bytes)", m.0, m.1.len())),
            Err(_) => _ = writeln!(text, "stdout: {} bytes", self.output.stdout.len()),
        }
        text
    }
}

/// The lines of stderr without the examples that a summary names, such as `tarcat: select: a.tar: cat: …`.
pub fn without_examples(stderr: &str) -> String {
    let summary =
        stderr.lines().rev().find_map(|line| line.split_once("failed ")?.1.split_once(" (")).map(|found| found.1);
    let codes = summary.and_then(|codes| codes.split(')').next()).unwrap_or_default();
    let codes: Vec<&str> = codes.split(", ").filter_map(|code| code.split_once(' ')).map(|code| code.1).collect();
    let is_example = |line: &str| {
        let text = line.split_once(": ").map_or("", |line| line.1);
        let code = text.strip_prefix("first of ").and_then(|text| text.split_once(' ')).map_or(text, |text| text.1);
        codes.iter().any(|known| code.strip_prefix(known).is_some_and(|rest| rest.starts_with(": ")))
    };
    stderr.split_inclusive('\n').filter(|line| !is_example(line)).collect()
}

/// Runs a tool in a folder and returns the peak memory, in bytes, of the tool or of its largest child.
pub fn peak_memory(folder: impl AsRef<Path>, name: &str, args: &str) -> u64 {
    let script = "import resource, subprocess, sys\n\
        subprocess.run(sys.argv[1:], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)\n\
        print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)";
    let mut command = Command::new("python3");
    command.args(["-c", script]).arg(tool(name)).args(args.split_whitespace()).current_dir(folder);
    let said = command.output().unwrap().stdout;
    String::from_utf8(said).unwrap().trim().parse::<u64>().unwrap() << 10
}

/// The exit status as a shell shows it.
pub fn status(status: ExitStatus) -> i32 {
    status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0))
}

/// The names in a folder, sorted.
pub fn list(folder: impl AsRef<Path>) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    let mut names: Vec<String> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// A Python with these packages, installed once into the target folder.
pub fn venv(packages: &[&str]) -> PathBuf {
    static LOCK: std::sync::Mutex<()> = std::sync::Mutex::new(());
    let _one_at_a_time = LOCK.lock().unwrap();
    let home = Path::new(env!("CARGO_TARGET_TMPDIR")).join("venv");
    let python = home.join("bin/python");
    if !python.exists() {
        assert!(Command::new("python3").args(["-m", "venv"]).arg(&home).status().unwrap().success());
    }
    let mut install = Command::new(&python);
    install.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]).args(packages);
    assert!(install.status().unwrap().success(), "pip install {packages:?}");
    python
}
