//! Arrow IPC files (feather 2) and streams, one record batch at a time. Every
//! file is validated before it is decoded (see `arrow_validate`).

use std::fs::File;
use std::io::{BufReader, Read, Seek, SeekFrom};

use anyhow::Result;
use arrow_ipc::reader::{FileReader, StreamReader};
use arrow_schema::{Schema, SchemaRef};

use super::{Flow, Projection, TableColumn, Visitor, arrow_validate, batch};
use crate::run::panics::or_damaged;

/// Names and types of the columns.
pub fn schema(file: &File) -> Result<Vec<TableColumn>> {
    Ok(batch::columns(arrow_schema(file)?.as_ref()))
}

/// The schema with arrow's own types.
pub fn arrow_schema(file: &File) -> Result<SchemaRef> {
    check(file)?;
    or_damaged(|| {
        Ok(match is_file(file)? {
            true => FileReader::try_new(BufReader::new(file), None)?.schema(),
            false => StreamReader::try_new(BufReader::new(file), None)?.schema(),
        })
    })
}

/// Visits all rows; only the requested columns are decoded.
pub fn visit(file: File, columns: &Projection, visitor: &mut dyn Visitor) -> Result<Flow> {
    let projection = Some(wanted(arrow_schema(&file)?.as_ref(), columns));
    (&file).seek(SeekFrom::Start(0))?;
    if is_file(&file)? {
        let batches = or_damaged(|| Ok(FileReader::try_new(BufReader::new(&file), projection)?))?;
        batch::visit_all(batches, visitor)
    } else {
        let batches = or_damaged(|| Ok(StreamReader::try_new(BufReader::new(&file), projection)?))?;
        batch::visit_all(batches, visitor)
    }
}

fn check(file: &File) -> Result<()> {
    if is_file(file)? { arrow_validate::check_file(file) } else { arrow_validate::check_stream(file) }
}

/// The positions of the requested columns.
fn wanted(schema: &Schema, columns: &Projection) -> Vec<usize> {
    let fields = schema.fields().iter().enumerate();
    fields.filter(|(_, field)| columns.wants(field.name())).map(|(at, _)| at).collect()
}

/// Files begin with a magic number, streams with their first message.
fn is_file(mut file: &File) -> Result<bool> {
    let mut magic = [0; 6];
    file.seek(SeekFrom::Start(0))?;
    let read = file.read(&mut magic)?;
    file.seek(SeekFrom::Start(0))?;
    Ok(read == 6 && &magic == b"ARROW1")
}
