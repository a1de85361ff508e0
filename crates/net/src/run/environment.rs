//! What a run uses in place of the files that its network names.

use std::io::Write;
use std::sync::{Arc, Mutex};

#[derive(Default)]
pub(super) struct Environment {
    /// Bytes for sources, by the name of the node.
    pub(super) inputs: Vec<(String, Vec<u8>)>,
    /// Where the bytes of sinks go, by the name of the node.
    pub(super) outputs: Vec<(String, Arc<Mutex<dyn Write + Send>>)>,
    /// Files that transforms write beside the stream are left out too.
    pub(super) is_test: bool,
    /// Only the network uses the standard streams of this process.
    pub(super) has_process: bool,
}
