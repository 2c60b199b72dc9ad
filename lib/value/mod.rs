//! What flags are set to: each type parses one kind of value, with a message that says what to write instead.

pub mod duration;
pub mod expression;
pub mod partition;
pub mod size;
pub mod slice;
pub mod template;
