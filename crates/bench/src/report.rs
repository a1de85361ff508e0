//! How results are shown.

mod earlier;
pub mod html;
pub mod table;
