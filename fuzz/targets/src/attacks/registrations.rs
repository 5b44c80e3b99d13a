//! Registers flows to be received, and ends them at once.

use byway_wire::Message;
use byway_wire::messages::{FlowRole, Unregister};

use super::Attack;
use super::stage::{filled, flow, register};
use crate::stage::cast::INGRESS;

pub(super) const ATTACK: Attack = Attack {
    name: "registrations",
    prepare: |_| {},
    datagram: |mallory, nth, _| mallory.says(&comings_and_goings(FlowRole::Receiver, nth)),
};

/// Flows that are registered and ended, in one datagram.
pub(super) fn comings_and_goings(role: FlowRole, nth: u32) -> Vec<u8> {
    let both = |place: u16| {
        let flow_key = flow(role, 10_000 + (u16::try_from(nth % 1_000).expect("reduced") * 20 + place));
        let end = Message::Unregister(Unregister { flow_key, role, far_relay: None });
        [register(flow_key, role, INGRESS), end]
    };
    filled((0..20).flat_map(both))
}
