//! Services of the guide, and the expected repairs of each over a path with losses and an outage.

use crate::page::quoted;
use crate::traffic::{FlowCounts, PACKETS};

/// Fewest packets that the path loses: most of a second's outage, and others.
const LOST_MIN: u64 = 45;

/// Choice in the guide's table of services.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    Automatic,
    Retransmission,
    Pull,
    Caching,
    Coding,
    Forwarding,
    Both,
    SenderFec,
    CongestionControlled,
    Mixture,
}

/// Returns the choices in a cell of the table, each a list of settings.
pub fn alternatives(cell: &str) -> Vec<Vec<String>> {
    let settings = |part: &str| quoted(part).into_iter().filter(|quoted| quoted.contains(" = ")).collect();
    cell.split(", or ").map(settings).collect()
}

impl Mode {
    /// Returns the mode that these settings choose.
    pub fn of(settings: &[String]) -> Self {
        match settings.iter().map(String::as_str).collect::<Vec<_>>()[..] {
            ["service = \"auto\""] => Self::Automatic,
            ["service = \"retransmission\""] => Self::Retransmission,
            ["service = \"pull\""] => Self::Pull,
            ["service = \"caching\""] => Self::Caching,
            ["service = \"coding\""] => Self::Coding,
            ["service = \"forwarding\""] => Self::Forwarding,
            ["service = \"both\""] => Self::Both,
            ["service = \"coding\"", "copies = \"sender-fec\""] => Self::SenderFec,
            ["traffic = \"congestion-controlled\""] => Self::CongestionControlled,
            ["traffic = \"mixture\""] => Self::Mixture,
            _ => panic!("nothing is known of the service that {settings:?} chooses"),
        }
    }

    /// Returns the number of flows that the test needs.
    pub const fn flows(self) -> usize {
        match self {
            Self::Coding | Self::SenderFec => 4,
            _ => 1,
        }
    }

    /// Asserts that the losses of a call were repaired as this mode should.
    pub fn check(self, fate: FlowCounts) {
        assert!(self.is_right(fate), "{self:?}: {fate:?}");
    }

    fn is_right(self, fate: FlowCounts) -> bool {
        let all_came = fate.missing * 100 <= fate.all();
        let is_lossy = fate.lost >= LOST_MIN;
        fate.all() >= u64::from(PACKETS)
            && match self {
                // The flow may have changed from both paths to retransmission, or not yet.
                Self::Automatic => all_came && fate.resent + fate.cached + fate.forwarded >= LOST_MIN / 2,
                // In an outage, the sender leaves most packets to relays.
                Self::Retransmission => all_came && fate.resent >= LOST_MIN / 2,
                Self::Pull | Self::Caching => {
                    is_lossy && fate.repaired() >= 0.9 && fate.cached * 10 >= fate.lost * 9
                }
                Self::Coding => is_lossy && fate.repaired() >= 0.8 && fate.in_stream + fate.cooperative > 0,
                // If the machine stops a relay for a moment, the flow uses both paths for some
                // seconds.
                Self::Forwarding => fate.lost == 0 && all_came && fate.forwarded * 2 >= u64::from(PACKETS),
                // A packet that arrives by relays first is never detected as lost.
                Self::Both => all_came && fate.forwarded >= LOST_MIN,
                // It does not repair outages.
                Self::SenderFec => is_lossy && fate.in_stream > 0,
                Self::CongestionControlled | Self::Mixture => {
                    is_lossy && fate.repaired() >= 0.8 && fate.cached * 10 >= fate.lost * 8
                }
            }
    }
}

/// Asserts that all counts are as expected; the message names the others and the sender's status.
pub fn check_all(fates: &[(Mode, FlowCounts)], sender: impl FnOnce() -> String) {
    let wrong: Vec<String> = fates
        .iter()
        .filter(|(mode, fate)| !mode.is_right(*fate))
        .map(|(mode, fate)| format!("{mode:?}: {fate:?}"))
        .collect();
    assert!(wrong.is_empty(), "{}\nof\n{fates:?}\n{}", wrong.join("\n"), sender());
}
