//! The services that the guide chooses from, and what each has to do for a flow whose path lost packets and was dark.

use crate::page::quoted;
use crate::traffic::{Fate, PACKETS};

/// Packets that the path loses at least: most of a second's outage, and others.
const LOST_MIN: u64 = 45;

/// A choice of the guide.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    Caching,
    Coding,
    Forwarding,
    Both,
    OwnRepairs,
    Standby,
    CongestionControlled,
    Mixture,
}

/// The choices that a cell of the table has: each is some settings.
pub fn alternatives(cell: &str) -> Vec<Vec<String>> {
    let settings = |part: &str| quoted(part).into_iter().filter(|quoted| quoted.contains(" = ")).collect();
    cell.split(", or ").map(settings).collect()
}

impl Mode {
    /// The mode that these settings choose.
    pub fn of(settings: &[String]) -> Self {
        match settings.iter().map(String::as_str).collect::<Vec<_>>()[..] {
            ["service = \"caching\""] => Self::Caching,
            ["service = \"coding\""] => Self::Coding,
            ["service = \"forwarding\""] => Self::Forwarding,
            ["service = \"both\""] => Self::Both,
            ["service = \"coding\"", "copies = \"own-repairs\""] => Self::OwnRepairs,
            ["standby = true"] => Self::Standby,
            ["traffic = \"congestion-controlled\""] => Self::CongestionControlled,
            ["traffic = \"mixture\""] => Self::Mixture,
            _ => panic!("nothing is known of the service that {settings:?} chooses"),
        }
    }

    /// How many flows show it.
    pub const fn flows(self) -> usize {
        match self {
            Self::Coding | Self::OwnRepairs => 4,
            _ => 1,
        }
    }

    /// Fails unless a call had its losses repaired in the way of this mode.
    pub fn check(self, fate: Fate) {
        assert!(self.is_right(fate), "{self:?}: {fate:?}");
    }

    fn is_right(self, fate: Fate) -> bool {
        let all_came = fate.missing * 100 <= fate.all();
        let is_lossy = fate.lost >= LOST_MIN;
        fate.all() >= u64::from(PACKETS)
            && match self {
                Self::Caching => is_lossy && fate.repaired() >= 0.9 && fate.cached * 10 >= fate.lost * 9,
                Self::Coding => is_lossy && fate.repaired() >= 0.8 && fate.in_stream + fate.cooperative > 0,
                // A relay that the machine stops for a moment has the flow on both paths for some seconds.
                Self::Forwarding => fate.lost == 0 && all_came && fate.forwarded * 2 >= u64::from(PACKETS),
                // What comes through relays first was never found missing.
                Self::Both => all_came && fate.forwarded >= LOST_MIN,
                // Outages are not what they repair.
                Self::OwnRepairs => is_lossy && fate.in_stream > 0,
                Self::Standby => is_lossy && fate.repaired() >= 0.7 && fate.cached * 10 >= fate.lost * 7,
                Self::CongestionControlled | Self::Mixture => {
                    is_lossy && fate.repaired() >= 0.8 && fate.cached * 10 >= fate.lost * 8
                }
            }
    }
}

/// Fails unless all are right; names those that are not, and what the sender's status says.
pub fn check_all(fates: &[(Mode, Fate)], sender: impl FnOnce() -> String) {
    let wrong: Vec<String> = fates
        .iter()
        .filter(|(mode, fate)| !mode.is_right(*fate))
        .map(|(mode, fate)| format!("{mode:?}: {fate:?}"))
        .collect();
    assert!(wrong.is_empty(), "{}\nof\n{fates:?}\n{}", wrong.join("\n"), sender());
}
