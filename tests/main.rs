//! One integration binary over the real tools: every test runs them as a user would.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on should say where")]

mod support;

mod contracts;
mod cuts;
mod engines;
mod exhausted;
mod fetch;
mod fetch_bodies;
mod fetch_connections;
mod fetch_headers;
mod fetch_hostile;
mod fetch_protocols;
mod fetch_report;
mod fetch_video;
mod formats;
mod hostile;
mod http;
mod http_versions;
#[cfg(feature = "tarresize")]
mod img2dataset;
mod kills;
mod layers;
mod manual;
mod namespaces;
mod old_kernel;
mod outputs;
mod scripts;
mod shardrun;
#[cfg(feature = "stores")]
mod stores;
mod tarcat;
mod tarcheck;
mod tarcreate;
mod tardataset;
mod tarproc;
mod tarproc_hostile;
#[cfg(feature = "tarresize")]
mod tarresize;
#[cfg(feature = "tarshow")]
mod tarshow;
mod tarsort;
mod tarsplit;
mod tarvideo;
mod tarvideo_recipes;
mod trust;
mod urlcat;
mod video2dataset;
