//! `tarpipe`: all tools in one executable, which acts by the name it is called by and can make links with these names.

use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use clap::{CommandFactory, Parser, Subcommand};
use tarpipe::cli::{self, Usage};
use tarpipe::run::program;
use tarpipe::sink;

use crate::names::{self, NamesArgs};
use crate::{TOOLS, Tool};

/// All tools of tarpipe in one executable
///
/// Called by the name of a tool, through a link, it acts as that tool. Called by any other name, its first argument names
/// the tool, and the other arguments are passed to the tool: tarpipe tarcat --help shows the help of tarcat.
///
/// img2dataset, video2dataset and any2dataset are command lines of the Python package tarpipe, which stand in for the
/// programs of these names; they need Python 3.9 or later.
#[derive(Parser)]
#[command(name = "tarpipe", version, after_long_help = EXAMPLES)]
#[command(disable_help_subcommand = true, subcommand_value_name = "TOOL")]
pub struct Args {
    /// Print the names of the tools, one per line
    #[arg(long)]
    list: bool,

    #[command(subcommand)]
    command: Option<MulticallCommand>,
}

#[derive(Subcommand)]
enum MulticallCommand {
    /// Make a link in DIR for every tool, so that each can be called by its name
    Link {
        /// Folder for the links, preferably one on PATH
        #[arg(value_name = "DIR")]
        folder: PathBuf,

        /// Replace existing files with the names of tools
        #[arg(long)]
        force: bool,
    },
    #[command(external_subcommand)]
    Tool(Vec<OsString>),
}

const EXAMPLES: &str = "Examples:
  # List the tools
  tarpipe --list

  # Run a tool
  tarpipe tarcat --count 10 -o first.tar shards/{0000..0007}.tar

  # Copy the executable to another machine and link the tools there
  scp tarpipe node1:bin/
  ssh node1 bin/tarpipe link bin";

/// Runs the tool named by the program name, or else by the first argument.
pub fn main(mut args: Vec<OsString>) -> ExitCode {
    program::declare(TOOLS.iter().map(|tool| tool.name).collect());
    if let Some(tool) = args.first().and_then(|program| named(Path::new(program).file_name()?)) {
        return (tool.main)(args);
    }
    if let Some(tool) = args.get(1).and_then(|first| named(first)) {
        args.remove(0);
        return (tool.main)(args);
    }
    let first = args.get(1).and_then(|first| first.to_str());
    if first == Some("names") {
        args.remove(0);
        return cli::main_without_flags(NamesArgs::command(), args, names::run);
    }
    if let Some((name, _)) = DROP_INS.iter().find(|(name, _)| first == Some(name)) {
        return cli::guard::<Args>(|| run_drop_in(name, &args[2..]).map(|()| ExitCode::SUCCESS));
    }
    cli::main_without_flags(command(), args, run)
}

/// The command line with all tools as subcommands, for help and completions.
fn command() -> clap::Command {
    let tools = TOOLS.iter().map(|tool| clap::Command::new(tool.name).about((tool.about)()));
    let drop_ins = DROP_INS.iter().map(|(name, about)| clap::Command::new(name).about(about));
    Args::command().version(version()).subcommands(tools).subcommands(drop_ins)
}

/// The version, and the commit that a package was built from.
fn version() -> &'static str {
    let version = env!("CARGO_PKG_VERSION");
    match option_env!("TARPIPE_COMMIT").filter(|commit| !commit.is_empty()) {
        Some(commit) => format!("{version} ({commit})").leak(),
        None => version,
    }
}

/// Command lines of the Python package.
const DROP_INS: [(&str, &str); 3] = [
    ("img2dataset", "Make a dataset of images from a table of URLs, as img2dataset does"),
    ("video2dataset", "Make a dataset of videos from a table of URLs, as video2dataset does"),
    ("any2dataset", "Make a dataset of any files from a table of URLs, as any2dataset does"),
];

/// Becomes a command line of the Python package. It is looked for where an installation puts it, and where Python does;
/// the Python is the one of the virtual environment that has this executable, or else that on PATH.
fn run_drop_in(name: &str, args: &[OsString]) -> Result<()> {
    let program = program::path()?;
    let folder = program.parent().unwrap_or(Path::new("/"));
    let python = Some(folder.join("python3")).filter(|python| python.exists());
    let mut command = std::process::Command::new(python.unwrap_or_else(|| "python3".into()));
    let package = folder.join("../lib/tarpipe/python");
    if package.exists() {
        let others = std::env::var_os("PYTHONPATH").unwrap_or_default();
        let paths = std::iter::once(package).chain(std::env::split_paths(&others));
        command.env("PYTHONPATH", std::env::join_paths(paths)?);
    }
    let script = format!(
        "import sys\ntry:\n    from tarpipe.{name} import main\nexcept ModuleNotFoundError as err:\n    \
         sys.exit(f'tarpipe: {name}: {{err}} in {{sys.executable}}; install the Python package: pip install tarpipe')\n\
         sys.exit(main())"
    );
    let err = command.arg("-c").arg(script).args(args).exec();
    Err(err).with_context(|| format!("{name}: {} (Python 3.9 or later is needed)", command.get_program().display()))
}

fn named(name: &std::ffi::OsStr) -> Option<&'static Tool> {
    TOOLS.iter().find(|tool| tool.name == name)
}

fn run(args: Args) -> Result<()> {
    if args.list {
        let names: String = TOOLS.iter().map(|tool| format!("{}\n", tool.name)).collect();
        return sink::write_text("-", &names);
    }
    match args.command {
        Some(MulticallCommand::Link { folder, force }) => {
            std::fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
            program::link(&folder, force).map(|_| ())
        }
        Some(MulticallCommand::Tool(args)) => {
            let name = args.first().map(|name| name.to_string_lossy()).unwrap_or_default();
            bail!(Usage(format!("unknown tool '{name}' (see tarpipe --list)")))
        }
        None => bail!(Usage("name a tool (see tarpipe --list)".into())),
    }
}
