//! What every tool's command line has in common: one `main`, the shared flag groups, the exit
//! status.

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
use clap::{Command, FromArgMatches, Parser};

use crate::messages::progress;
use crate::messages::{self, Level};
use crate::run::pool::Bug;
use crate::run::signals;
use crate::sink::{self, ReaderLeft};
use crate::tally::{MaxFailures, Tally};

pub use crate::tally::SharedTally;
pub use crate::usage::Usage;
pub use groups::{Decoding, Held, Input, Output, Packing, Parallel, Talk, expect_bytes, output_name, refuse_terminal};
pub use samples::Samples;

/// How a run that came to its end went.
#[derive(Debug, Default)]
pub struct Outcome {
    /// What was done and what was left out.
    pub tally: Tally,
    /// How many failures the user bears.
    pub max_failures: Option<MaxFailures>,
}

impl From<Tally> for Outcome {
    fn from(tally: Tally) -> Self {
        Outcome { tally, max_failures: None }
    }
}

/// The body of every tool's `main`: parses the flags, runs, says what went wrong, and turns it
/// into an exit status.
pub fn main<A: Parser>(run: fn(A) -> Result<Outcome>) -> ExitCode {
    messages::set_tool(A::command().get_name());
    std::panic::set_hook(Box::new(|panic| messages::error(&format!("bug, please report it: {panic}"))));
    let result = catch_unwind(AssertUnwindSafe(|| run_with_flags(run)));
    signals::yield_to_signal();
    if !matches!(result, Ok(Ok(_))) {
        signals::clean_up(); // what the threads of a failed run have under way
    }
    match result {
        Ok(Ok(code)) => code,
        Ok(Err(err)) => failure(&err),
        Err(_) => ExitCode::from(101),
    }
}

fn run_with_flags<A: Parser>(run: fn(A) -> Result<Outcome>) -> Result<ExitCode> {
    if let Some(kind) = asked_to_generate() {
        let mut text = Vec::new();
        man::generate(&kind, command::<A>(), &mut text)?;
        sink::write_bytes("-", &text)?;
        return Ok(ExitCode::SUCCESS);
    }
    let args = match keep_braces(command::<A>()).try_get_matches() {
        Ok(matches) => {
            Talk::from_arg_matches(&matches)?.begin();
            #[cfg(feature = "stores")]
            groups::Stores::from_arg_matches(&matches)?.begin();
            A::from_arg_matches(&matches)?
        }
        Err(err) => return misuse(&err),
    };
    signals::listen()?;
    let outcome = run(args)?;
    progress::stop();
    Ok(conclude(&outcome))
}

/// The tool's flags, and those that all have.
fn command<A: Parser>() -> Command {
    #[cfg(feature = "stores")]
    return <groups::Stores as clap::Args>::augment_args(A::command());
    #[cfg(not(feature = "stores"))]
    A::command()
}

/// In help, clap makes a new line of {n}, which is a place of templates: a style that changes nothing keeps it apart.
fn keep_braces(command: Command) -> Command {
    let keep = |text: &StyledStr| StyledStr::from(text.ansi().to_string().replace("{n}", "{\u{1b}[0mn}"));
    let about = command.get_long_about().map(keep);
    let command = command.mut_args(|arg| match arg.get_long_help().map(keep) {
        Some(help) => arg.long_help(help),
        None => arg,
    });
    if let Some(about) = about { command.long_about(about) } else { command }
}

/// `TOOL --generate man|bash|zsh|fish`: how packagers and our own tests get the manual.
fn asked_to_generate() -> Option<String> {
    let mut args = std::env::args_os().skip(1);
    let asked = args.next() == Some(OsString::from("--generate"));
    asked.then(|| args.next().map(|kind| kind.to_string_lossy().into_owned()).unwrap_or_default())
}

/// What Rust and clap say of numbers, and how people put it.
const NUMBERS: [(&str, &str); 6] = [
    ("invalid digit found in string", "not a whole number"),
    ("cannot parse integer from empty string", "not a whole number"),
    ("number too large to fit in target type", "too large a number"),
    ("invalid float literal", "not a number"),
    ("is not in 1..18446744073709551615", "is too few"),
    ("is not in 1..=4294967295", "is too few"),
];

/// Help and version go to stdout; a mistake becomes one line.
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
    let line = NUMBERS.iter().fold(line, |line, (theirs, ours)| line.replace(theirs, ours));
    messages::error(&format!("{line} (see {} --help)", messages::tool()));
    Ok(ExitCode::from(2))
}

fn conclude(outcome: &Outcome) -> ExitCode {
    let Outcome { tally, max_failures } = outcome;
    if messages::says(Level::Verbose) || !tally.is_clean() {
        messages::notice(&tally.summary());
    }
    ExitCode::from(if MaxFailures::exceeded(*max_failures, tally) { 3 } else { 0 })
}

fn failure(err: &anyhow::Error) -> ExitCode {
    progress::stop();
    if reader_left(err) {
        return ExitCode::SUCCESS;
    }
    if err.is::<Bug>() {
        return ExitCode::from(101); // the panic hook has said it
    }
    messages::error(&format!("{err:#}"));
    ExitCode::from(if err.is::<Usage>() { 2 } else { 1 })
}

fn reader_left(err: &anyhow::Error) -> bool {
    let is_it = |err: &io::Error| err.get_ref().is_some_and(|inner| inner.is::<ReaderLeft>());
    err.chain().any(|cause| cause.is::<ReaderLeft>() || cause.downcast_ref().is_some_and(is_it))
}
