//! Inputs and outputs of the selection of a flow's service.

use byway_wire::Service;
use byway_wire::messages::GroupActivity;

use crate::choice::Reason;
use crate::delay::Delays;

/// State of a flow and its paths at one time. The counts begin with the flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Observation {
    /// Packets that the direct path delivered first.
    pub direct: u64,
    /// Packets that the direct path lost, repaired ones included.
    pub lost: u64,
    /// Lost packets that were repaired in time.
    pub repaired: u64,
    /// Packets that relays delivered first, without a request.
    pub forwarded: u64,
    /// Packets of `forwarded` that the direct path lost. While relays alone forward the flow, only
    /// samples of the direct path count.
    pub covered: u64,
    /// Interval, in packets, of these samples. With any other service it is 1, and 0 counts as 1.
    pub direct_sample_interval: u64,
    /// Relay path in use, by any number that identifies its relays; `None` while none works.
    pub path: Option<u64>,
    /// Delays of the paths; `None` if they are not known.
    pub delays: Option<Delays>,
    /// True if all of `delays` are measured, and none is assumed.
    pub are_delays_measured: bool,
    /// Flows that could share batches with this one, as the ingress relay reports them; `None` if
    /// it does not.
    pub group_activity: Option<GroupActivity>,
}

/// Service that a selector has selected, with the reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Selection {
    /// Service of the flow.
    pub service: Service,
    /// Reason for the choice.
    pub reason: Reason,
}
