//! The input: rows of a table, read ahead of the requests, and the earlier report that says which of them to skip.

mod earlier_report;
mod row;
mod row_reader;

pub use row::{InputRow, RowUrl};
pub use row_reader::{MAX_BATCHES, ReadProgress, RowReader};
