//! Types of flag values. Each module parses one kind of value from text, and
//! its error messages show an example of valid input.
//!
//! Parsers that return `Result<_, String>` fit clap's `value_parser`; types
//! that implement `FromStr` can be used as the type of a flag directly. None of
//! them reads files or the clock; only [`partition`] looks at the environment,
//! and only for the value `env`.

pub mod duration;
pub mod expression;
pub mod list;
pub mod nearest;
pub mod partition;
pub mod size;
pub mod slice;
pub mod template;
