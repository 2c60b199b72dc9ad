//! Object stores: a real S3 server, faults put before it, and the names that lead there.

mod access;
mod azure;
mod faults;
mod google;
mod hub;
mod kills;
mod proxy;
mod round_trips;
mod server;
mod shardrun;
