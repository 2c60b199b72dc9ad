//! The command line that all tools share: `main`, flag groups, exit status,
//! manual pages.
//!
//! A tool is a clap parser and a `run` function. [`main`] does the rest: parses
//! the flags, sets up messages, progress and signals, runs the tool, cleans up
//! after a failure, and converts the outcome into the exit status:
//!
//! | status | meaning |
//! |---|---|
//! | 0 | done; also if the reader of stdout left |
//! | 1 | the run failed |
//! | 2 | usage error; nothing was done |
//! | 3 | the output is complete, but too many items failed |
//! | 101 | a bug: something panicked |
//! | 128+N | ended by signal N |

mod groups;
pub mod man;
mod samples;

use std::ffi::OsString;
use std::io::{self, IsTerminal};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;

use anyhow::Result;
use clap::builder::StyledStr;
use clap::error::ErrorKind;
use clap::{ArgMatches, Command, FromArgMatches, Parser};

use crate::messages::progress;
use crate::messages::{self, Level};
use crate::run::pool::WorkerPanicked;
use crate::run::signals;
use crate::sink::{self, ReaderLeft};
use crate::tally::{MaxFailures, Tally};

pub use crate::tally::SharedTally;
pub use crate::usage::Usage;
pub use groups::{
    DecodingFlags, FORCE_VARIABLE, ForceFlag, InputFlags, OutputFlags, PackingFlags, ParallelFlags, SampleLimit,
    Verbosity, expect_bytes, output_name, refuse_terminal,
};
pub use samples::Samples;

/// The result of a run that was completed.
#[derive(Debug, Default)]
pub struct Outcome {
    /// What was done and what was left out.
    pub tally: Tally,
    /// How many failures the user tolerates; see [`MaxFailures::exceeded`].
    pub max_failures: Option<MaxFailures>,
}

impl From<Tally> for Outcome {
    fn from(tally: Tally) -> Self {
        Outcome { tally, max_failures: None }
    }
}

/// The `main` of every tool: parses `args` (the tool's name comes first), calls
/// `run`, reports errors, and returns the exit status. Call it once, first
/// thing in the process.
///
/// On an error, children are ended, temporary files removed and uploads aborted
/// before this returns; other threads may still be running.
pub fn main<A: Parser>(args: Vec<OsString>, run: fn(A) -> Result<Outcome>) -> ExitCode {
    guard::<A>(|| run_with_flags(args, run))
}

/// [`main`] for programs that are not filters: without verbosity, store flags
/// and signal handling.
///
/// # Errors
///
/// Errors are printed, not returned: the exit status is 2 for a usage error and
/// 1 for all others.
pub fn main_without_flags<A: Parser>(command: Command, args: Vec<OsString>, run: fn(A) -> Result<()>) -> ExitCode {
    guard::<A>(|| match parse(args, command)? {
        ParsedArgs::Matches(matches) => run(A::from_arg_matches(&matches)?).map(|()| ExitCode::SUCCESS),
        ParsedArgs::Ended(code) => Ok(code),
    })
}

/// The first line of a tool's help.
pub fn about<A: Parser>() -> String {
    A::command().get_about().map(ToString::to_string).unwrap_or_default()
}

/// The frame of every `main`: runs `body` under the name of the program `A`, and turns
/// its result into an exit status. An error is printed as one line; a panic is reported
/// as a bug, with status 101.
pub fn guard<A: Parser>(body: impl FnOnce() -> Result<ExitCode>) -> ExitCode {
    messages::set_tool(A::command().get_name());
    std::panic::set_hook(Box::new(|panic| messages::error(&format!("bug, please report it: {panic}"))));
    let result = catch_unwind(AssertUnwindSafe(body));
    signals::park_if_signalled();
    if !matches!(result, Ok(Ok(_))) {
        signals::clean_up(); // after the threads of a failed run, which may still be running
    }
    match result {
        Ok(Ok(code)) => code,
        Ok(Err(err)) => failure(&err),
        Err(_) => ExitCode::from(101),
    }
}

/// Parsed flags, or the exit status after help, a version or a mistake.
enum ParsedArgs {
    Matches(ArgMatches),
    Ended(ExitCode),
}

/// Parses the command line; handles help, version, mistakes and `--generate`
/// itself.
fn parse(args: Vec<OsString>, command: Command) -> Result<ParsedArgs> {
    if let Some(kind) = asked_to_generate(&args) {
        let mut text = Vec::new();
        man::generate(&kind, command, &mut text)?;
        sink::write_bytes("-", &text)?;
        return Ok(ParsedArgs::Ended(ExitCode::SUCCESS));
    }
    match keep_braces(command).try_get_matches_from(args) {
        Ok(matches) => Ok(ParsedArgs::Matches(matches)),
        Err(err) => misuse(&err).map(ParsedArgs::Ended),
    }
}

/// Applies the shared flags, starts to listen for signals, and runs the tool.
fn run_with_flags<A: Parser>(args: Vec<OsString>, run: fn(A) -> Result<Outcome>) -> Result<ExitCode> {
    let matches = match parse(args, command::<A>())? {
        ParsedArgs::Matches(matches) => matches,
        ParsedArgs::Ended(code) => return Ok(code),
    };
    Verbosity::from_arg_matches(&matches)?.begin();
    #[cfg(feature = "stores")]
    groups::StoreFlags::from_arg_matches(&matches)?.begin();
    let args = A::from_arg_matches(&matches)?;
    signals::listen()?;
    if io::stderr().is_terminal() {
        signals::on_signal(|_| progress::report_interruption());
    }
    let outcome = run(args)?;
    progress::stop();
    Ok(conclude(&outcome))
}

/// The flags of the tool, and those that all tools have.
fn command<A: Parser>() -> Command {
    #[cfg(feature = "stores")]
    return <groups::StoreFlags as clap::Args>::augment_args(A::command());
    #[cfg(not(feature = "stores"))]
    A::command()
}

/// clap replaces {n} in help texts by a line break, but it is a placeholder of
/// templates. A style without effect keeps them apart.
fn keep_braces(command: Command) -> Command {
    let keep = |text: &StyledStr| StyledStr::from(text.ansi().to_string().replace("{n}", "{\u{1b}[0mn}"));
    let about = command.get_long_about().map(keep);
    let command = command.mut_args(|arg| match arg.get_long_help().map(keep) {
        Some(help) => arg.long_help(help),
        None => arg,
    });
    if let Some(about) = about { command.long_about(about) } else { command }
}

/// `TOOL --generate man|bash|zsh|fish`, for packagers and our own tests.
fn asked_to_generate(args: &[OsString]) -> Option<String> {
    let asked = args.get(1).is_some_and(|word| word == "--generate");
    asked.then(|| args.get(2).map(|kind| kind.to_string_lossy().into_owned()).unwrap_or_default())
}

/// Messages of Rust and clap about numbers, and plain ones.
const NUMBERS: [(&str, &str); 6] = [
    ("invalid digit found in string", "not a whole number"),
    ("cannot parse integer from empty string", "not a whole number"),
    ("number too large to fit in target type", "number too large"),
    ("invalid float literal", "not a number"),
    ("is not in 1..18446744073709551615", "is less than 1"),
    ("is not in 1..=4294967295", "is less than 1"),
];

/// Prints help and version to stdout, and a mistake as one line.
fn misuse(err: &clap::Error) -> Result<ExitCode> {
    if matches!(err.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) {
        let text = err.render();
        let text = if io::stdout().is_terminal() { text.ansi().to_string() } else { text.to_string() };
        sink::write_text("-", &text)?;
        return Ok(ExitCode::SUCCESS);
    }
    let text = err.to_string();
    let said = text.lines().map(str::trim).take_while(|line| !line.starts_with("Usage:"));
    let line = said.filter(|line| !line.is_empty() && !line.starts_with("For more")).collect::<Vec<_>>().join("; ");
    let line = line.trim_start_matches("error: ").replace("tip: ", "").replace(":; ", ": ");
    let line = without_bad_advice(&line);
    let line = NUMBERS.iter().fold(line, |line, (theirs, ours)| line.replace(theirs, ours));
    messages::error(&format!("{line} (see {} --help)", messages::tool()));
    Ok(ExitCode::from(2))
}

/// Removes clap's advice to write `-- -x`, which makes a source of what was
/// meant to be a flag, and says what is wrong with a negative number.
fn without_bad_advice(line: &str) -> String {
    let Some((fact, _)) = line.split_once("; to pass '-") else { return line.to_owned() };
    let number = fact.split('\'').nth(1).and_then(|argument| argument.strip_prefix('-'));
    match number.is_some_and(|number| number.starts_with(|c: char| c.is_ascii_digit())) {
        true => format!("{fact}; numbers cannot be negative here"),
        false => fact.to_owned(),
    }
}

/// Prints the summary if something was left out or `-v` is given, and decides
/// between 0 and 3.
fn conclude(outcome: &Outcome) -> ExitCode {
    let Outcome { tally, max_failures } = outcome;
    tally.examples().iter().for_each(|example| messages::notice(example));
    let work = progress::work_done();
    if messages::says(Level::Verbose) || !tally.is_clean() || work.is_some() {
        messages::notice(&format!("{}{}", tally.summary(), work.map(|work| format!("; {work}")).unwrap_or_default()));
    }
    ExitCode::from(if MaxFailures::exceeded(*max_failures, tally) { 3 } else { 0 })
}

/// Reports what ended the run, unless it is the reader of stdout, and decides
/// between 0, 1, 2 and 101.
fn failure(err: &anyhow::Error) -> ExitCode {
    progress::stop();
    if reader_left(err) {
        return ExitCode::SUCCESS;
    }
    if err.is::<WorkerPanicked>() {
        return ExitCode::from(101); // the panic hook has reported it
    }
    messages::error(&format!("{err:#}"));
    ExitCode::from(if err.is::<Usage>() { 2 } else { 1 })
}

/// The error may be wrapped in contexts and in an `io::Error`.
fn reader_left(err: &anyhow::Error) -> bool {
    let is_it = |err: &io::Error| err.get_ref().is_some_and(|inner| inner.is::<ReaderLeft>());
    err.chain().any(|cause| cause.is::<ReaderLeft>() || cause.downcast_ref().is_some_and(is_it))
}
