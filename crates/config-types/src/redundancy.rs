//! Rule for the number of repair packets.

use schemars::JsonSchema;
use serde::Deserialize;

/// Rule for the number of repair packets of a coded flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum RedundancySetting {
    /// As many as the losses of the latest half minute require, and none without losses. In the
    /// first five seconds, as with `fixed`.
    Adaptive,
    /// The numbers of `in_stream` and `batch`.
    #[default]
    Fixed,
}

impl RedundancySetting {
    /// Returns the setting as text.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Adaptive => "adaptive",
            Self::Fixed => "fixed",
        }
    }
}
