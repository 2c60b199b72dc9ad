//! The output: samples, the report, the counts, and the journal that keeps them consistent when a run is interrupted.

mod journal;
mod report;
pub mod report_row;
mod sample_writer;
mod stats;

pub use journal::RunJournal;
pub use report::FetchReport;
pub use sample_writer::SampleWriter;
pub use stats::RunStats;
