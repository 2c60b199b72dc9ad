//! Samples as text on stdout or in a file: blocks, lines, keys, rows of a table, or the bytes of one field.

pub mod blocks;
pub mod first_field;
pub mod keys;
pub mod printable;
pub mod rows;
pub mod text_output;
