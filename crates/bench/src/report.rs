//! How results are shown.

pub mod changes;
pub mod csv;
pub mod table;
