//! What a fetched body is: its media type, its hash, and whether it is an error page in place of media.

pub mod hash;
pub mod not_a_page;

pub use hash::HashAlgorithm;
