//! What servers ask of robots, and how fetch obeys: robots.txt (RFC 9309) and the opt-out headers of responses.

pub mod opt_out;
mod robots_cache;
mod robots_txt;

pub use opt_out::OptOutPolicy;
pub use robots_cache::RobotsCache;
pub use robots_txt::RobotsTxt;
