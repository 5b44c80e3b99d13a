//! Registers flows to be sent, so that one relay announces aliases to another, and ends them at once.

use byway_units::Duration;
use byway_wire::messages::FlowRole;

use super::Attack;
use super::registrations::comings_and_goings;
use super::stage::{World, filled, flow, register};
use crate::stage::cast::INGRESS;

pub(super) const ATTACK: Attack = Attack {
    name: "aliases",
    prepare: announce,
    datagram: |mallory, nth, _| mallory.says(&comings_and_goings(FlowRole::Sender, nth)),
};

/// Has aliases announced that nobody has a use for.
fn announce(world: &mut World) {
    for first in (1..90).step_by(15) {
        let of = |number: u16| register(flow(FlowRole::Sender, number), FlowRole::Sender, INGRESS);
        world.says(&filled((first..first + 15).map(of)));
        world.run(Duration::from_millis(5));
    }
    world.run(Duration::from_secs(1));
}
