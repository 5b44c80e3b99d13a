//! Attack: registers flows as sender and ends them at once. Each registration makes one relay
//! announce an alias to another.

use byway_units::Duration;
use byway_wire::messages::FlowRole;

use super::registrations::register_and_close;
use super::{Attack, Role, Testbed, register_each};

pub(super) const ATTACK: Attack = Attack {
    name: "aliases",
    prepare: announce,
    datagram: |attacker, nth, _| register_and_close(attacker, FlowRole::Sender, nth),
};

/// Makes the relay announce useless aliases.
fn announce(testbed: &mut dyn Testbed) {
    register_each(testbed, Role::Attacker, FlowRole::Sender, &(1..=90).collect::<Vec<_>>());
    testbed.pass(Duration::from_secs(1));
}
