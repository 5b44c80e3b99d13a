//! Answer of a node that was asked to read its settings again.

use std::fmt;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A node's answer to `POST /v1/reload`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ReloadAnswer {
    /// The node's name; of a controller, the network's.
    pub name: String,
    /// Settings that are in force from now on.
    pub changes: Vec<SettingChange>,
    /// Forwards, exposes and captures that stay as they were, with all their flows.
    pub unchanged: u32,
    /// Settings that differ, and stay as they were until the node is started again.
    pub needs_restart: Vec<String>,
}

/// A setting that is another one now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SettingChange {
    /// Its kind.
    pub change: ChangeKind,
    /// The setting, as in `forward 127.0.0.1:5000` or `log.level`.
    pub setting: String,
}

/// The kind of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ChangeKind {
    /// It was not there.
    Added,
    /// It is there no more.
    Removed,
    /// It has another value: flows by the former one were closed, and begin again.
    Changed,
}

impl fmt::Display for ChangeKind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Added => "added",
            Self::Removed => "removed",
            Self::Changed => "changed",
        })
    }
}

/// A node's answer when it keeps the settings that it has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ReloadRefusal {
    /// The reason, and the remedy.
    pub error: String,
    /// The exit code of `byway reload`.
    pub exit_code: u8,
}
