//! Registers flows to be sent, so that one relay announces aliases to another, and ends them at once.

use byway_units::Duration;
use byway_wire::messages::FlowRole;

use super::registrations::comings_and_goings;
use super::{Attack, Part, Scene, register_each};

pub(super) const ATTACK: Attack = Attack {
    name: "aliases",
    prepare: announce,
    datagram: |mallory, nth, _| comings_and_goings(mallory, FlowRole::Sender, nth),
};

/// Has aliases announced that nobody has a use for.
fn announce(scene: &mut dyn Scene) {
    register_each(scene, Part::Attacker, FlowRole::Sender, &(1..=90).collect::<Vec<_>>());
    scene.pass(Duration::from_secs(1));
}
