//! txt: one URL a line. The only column is `url`.

use std::io::BufRead;

use anyhow::Result;

use super::text::{Blocks, lines, without_bom};
use super::{Cell, Columns, Flow, Row, Visitor};

pub fn visit(stream: impl BufRead, columns: &Columns, visitor: &mut dyn Visitor) -> Result<Flow> {
    let mut blocks = Blocks::new(stream);
    let mut number = 0;
    while let Some(block) = blocks.next()? {
        for line in lines(block) {
            number += 1;
            let line = if number == 1 { without_bom(line) } else { line }.trim_ascii();
            if line.is_empty() {
                continue;
            }
            let flow = match std::str::from_utf8(line) {
                Ok(_) if !columns.wants("url") => visitor.row(&Row { number, cells: &[] })?,
                Ok(url) => visitor.row(&Row { number, cells: &[("url", Cell::Text(url))] })?,
                Err(_) => visitor.bad_row(number, "not UTF-8")?,
            };
            if flow.is_break() {
                return Ok(flow);
            }
        }
    }
    Ok(Flow::Continue(()))
}
