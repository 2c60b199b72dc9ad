//! txt: one URL per line. The only column is `url`.

use std::io::BufRead;

use anyhow::Result;

use super::text::each_line;
use super::{Cell, Flow, Projection, TableRow, Visitor};

/// Visits all lines that are not blank. A line that is not UTF-8 is a bad row.
///
/// # Errors
///
/// Those of the stream and of the visitor.
pub fn visit(stream: impl BufRead, columns: &Projection, visitor: &mut dyn Visitor) -> Result<Flow> {
    each_line(stream, |number, line| match std::str::from_utf8(line) {
        Ok(_) if !columns.wants("url") => visitor.row(&TableRow { number, cells: &[] }),
        Ok(url) => visitor.row(&TableRow { number, cells: &[("url", Cell::Text(url))] }),
        Err(_) => visitor.bad_row(number, "not UTF-8"),
    })
}
