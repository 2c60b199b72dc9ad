//! One integration binary over the real tools: every test runs them as a user would.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on should say where")]

mod support;

mod contracts;
mod fetch;
mod fetch_hostile;
mod fetch_protocols;
mod formats;
mod hostile;
mod http;
#[cfg(feature = "tarresize")]
mod img2dataset;
mod kills;
mod manual;
mod tarcat;
mod tarcheck;
mod tardataset;
mod tarproc;
mod tarproc_hostile;
#[cfg(feature = "tarresize")]
mod tarresize;
mod tarsplit;
mod urlcat;
