//! Status of a link's reports to a controller.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Status of a link's reports to a controller of network state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ReportStatus {
    /// Name of the link in the controller's settings.
    pub(super) link: String,
    /// State of the reports.
    pub(super) state: ReportState,
    /// Description of the latest failure, for people; `None` while the controller accepts reports.
    pub(super) problem: Option<String>,
    /// Streams of samples that have begun.
    pub(super) streams: u64,
    /// Samples that were sent.
    pub(super) samples: u64,
    /// Registered flows that the controller has named, and that are in the low-delay class.
    pub(super) registered_flows: u64,
}

/// State of a link's reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum ReportState {
    /// The link joins the network, or connects for the first time.
    Connecting,
    /// Samples are sent.
    Reporting,
    /// Another program has displaced the classes, so there are no samples.
    Paused,
    /// The latest attempt failed, and another follows.
    Failing,
}

impl ReportStatus {
    /// Creates the status of a link that has sent nothing yet.
    pub(super) fn new(link: &str) -> Self {
        Self {
            link: link.to_owned(),
            state: ReportState::Connecting,
            problem: None,
            streams: 0,
            samples: 0,
            registered_flows: 0,
        }
    }
}

impl fmt::Display for ReportStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { link, samples, registered_flows, .. } = self;
        let state = match self.state {
            ReportState::Connecting => "connecting",
            ReportState::Reporting => "reporting",
            ReportState::Paused => "paused",
            ReportState::Failing => "failing",
        };
        write!(f, "network state of {link}: {state}; {samples} samples sent, ")?;
        write!(f, "{registered_flows} flows registered by applications")?;
        self.problem.as_ref().map_or(Ok(()), |problem| write!(f, "; {problem}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn people_read_the_state_the_counts_and_the_problem() {
        let mut status = ReportStatus { samples: 7, registered_flows: 2, ..ReportStatus::new("core-1") };
        status.state = ReportState::Reporting;
        let expected =
            "network state of core-1: reporting; 7 samples sent, 2 flows registered by applications";
        assert_eq!(status.to_string(), expected);
        status.state = ReportState::Failing;
        status.problem = Some("cannot reach the controller".to_owned());
        assert!(status.to_string().ends_with("applications; cannot reach the controller"));
        let json = serde_json::to_value(&status).expect("JSON");
        assert_eq!((json["state"].as_str(), json["samples"].as_u64()), (Some("failing"), Some(7)));
    }
}
