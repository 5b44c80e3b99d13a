//! Attack: sends first fragments of datagrams without the second, as copies of a flow and as source
//! packets.

use byway_units::{Duration, FlowId, Time};
use byway_wire::Fragment;
use byway_wire::messages::FlowRole;
use byway_wire::packets::EnvelopeRole;

use super::{Attack, Role, Testbed, alias, register_each};

/// Alias of the attacker's sent flow: the one after those of its received flows.
const SENT: u16 = 501;

pub(super) const ATTACK: Attack = Attack {
    name: "fragments",
    prepare: send_one,
    datagram: |attacker, nth, _| match nth % 2 {
        0 => attacker.peer.seal_source_packet(
            FlowId::new(1),
            (2 * nth).into(),
            Fragment::First,
            Time::START,
            &[7; 1_100],
        ),
        _ => attacker.peer.seal_envelope(EnvelopeRole::Copy, alias(SENT), 2 * nth, &[7; 1_100]),
    },
};

fn send_one(testbed: &mut dyn Testbed) {
    register_each(testbed, Role::Attacker, FlowRole::Sender, &[1]);
    testbed.pass(Duration::from_millis(500));
}
