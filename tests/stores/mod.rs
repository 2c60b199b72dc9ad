//! Object stores: a real S3 server, faults put before it, and the names that lead there.

mod access;
mod azure;
mod dropins;
mod faults;
mod google;
mod hub;
mod proxy;
pub mod round_trips;
pub mod server;
mod shardrun;
