//! How results are shown.

pub mod changes;
pub mod csv;
mod earlier;
pub mod html;
pub mod table;
