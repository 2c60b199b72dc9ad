//! Parquet, one batch of a row group at a time, only the columns asked for.

use std::fs::File;

use anyhow::Result;
use arrow_schema::SchemaRef;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{ArrowReaderOptions, ParquetRecordBatchReaderBuilder};

use super::{Column, Columns, Flow, Visitor, batch};
use crate::guard::unless_damaged;

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
