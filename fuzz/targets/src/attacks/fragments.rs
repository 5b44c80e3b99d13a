//! First halves of datagrams without the second, as copies of a flow and as packets of the direct path.

use byway_units::{Duration, FlowId, Time};
use byway_wire::Piece;
use byway_wire::messages::FlowRole;
use byway_wire::packets::EnvelopeRole;

use super::{Attack, Part, Scene, alias, register_each};

/// The flow that the attacker sends has the alias behind those that it receives.
const SENT: u16 = 501;

pub(super) const ATTACK: Attack = Attack {
    name: "fragments",
    prepare: send_one,
    datagram: |mallory, nth, _| match nth % 2 {
        0 => mallory.hand.sends(FlowId::new(1), (2 * nth).into(), Piece::First, Time::START, &[7; 1_100]),
        _ => mallory.hand.envelops(EnvelopeRole::Copy, alias(SENT), 2 * nth, &[7; 1_100]),
    },
};

fn send_one(scene: &mut dyn Scene) {
    register_each(scene, Part::Attacker, FlowRole::Sender, &[1]);
    scene.pass(Duration::from_millis(500));
}
