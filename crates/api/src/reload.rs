//! Answers of a node to a reload of its settings.

use std::fmt;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A node's answer to `POST /v1/reload`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ReloadAnswer {
    /// Name of the node; for a controller, the network's.
    pub name: String,
    /// Settings that are in force from now on.
    pub changes: Vec<SettingChange>,
    /// Number of unchanged forwards, exposes and captures. Their flows continue.
    pub unchanged: u32,
    /// Settings that differ, but change only with a restart of the node.
    pub needs_restart: Vec<String>,
}

/// Setting that a reload has changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SettingChange {
    /// Kind of the change.
    pub change: ChangeKind,
    /// Name of the setting, such as `forward 127.0.0.1:5000` or `log.level`.
    pub setting: String,
}

/// Kind of a setting's change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ChangeKind {
    /// The setting did not exist before.
    Added,
    /// The setting was removed.
    Removed,
    /// The setting has another value. Flows of the former value were closed, and begin again.
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

/// A node's answer if it rejects the new settings and retains the old ones.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ReloadRefusal {
    /// Problem of the new settings, and its remedy.
    pub error: String,
    /// Exit code of `byway reload`.
    pub exit_code: u8,
}
