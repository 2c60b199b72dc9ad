//! txt: one URL a line. The only column is `url`.

use std::io::BufRead;

use anyhow::Result;

use super::text::each_line;
use super::{Cell, Columns, Flow, Row, Visitor};

pub fn visit(stream: impl BufRead, columns: &Columns, visitor: &mut dyn Visitor) -> Result<Flow> {
    each_line(stream, |number, line| match std::str::from_utf8(line) {
        Ok(_) if !columns.wants("url") => visitor.row(&Row { number, cells: &[] }),
        Ok(url) => visitor.row(&Row { number, cells: &[("url", Cell::Text(url))] }),
        Err(_) => visitor.bad_row(number, "not UTF-8"),
    })
}
