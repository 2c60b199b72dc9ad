//! The tools of tarpipe, one module per tool. They share only the library: no tool imports another.
//!
//! Every tool has the same structure: `mod.rs` says what flows in and out and has `run`, which reads as a table of
//! contents; `args.rs` has the flags; the other files are the parts. [`multicall`] is the executable that contains all
//! tools.

use std::ffi::OsString;
use std::process::ExitCode;

pub mod multicall;
mod names;

pub mod fetch;
pub mod shardrun;
pub mod tarcat;
pub mod tarcheck;
pub mod tarcreate;
pub mod tardataset;
pub mod tarjoin;
pub mod tarproc;
#[cfg(feature = "tarresize")]
pub mod tarresize;
#[cfg(feature = "tarshow")]
pub mod tarshow;
pub mod tarsort;
pub mod tarsplit;
pub mod tarvideo;
pub mod urlcat;

/// An entry in the list of tools.
pub struct Tool {
    /// Its name on the command line.
    pub name: &'static str,
    /// Runs it with these arguments, its name first.
    pub main: fn(Vec<OsString>) -> ExitCode,
    /// Its one-line description.
    pub about: fn() -> String,
}

macro_rules! tool {
    ($name:ident) => {
        Tool { name: stringify!($name), main: $name::main, about: || tarpipe::cli::about::<$name::Args>() }
    };
}

/// All tools, sorted by name.
pub const TOOLS: &[Tool] = &[
    tool!(fetch),
    tool!(shardrun),
    tool!(tarcat),
    tool!(tarcheck),
    tool!(tarcreate),
    tool!(tardataset),
    tool!(tarjoin),
    tool!(tarproc),
    #[cfg(feature = "tarresize")]
    tool!(tarresize),
    #[cfg(feature = "tarshow")]
    tool!(tarshow),
    tool!(tarsort),
    tool!(tarsplit),
    tool!(tarvideo),
    tool!(urlcat),
];
