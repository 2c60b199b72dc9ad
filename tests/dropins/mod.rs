//! The command lines that replace other programs: flags, resuming, refusals, and outputs.

#[cfg(feature = "tarresize")]
mod img2dataset;
mod video2dataset;
