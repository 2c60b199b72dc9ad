//! The command lines that stand in for other programs: flags, resuming, refusals, and outputs.

#[cfg(feature = "tarresize")]
mod img2dataset;
mod video2dataset;
