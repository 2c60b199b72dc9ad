//! Arrow IPC: files (feather 2) and streams, one record batch at a time.

use std::fs::File;
use std::io::{BufReader, Read, Seek, SeekFrom};

use anyhow::Result;
use arrow_ipc::reader::{FileReader, StreamReader};
use arrow_schema::{Schema, SchemaRef};

use super::{Column, Columns, Flow, Visitor, batch, claims};
use crate::run::panics::unless_damaged;

pub fn schema(file: &File) -> Result<Vec<Column>> {
    Ok(batch::columns(arrow_schema(file)?.as_ref()))
}

pub fn arrow_schema(file: &File) -> Result<SchemaRef> {
    check(file)?;
    unless_damaged(|| {
        Ok(match is_file(file)? {
            true => FileReader::try_new(BufReader::new(file), None)?.schema(),
            false => StreamReader::try_new(BufReader::new(file), None)?.schema(),
        })
    })
}

pub fn visit(file: File, columns: &Columns, visitor: &mut dyn Visitor) -> Result<Flow> {
    let projection = Some(wanted(arrow_schema(&file)?.as_ref(), columns));
    (&file).seek(SeekFrom::Start(0))?;
    if is_file(&file)? {
        let batches = unless_damaged(|| Ok(FileReader::try_new(BufReader::new(&file), projection)?))?;
        batch::visit_all(batches, visitor)
    } else {
        let batches = unless_damaged(|| Ok(StreamReader::try_new(BufReader::new(&file), projection)?))?;
        batch::visit_all(batches, visitor)
    }
}

fn check(file: &File) -> Result<()> {
    if is_file(file)? { claims::check_file(file) } else { claims::check_stream(file) }
}

fn wanted(schema: &Schema, columns: &Columns) -> Vec<usize> {
    let fields = schema.fields().iter().enumerate();
    fields.filter(|(_, field)| columns.wants(field.name())).map(|(at, _)| at).collect()
}

/// A file of batches starts with a magic; a stream starts with its first message.
fn is_file(mut file: &File) -> Result<bool> {
    let mut magic = [0; 6];
    file.seek(SeekFrom::Start(0))?;
    let read = file.read(&mut magic)?;
    file.seek(SeekFrom::Start(0))?;
    Ok(read == 6 && &magic == b"ARROW1")
}
