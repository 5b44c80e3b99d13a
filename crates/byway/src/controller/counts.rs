//! Counters of the controller's requests by outcome, since its start.

use std::collections::BTreeMap;
use std::sync::Mutex;

use byway_api::{ErrorCode, RequestCount};

use super::lock;

/// Counters of requests by method, path and outcome. All three are values of the interface, never
/// of the client. No client can therefore grow the table.
#[derive(Debug, Default)]
pub(crate) struct RequestCounts(Mutex<BTreeMap<RequestOutcome, u64>>);

/// Kind of request to the controller, with its outcome.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct RequestOutcome {
    /// HTTP method; `other` if the interface does not have it.
    pub(crate) method: &'static str,
    /// Path as the interface defines it; `other` if the interface does not have it.
    pub(crate) path: String,
    /// Reason of a refusal; `None` if the request was granted.
    pub(crate) refused: Option<ErrorCode>,
}

impl RequestCounts {
    /// Counts a request that the controller has answered.
    pub(crate) fn add(&self, request: RequestOutcome) {
        *lock(&self.0).entry(request).or_default() += 1;
    }

    /// Returns all counters of requests.
    pub(crate) fn counted(&self) -> Vec<RequestCount> {
        let count = |(request, count): (&RequestOutcome, &u64)| RequestCount {
            method: request.method.to_owned(),
            path: request.path.clone(),
            outcome: request.refused.map_or_else(|| "ok".to_owned(), |code| code.to_string()),
            count: *count,
        };
        lock(&self.0).iter().map(count).collect()
    }
}
