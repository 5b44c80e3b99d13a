//! What the controller was asked for, and what came of it, since it started.

use std::collections::BTreeMap;
use std::sync::Mutex;

use byway_api::{ErrorCode, RequestCount};

use super::lock;

/// Counts requests by method, path and outcome. All three are of the interface, never of who asks, so that nobody makes the
/// table grow.
#[derive(Debug, Default)]
pub(crate) struct RequestCounts(Mutex<BTreeMap<Asked, u64>>);

/// What was asked, and what came of it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Asked {
    /// The method; `other` if the interface has none like it.
    pub(crate) method: &'static str,
    /// The path as the interface writes it; `other` if it has none like it.
    pub(crate) path: String,
    /// Why it was refused; none if it was not.
    pub(crate) refused: Option<ErrorCode>,
}

impl RequestCounts {
    /// A request was answered.
    pub(crate) fn add(&self, asked: Asked) {
        *lock(&self.0).entry(asked).or_default() += 1;
    }

    /// All that was counted.
    pub(crate) fn counted(&self) -> Vec<RequestCount> {
        let count = |(asked, count): (&Asked, &u64)| RequestCount {
            method: asked.method.to_owned(),
            path: asked.path.clone(),
            outcome: asked.refused.map_or_else(|| "ok".to_owned(), |code| code.to_string()),
            count: *count,
        };
        lock(&self.0).iter().map(count).collect()
    }
}
