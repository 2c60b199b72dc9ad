//! How fetch limits its memory: the byte budget that all rows share, and a buffer that grows without copying.

mod budget;
mod segmented_buffer;

pub use budget::{ByteBudget, HeldBytes};
pub use segmented_buffer::SegmentedBuffer;
