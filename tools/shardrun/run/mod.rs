//! A run as it is kept on disk: its folder, lock and job log, and what remains to be done.

pub mod existing;
pub mod folder;
pub mod job_log;
pub mod lock;
pub mod pending;
