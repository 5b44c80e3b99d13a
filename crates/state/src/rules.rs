//! Rules that a window follows.

/// Rules that a sender's window follows.
///
/// The published ones are for experiments, which show what the corrections change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// Rule for old state.
    pub old_state: OldStateRule,
    /// Corrections of what the paper leaves out.
    pub corrections: Corrections,
}

impl Rules {
    /// Equations 1 to 8 of the paper, and nothing else.
    pub const PUBLISHED: Self = Self { old_state: OldStateRule::Ignore, corrections: Corrections::None };
    /// Equations 1 to 8, with 11 and 12 for old state.
    pub const BACKLOG_FLOOR: Self =
        Self { old_state: OldStateRule::BacklogFloor, corrections: Corrections::None };
    /// Equations 1 to 8, with 13 and 14 for old state, and n = m = 2.
    pub const PUBLISHED_BOUNDS: Self =
        Self { old_state: OldStateRule::PublishedBounds, corrections: Corrections::None };
    /// Rules of Byway's senders.
    pub const CORRECTED: Self = Self { old_state: OldStateRule::ScaledBounds, corrections: Corrections::All };
}

impl Default for Rules {
    fn default() -> Self {
        Self::CORRECTED
    }
}

/// Rule for state that is so old that Equations 1 to 8 oscillate (section 6.4 of the paper).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OldStateRule {
    /// None.
    Ignore,
    /// Backlogs count as one target at least (Equations 11 and 12).
    BacklogFloor,
    /// Bounds on the rate at each link (Equations 13 and 14), with state of any age and steps of
    /// two targets.
    PublishedBounds,
    /// The same bounds from a feedback delay of 0.15 s on. Steps grow with the link and the delay,
    /// and lead flows to equal rates.
    ScaledBounds,
}

/// Corrections of what the paper leaves out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Corrections {
    /// None. Senders pace at 1.25 times their rate.
    None,
    /// All of them:
    ///
    /// - A rate that a link does not reach is corrected by its throughput.
    /// - Delay outside the table is part of the round trip.
    /// - A window at most doubles in a round trip, from ten packets on, and allows for bunched
    ///   acknowledgments.
    /// - Without state, with state that round trips refute, and behind a bottleneck outside the
    ///   table, a window is delay-based.
    /// - Senders pace at 1.1 times their rate.
    All,
}
