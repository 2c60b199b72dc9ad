//! Arrow IPC: files (feather 2) and streams, one record batch at a time.

use std::fs::File;
use std::io::{BufReader, Read, Seek, SeekFrom};

use anyhow::Result;
use arrow_ipc::reader::{FileReader, StreamReader};
use arrow_schema::{Schema, SchemaRef};

use super::{Column, Columns, Flow, Visitor, batch};

pub fn schema(file: &File) -> Result<Vec<Column>> {
    Ok(batch::columns(arrow_schema(file)?.as_ref()))
}

pub fn arrow_schema(file: &File) -> Result<SchemaRef> {
    Ok(match is_file(file)? {
        true => FileReader::try_new(BufReader::new(file), None)?.schema(),
        false => StreamReader::try_new(BufReader::new(file), None)?.schema(),
    })
}

pub fn visit(file: File, columns: &Columns, visitor: &mut dyn Visitor) -> Result<Flow> {
    if is_file(&file)? {
        let whole = FileReader::try_new(BufReader::new(&file), None)?;
        let projection = wanted(&whole.schema(), columns);
        batch::visit_all(FileReader::try_new(BufReader::new(&file), Some(projection))?, visitor)
    } else {
        let whole = StreamReader::try_new(BufReader::new(&file), None)?;
        let projection = wanted(&whole.schema(), columns);
        (&file).seek(SeekFrom::Start(0))?;
        batch::visit_all(StreamReader::try_new(BufReader::new(&file), Some(projection))?, visitor)
    }
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
