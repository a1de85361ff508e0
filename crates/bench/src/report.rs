//! How results are shown.

pub mod changes;
pub mod csv;
pub mod date;
mod earlier;
pub mod html;
pub mod table;
