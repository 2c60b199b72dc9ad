//! Everything that a run needs besides its data: signal handling, child
//! processes, worker threads, memory budgets and temporary directories.
//!
//! The parts fit together as follows:
//!
//! - [`signals`] knows every child process and temporary path of the process,
//!   and removes them if it is ended.
//! - Children are started with [`shell`] (a pipe from or to a command),
//!   [`captured`] (a command that runs to its end) or [`watched`] (everything
//!   else); all place each child into a process group of its own. `strays` finds processes that have left their group, with the
//!   help of [`procfs`].
//! - [`scratch`] and [`owner`] name temporary files after the process that
//!   writes them, so that a later run can remove what a killed run left behind.
//! - [`pool`] and [`memory`] bound what is in memory at a time.
//! - [`backoff`] says how long to wait before something is tried again.
//! - [`panics`] contains panics of third-party decoders; [`failure`] is what a
//!   failed sample is reported as; [`program`] finds the executable of the
//!   tools themselves.
//!
//! # How a process ends
//!
//! - Normally, or because of an error: `cli::main` returns. After an error it
//!   first calls [`signals::clean_up`].
//! - By a signal: the thread of [`signals`] cleans up and ends the process,
//!   whatever the other threads do. They may observe failures caused by it, and
//!   must therefore call [`signals::park_if_signalled`] (or
//!   [`watched::park_if_ending`]) before they report one.
//! - Killed: nothing is cleaned up. Children die of broken pipes or continue,
//!   unless an [`orphans::OrphanGuard`] ends them; temporary files stay until
//!   the next run finds them abandoned.

pub mod backoff;
pub mod captured;
pub mod failure;
pub mod memory;
pub mod orphans;
pub mod owner;
pub mod panics;
pub mod pool;
pub mod procfs;
pub mod program;
pub mod scratch;
pub mod shell;
pub mod signals;
mod strays;
pub mod watched;
