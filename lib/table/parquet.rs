//! Parquet: read one batch of a row group at a time, only the columns asked for, and written by row groups.

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

use super::{Column, Columns, Flow, Visitor, batch};
use crate::run::panics::unless_damaged;

/// Rows decoded at once: enough to pay for the set-up of a batch, little enough to stay in cache.
const BATCH: usize = 4096;

type Builder = ParquetRecordBatchReaderBuilder<File>;

pub fn count_rows(file: &File) -> Result<u64> {
    Ok(open(file)?.metadata().file_metadata().num_rows().try_into()?)
}

pub fn schema(file: &File) -> Result<Vec<Column>> {
    Ok(batch::columns(open(file)?.schema()))
}

/// The schema with the types that arrow gave it.
pub fn arrow_schema(file: &File) -> Result<SchemaRef> {
    unless_damaged(|| Ok(Builder::try_new(file.try_clone()?)?.schema().clone()))
}

pub fn visit(file: File, columns: &Columns, visitor: &mut dyn Visitor) -> Result<Flow> {
    let builder = open(&file)?;
    let wanted = builder.schema().fields().iter().enumerate().filter(|(_, field)| columns.wants(field.name()));
    let mask = ProjectionMask::roots(builder.parquet_schema(), wanted.map(|(at, _)| at));
    let batches = unless_damaged(|| Ok(builder.with_projection(mask).with_batch_size(BATCH).build()?))?;
    batch::visit_all(batches, visitor)
}

/// The embedded arrow schema is ignored: the file's own types are what other writers agree on.
fn open(file: &File) -> Result<Builder> {
    let options = ArrowReaderOptions::new().with_skip_arrow_metadata(true);
    unless_damaged(|| Ok(Builder::try_new_with_options(file.try_clone()?, options)?))
}

/// Row groups on their way out. What goes wrong is told in the words of the output, not of its wrapping.
pub struct Groups<W: Write + Send>(ArrowWriter<W>);

impl<W: Write + Send> Groups<W> {
    pub fn begin(out: W, schema: SchemaRef) -> Result<Self> {
        let compression = Compression::ZSTD(ZstdLevel::default());
        // The name of the writer and its version are no part of the data.
        let properties = WriterProperties::builder().set_compression(compression).set_created_by("tarpipe".into());
        Ok(Groups(ArrowWriter::try_new(out, schema, Some(properties.build())).map_err(plain)?))
    }

    /// Adds rows to the present group.
    pub fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        self.0.write(batch).map_err(plain)
    }

    /// How many bytes the present group has.
    pub fn bytes(&self) -> usize {
        self.0.in_progress_size()
    }

    /// Writes the present group.
    pub fn end_group(&mut self) -> Result<()> {
        self.0.flush().map_err(plain)
    }

    /// Completes the table and hands back what it was written to.
    pub fn finish(mut self) -> Result<W> {
        // A full disk shows here, in its own words; the end of the file is small.
        self.end_group()?;
        self.0.sync()?;
        self.0.into_inner().map_err(plain)
    }
}

fn plain(err: ParquetError) -> anyhow::Error {
    match err {
        ParquetError::External(inner) => anyhow!(inner),
        other => anyhow!(other),
    }
}
