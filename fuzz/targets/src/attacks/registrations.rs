//! Registers flows to be received, and ends them at once.

use byway_wire::Message;
use byway_wire::messages::{FlowRole, Unregister};

use super::{Attack, Attacker, filled};

pub(super) const ATTACK: Attack = Attack {
    name: "registrations",
    prepare: |_| {},
    datagram: |mallory, nth, _| comings_and_goings(mallory, FlowRole::Receiver, nth),
};

/// Flows that are registered and ended, in one datagram.
pub(super) fn comings_and_goings(mallory: &mut Attacker, role: FlowRole, nth: u32) -> Option<Vec<u8>> {
    let both = |place: u16| {
        let number = 10_000 + (u16::try_from(nth % 1_000).expect("reduced") * 20 + place);
        let flow_key = mallory.flow(role, number);
        let end = Message::Unregister(Unregister { flow_key, role, far_relay: None });
        [mallory.register(role, number), end]
    };
    let messages = filled((0..20).flat_map(both));
    mallory.hand.says(&messages)
}
