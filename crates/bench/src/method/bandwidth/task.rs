//! What one launch moves, and what its ends do besides.

use std::collections::BTreeMap;

use super::workload::Workload;

/// What a sample moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Amount {
    /// So many bytes, and more where they take no 8 ms.
    AtLeast(u64),
    /// So many bytes, rounded up to whole transfers.
    Exactly(u64),
}

/// One launch, but for what carries it.
#[derive(Clone, Copy)]
pub(super) struct Task {
    pub(super) transfer: usize,
    pub(super) workload: Workload,
    pub(super) amount: Amount,
}

impl Task {
    pub(super) fn params(self) -> BTreeMap<&'static str, serde_json::Value> {
        let mut params =
            BTreeMap::from([("transfer", self.transfer.into()), ("workload", self.workload.name().into())]);
        if let Amount::Exactly(bytes) = self.amount {
            params.insert("bytes", bytes.into());
        }
        params
    }
}
