//! One integration binary over the real tools: every test runs them as a user would.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on should say where")]

mod support;

mod contracts;
mod dropins;
mod engines;
mod fetch;
mod formats;
mod hostile;
mod http;
mod kills;
mod layers;
mod lists;
mod machines;
mod manual;
mod mistakes;
mod outputs;
mod python;
mod scripts;
mod shardrun;
#[cfg(feature = "stores")]
mod stores;
mod tarcat;
mod tarcheck;
mod tarcreate;
mod tardataset;
mod tarjoin;
mod tarpipe;
mod tarproc;
#[cfg(feature = "tarresize")]
mod tarresize;
#[cfg(feature = "tarshow")]
mod tarshow;
mod tarsort;
mod tarsplit;
mod tarvideo;
mod urlcat;
