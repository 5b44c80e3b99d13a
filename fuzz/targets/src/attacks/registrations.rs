//! Attack: registers flows as receiver, and ends them at once.

use byway_wire::Message;
use byway_wire::messages::{FlowRole, Unregister};

use super::{Attack, Attacker, filled};

pub(super) const ATTACK: Attack = Attack {
    name: "registrations",
    prepare: |_| {},
    datagram: |attacker, nth, _| register_and_close(attacker, FlowRole::Receiver, nth),
};

/// Returns a datagram that registers and ends flows.
pub(super) fn register_and_close(attacker: &mut Attacker, role: FlowRole, nth: u32) -> Option<Vec<u8>> {
    let both = |index: u16| {
        let number = 10_000 + (u16::try_from(nth % 1_000).expect("reduced") * 20 + index);
        let flow_key = attacker.flow(role, number);
        let end = Message::Unregister(Unregister { flow_key, role, far_relay: None });
        [attacker.register(role, number), end]
    };
    let messages = filled((0..20).flat_map(both));
    attacker.peer.seal_messages(&messages)
}
