//! The input: rows of a table, read ahead of the requests, and the earlier reports and shards that say which of them to skip.

mod earlier_report;
mod row;
mod row_choice;
mod row_reader;
mod stored_keys;

pub use row::{InputRow, RowUrl};
pub use row_choice::RowChoice;
pub use row_reader::{MAX_BATCHES, ReadProgress, RowReader};
