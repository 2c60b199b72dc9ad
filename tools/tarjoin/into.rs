//! --into: where the values of a row go, and the bytes in which they are held until their sample comes.

use std::str::FromStr;

use tarpipe::sample::{Member, member_name};
use tarpipe::table::{Cell, TableRow};

/// One item of --into.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IntoItem {
    target: Target,
    /// The column of a table, or the field of a stream; None for all columns.
    from: Option<String>,
}

/// A place in a sample.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// A value in the field json.
    Json(String),
    Field(String),
}

impl FromStr for IntoItem {
    type Err = String;

    fn from_str(item: &str) -> Result<Self, String> {
        let (target, from) = match item.split_once('=') {
            Some((target, from)) => (target, Some(from)),
            None => (item, None),
        };
        if from == Some("") {
            return Err("expected a column after '='".into());
        }
        if item == "json" {
            return Ok(IntoItem { target: Target::Field("json".into()), from: None });
        }
        let (target, name) = match target.strip_prefix("json.") {
            Some(name) if !name.is_empty() => (Target::Json(name.to_owned()), name),
            _ => (Target::Field(target.to_owned()), target),
        };
        let is_field = |field: &str| member_name::split(format!("x.{field}").as_bytes()) == Ok(("x", field));
        if matches!(&target, Target::Field(field) if !is_field(field)) {
            return Err("not a name that a field can have".into());
        }
        Ok(IntoItem { target, from: Some(from.unwrap_or(name).to_owned()) })
    }
}

/// The whole list: what a row or a sample of the other side contributes.
#[derive(Clone, Debug)]
pub struct IntoPlan {
    items: Option<Vec<IntoItem>>,
}

impl IntoPlan {
    /// `items` is None without --into.
    pub fn new(items: Option<Vec<IntoItem>>) -> Self {
        IntoPlan { items }
    }

    /// The columns that a table needs for it, besides the one joined on; None for all.
    pub fn columns(&self) -> Option<Vec<String>> {
        self.items.as_ref()?.iter().map(|item| item.from.clone()).collect()
    }

    /// Appends what a row contributes to `out`. `on` is the column that is joined on.
    pub fn put_row(&self, row: &TableRow<'_>, on: &str, out: &mut Vec<u8>) {
        let Some(items) = &self.items else { return put_all(row, on, out) };
        for item in items {
            match (&item.from, &item.target) {
                (None, _) => put_all(row, on, out),
                (Some(column), target) => {
                    if let Some(cell) = row.get(column) {
                        put_cell(target, cell, out);
                    }
                }
            }
        }
    }

    /// Appends what a member of another stream contributes. `keep_header` is whether its header may name it in the
    /// joined sample too.
    pub fn put_member(&self, member: &Member, keep_header: bool, out: &mut Vec<u8>) {
        let header = member.header.as_deref().filter(|_| keep_header).unwrap_or_default();
        let Some(items) = &self.items else { return put(FIELD, &member.field, &member.data, header, out) };
        for item in items {
            let Target::Field(field) = &item.target else { continue };
            let from = item.from.as_deref().unwrap_or("json");
            if from == member.field {
                let header = if *field == member.field { header } else { &[] };
                put(FIELD, field, &member.data, header, out);
            }
        }
    }

    /// The first item that makes no sense for a stream, for a message.
    pub fn unfit_for_streams(&self) -> Option<String> {
        let mut names = self.items.iter().flatten().filter_map(|item| match &item.target {
            Target::Json(name) => Some(format!("json.{name}")),
            Target::Field(_) => None,
        });
        names.next()
    }
}

const JSON: u8 = 0;
const FIELD: u8 = 1;

/// A value for a sample, borrowed from the bytes of its row.
#[derive(Clone, Copy, Debug)]
pub struct JoinValue<'a> {
    /// Whether `name` is a value in the field json; otherwise it is a field.
    pub is_json: bool,
    pub name: &'a str,
    pub data: &'a [u8],
    /// The header of a member; empty if it needs a new one.
    pub header: &'a [u8],
}

/// The values that were put into these bytes. None if they are damaged.
pub fn values(mut bytes: &[u8]) -> Option<Vec<JoinValue<'_>>> {
    let mut found = Vec::new();
    while !bytes.is_empty() {
        let is_json = bytes.split_off_first()? == &JSON;
        let name = std::str::from_utf8(take(&mut bytes)?).ok()?;
        found.push(JoinValue { is_json, name, data: take(&mut bytes)?, header: take(&mut bytes)? });
    }
    Some(found)
}

fn put_all(row: &TableRow<'_>, on: &str, out: &mut Vec<u8>) {
    for (name, cell) in row.cells.iter().filter(|(name, _)| *name != on) {
        if !is_empty(cell) {
            let mut json = Vec::new();
            cell.write_json(&mut json);
            put(JSON, name, &json, b"", out);
        }
    }
}

fn put_cell(target: &Target, cell: &Cell<'_>, out: &mut Vec<u8>) {
    if is_empty(cell) {
        return;
    }
    match (target, cell) {
        (Target::Json(name), _) => {
            let mut json = Vec::new();
            cell.write_json(&mut json);
            put(JSON, name, &json, b"", out);
        }
        (Target::Field(field), Cell::Bytes(bytes)) => put(FIELD, field, bytes, b"", out),
        (Target::Field(field), _) => {
            let text = cell.text().unwrap_or_default();
            put(FIELD, field, text.as_bytes(), b"", out);
        }
    }
}

/// Whether a cell adds nothing.
fn is_empty(cell: &Cell<'_>) -> bool {
    cell.is_null() || matches!(cell, Cell::Text(""))
}

fn put(kind: u8, name: &str, data: &[u8], header: &[u8], out: &mut Vec<u8>) {
    out.push(kind);
    for part in [name.as_bytes(), data, header] {
        out.extend_from_slice(&(part.len() as u64).to_le_bytes()[..5]);
        out.extend_from_slice(part);
    }
}

fn take<'a>(bytes: &mut &'a [u8]) -> Option<&'a [u8]> {
    let len = bytes.split_off(..5)?.iter().rev().fold(0, |len: u64, &byte| len << 8 | u64::from(byte));
    bytes.split_off(..usize::try_from(len).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_put_into_bytes_comes_out_of_them() {
        let plan = IntoPlan::new(Some(vec!["json.s=score".parse().unwrap(), "txt".parse().unwrap()]));
        let cells = [("txt", Cell::Text("a cat")), ("score", Cell::Int(7)), ("other", Cell::Int(1))];
        let mut bytes = Vec::new();
        plan.put_row(&TableRow { number: 1, cells: &cells }, "key", &mut bytes);
        let found = values(&bytes).unwrap();
        let shown: Vec<_> = found.iter().map(|value| (value.is_json, value.name, value.data)).collect();
        assert_eq!(shown, [(true, "s", &b"7"[..]), (false, "txt", b"a cat")]);
        assert!((1..bytes.len()).all(|cut| values(&bytes[..cut]).is_none_or(|values| values.len() == 1)));
    }

    #[test]
    fn names_that_cannot_be_fields_are_refused() {
        for item in ["txt=", "a/b=c", "=x", "../x"] {
            assert!(item.parse::<IntoItem>().is_err(), "{item}");
        }
    }
}
