//! Parquet: reads one batch of a row group at a time, and only the requested
//! columns; writes row groups.

use std::fs::File;
use std::io::Write;

use anyhow::{Result, anyhow};
use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use parquet::arrow::arrow_reader::{ArrowReaderOptions, ParquetRecordBatchReaderBuilder};
use parquet::arrow::{ArrowWriter, ProjectionMask};
use parquet::basic::{Compression, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;

use super::{Flow, Projection, TableColumn, Visitor, batch};
use crate::run::panics::or_damaged;

/// Rows decoded at a time: enough to amortize the set-up of a batch, few enough
/// to stay in the cache.
const BATCH: usize = 4096;

type Builder = ParquetRecordBatchReaderBuilder<File>;

/// The number of rows, from the footer.
///
/// # Errors
///
/// The footer is damaged.
pub fn count_rows(file: &File) -> Result<u64> {
    Ok(open(file)?.metadata().file_metadata().num_rows().try_into()?)
}

/// Names and types of the columns.
///
/// # Errors
///
/// The footer is damaged.
pub fn schema(file: &File) -> Result<Vec<TableColumn>> {
    Ok(batch::columns(open(file)?.schema()))
}

/// The schema with the types that arrow wrote beside the file's own.
pub fn arrow_schema(file: &File) -> Result<SchemaRef> {
    or_damaged(|| Ok(Builder::try_new(file.try_clone()?)?.schema().clone()))
}

/// Visits all rows; only the requested columns are decoded.
///
/// # Errors
///
/// The file is damaged, or those of the visitor. Memory is bounded by a batch
/// of rows and the pages that it needs.
pub fn visit(file: File, columns: &Projection, visitor: &mut dyn Visitor) -> Result<Flow> {
    let builder = open(&file)?;
    let wanted = builder.schema().fields().iter().enumerate().filter(|(_, field)| columns.wants(field.name()));
    let mask = ProjectionMask::roots(builder.parquet_schema(), wanted.map(|(at, _)| at));
    let batches = or_damaged(|| Ok(builder.with_projection(mask).with_batch_size(BATCH).build()?))?;
    batch::visit_all(batches, visitor)
}

/// Opens a file. The embedded arrow schema is ignored: the file's own types are
/// what all writers agree on.
fn open(file: &File) -> Result<Builder> {
    let options = ArrowReaderOptions::new().with_skip_arrow_metadata(true);
    or_damaged(|| Ok(Builder::try_new_with_options(file.try_clone()?, options)?))
}

/// Writes parquet, compressed with zstd. Errors of the output are returned as
/// they are, not wrapped in parquet's.
pub struct RowGroupWriter<W: Write + Send>(ArrowWriter<W>);

impl<W: Write + Send> RowGroupWriter<W> {
    /// Begins a table.
    ///
    /// # Errors
    ///
    /// A type that parquet does not have.
    pub fn begin(out: W, schema: SchemaRef) -> Result<Self> {
        let compression = Compression::ZSTD(ZstdLevel::default());
        // Without a version, so that the bytes do not change with it.
        let properties = WriterProperties::builder().set_compression(compression).set_created_by("tarpipe".into());
        Ok(RowGroupWriter(ArrowWriter::try_new(out, schema, Some(properties.build())).map_err(plain)?))
    }

    /// Adds rows to the current row group, which is held in memory.
    ///
    /// # Errors
    ///
    /// Those of the output, and batches of another schema.
    pub fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        self.0.write(batch).map_err(plain)
    }

    /// The estimated size of the current row group.
    pub fn bytes(&self) -> usize {
        self.0.in_progress_size()
    }

    /// Writes the current row group.
    ///
    /// # Errors
    ///
    /// Those of the output.
    pub fn end_group(&mut self) -> Result<()> {
        self.0.flush().map_err(plain)
    }

    /// Completes the table and returns the output.
    ///
    /// # Errors
    ///
    /// Those of the output, which is returned uncommitted.
    pub fn finish(mut self) -> Result<W> {
        // Reports a full disk as such; the footer that follows is small.
        self.end_group()?;
        self.0.sync()?;
        self.0.into_inner().map_err(plain)
    }
}

/// Removes parquet's wrapping from an error of the output.
fn plain(err: ParquetError) -> anyhow::Error {
    match err {
        ParquetError::External(inner) => anyhow!(inner),
        other => anyhow!(other),
    }
}
