//! Typed columns of rows in JSON, on their way into a parquet table.

use std::io::Write;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use arrow_array::builder::BinaryBuilder;
use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{DataType, Field, Schema};
use serde_json::{Map, Value};

use super::parquet::Groups;
use super::{Format, Table, array};

/// Rows of a batch: what is held as JSON.
const BATCH: usize = 1024;

/// Bytes of a row group: what is held in memory, but for one batch.
const ROW_GROUP: usize = 32 << 20;

/// What a column can be told to hold.
const TYPES: &str = "string, json, bool, int32, int64, float, double, =COLUMN";

/// The columns of a table that is written: names, types, order.
#[derive(Clone, Debug)]
pub struct Typed(Arc<Schema>);

impl Typed {
    /// From a list such as `id:int64 caption:=TEXT url`: a name, and after a colon string (the default), json, bool,
    /// int32, int64, float or double, or `=COLUMN` for the type that COLUMN has in the table `types`. A column that
    /// this table lacks, and one that JSON cannot fill, is text.
    pub fn parse(list: &str, types: Option<&Table>) -> Result<Self> {
        let known = types.map_or_else(|| Ok(None), Table::arrow_schema)?;
        let fields = list.split_whitespace().map(|item| {
            let (name, kind) = item.split_once(':').unwrap_or((item, "string"));
            let kind = match kind.strip_prefix('=') {
                Some(column) => known.as_ref().map_or(DataType::Utf8, |schema| type_of(schema, column)),
                None => simple(kind).with_context(|| format!("'{item}': no such type (known: {TYPES})"))?,
            };
            Ok(Field::new(name, kind, true))
        });
        let fields = fields.collect::<Result<Vec<Field>>>()?;
        if let Some(twice) =
            fields.iter().enumerate().find(|(i, field)| fields[..*i].iter().any(|f| f.name() == field.name()))
        {
            bail!("column '{}' stands twice", twice.1.name());
        }
        Ok(Typed(Arc::new(Schema::new(fields))))
    }

    /// The values of a row that have a column, in the order of the columns; nothing where it has none. Text
    /// becomes what the column holds, where it can.
    pub fn fit(&self, row: &mut Map<String, Value>) -> Map<String, Value> {
        let mut cell = |field: &Field| {
            let value = row.remove(field.name()).unwrap_or(Value::Null);
            (field.name().clone(), converted(value, field.data_type()))
        };
        self.0.fields().iter().map(|field| cell(field)).collect()
    }
}

fn simple(kind: &str) -> Option<DataType> {
    Some(match kind {
        "string" | "json" => DataType::Utf8,
        "bool" => DataType::Boolean,
        "int32" => DataType::Int32,
        "int64" => DataType::Int64,
        "float" => DataType::Float32,
        "double" => DataType::Float64,
        _ => return None,
    })
}

fn type_of(schema: &Schema, column: &str) -> DataType {
    let kind = match schema.field_with_name(column).map(Field::data_type) {
        Ok(DataType::Dictionary(_, value)) => value.as_ref().clone(),
        Ok(DataType::Binary | DataType::LargeBinary | DataType::BinaryView | DataType::FixedSizeBinary(_)) | Err(_) => {
            DataType::Utf8
        }
        Ok(kind) => kind.clone(),
    };
    if array::can_hold(&kind) { kind } else { DataType::Utf8 }
}

/// Numbers and truth that came as text, as text tables have them; lists and objects as text where a column wants that.
fn converted(value: Value, kind: &DataType) -> Value {
    match (&value, kind) {
        (Value::String(text), kind) if kind.is_integer() => text.trim().parse::<i64>().map_or(Value::Null, Value::from),
        (Value::String(text), kind) if kind.is_floating() => {
            text.trim().parse::<f64>().map_or(Value::Null, Value::from)
        }
        (Value::String(text), DataType::Boolean) => match text.trim().to_ascii_lowercase().as_str() {
            "true" | "1" => true.into(),
            "false" | "0" => false.into(),
            _ => Value::Null,
        },
        (Value::Array(_) | Value::Object(_), DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View) => {
            value.to_string().into()
        }
        _ => value,
    }
}

/// A parquet table on its way, in row groups of bounded size.
pub struct Writer<W: Write + Send> {
    groups: Groups<W>,
    schema: Arc<Schema>,
    /// A batch, column by column.
    cells: Vec<Vec<Value>>,
    /// The column of bytes, which JSON does not have.
    bytes: Option<BinaryBuilder>,
}

impl<W: Write + Send> Writer<W> {
    /// Starts a table; `bytes` names a last column of bytes.
    pub fn new(out: W, columns: &Typed, bytes: Option<&str>) -> Result<Self> {
        let mut fields: Vec<Field> = columns.0.fields().iter().map(|field| field.as_ref().clone()).collect();
        let cells = vec![Vec::new(); fields.len()];
        fields.extend(bytes.map(|name| Field::new(name, DataType::Binary, true)));
        let schema = Arc::new(Schema::new(fields));
        let groups = Groups::begin(out, Arc::clone(&schema))?;
        Ok(Writer { groups, schema, cells, bytes: bytes.map(|_| BinaryBuilder::new()) })
    }

    /// Adds a row that fits the columns.
    pub fn add(&mut self, row: &Map<String, Value>, bytes: Option<&[u8]>) -> Result<()> {
        for (cells, field) in self.cells.iter_mut().zip(self.schema.fields()) {
            cells.push(row.get(field.name()).cloned().unwrap_or(Value::Null));
        }
        let mut held = 0;
        if let Some(builder) = &mut self.bytes {
            builder.append_option(bytes);
            held = builder.values_slice().len();
        }
        let rows = self.cells.first().map_or(0, Vec::len);
        if rows >= BATCH || held >= ROW_GROUP { self.flush() } else { Ok(()) }
    }

    /// Completes the table and hands back what it was written to.
    pub fn finish(mut self) -> Result<W> {
        self.flush()?;
        self.groups.finish()
    }

    fn flush(&mut self) -> Result<()> {
        let columns = self.cells.iter_mut().zip(self.schema.fields());
        let mut arrays: Vec<ArrayRef> = columns
            .map(|(cells, field)| array::of_values(&std::mem::take(cells), field.data_type()))
            .collect::<Result<_>>()?;
        arrays.extend(self.bytes.as_mut().map(|builder| Arc::new(builder.finish()) as ArrayRef));
        self.groups.write(&RecordBatch::try_new(Arc::clone(&self.schema), arrays)?)?;
        if self.groups.bytes() >= ROW_GROUP { self.groups.end_group() } else { Ok(()) }
    }
}

impl Table {
    /// The schema with the types that arrow gave it, which the file may carry beside its own.
    fn arrow_schema(&self) -> Result<Option<Arc<Schema>>> {
        match (&self.body, self.format) {
            (super::Body::File(file), Format::Parquet) => super::parquet::arrow_schema(file).map(Some),
            (super::Body::File(file), _) => super::arrow::arrow_schema(file).map(Some),
            _ => Ok(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn fit(list: &str, row: Value) -> String {
        let Value::Object(mut row) = row else { panic!("no object") };
        Value::from(Typed::parse(list, None).unwrap().fit(&mut row)).to_string()
    }

    #[test]
    fn rows_take_the_order_and_the_types_of_the_columns() {
        let row = json!({"b": "1.5", "a": "7", "c": {"x": 1}, "d": "yes", "e": 5});
        assert_eq!(
            fit("a:int64 b:double c:json d:bool f", row),
            r#"{"a":7,"b":1.5,"c":"{\"x\":1}","d":null,"f":null}"#
        );
        assert!(Typed::parse("a:int9", None).is_err() && Typed::parse("a a", None).is_err());
    }

    #[test]
    fn a_table_has_its_rows_and_bytes() {
        let columns = Typed::parse("id:int32 text", None).unwrap();
        let mut writer = Writer::new(Vec::new(), &columns, Some("jpg")).unwrap();
        for (id, bytes) in [(1, Some(&b"x"[..])), (2, None)] {
            let Value::Object(mut row) = json!({"id": id}) else { panic!("no object") };
            writer.add(&columns.fit(&mut row), bytes).unwrap();
        }
        let table = writer.finish().unwrap();
        assert!(table.starts_with(b"PAR1") && table.ends_with(b"PAR1"));
    }
}
