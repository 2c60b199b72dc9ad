//! What a run consists of besides data: signals, child processes, worker threads, memory budgets, scratch directories,
//! and the names by which temporary files are told from garbage.

pub mod failure;
pub mod memory;
pub mod owner;
pub mod panics;
pub mod pool;
pub mod procfs;
pub mod scratch;
pub mod shell;
pub mod signals;
mod strays;
pub mod watched;
