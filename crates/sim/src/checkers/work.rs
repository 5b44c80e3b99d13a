//! Limit on the work that a node does for one input: a processing cost that virtual time does not
//! show.

use byway_proto::agent::Agent;
use byway_proto::limits::{FLOWS_PER_SESSION_MAX, INPUT_WORK_MAX, REGISTRATION_WORK};
use byway_proto::relay::Relay;

/// Passes an input to an agent and checks its cost. Returns the units of work.
///
/// # Panics
/// If the cost exceeds [`INPUT_WORK_MAX`].
pub fn check_agent_input(agent: &mut Agent, input: impl FnOnce(&mut Agent)) -> u64 {
    let before = agent.work();
    input(agent);
    let after = agent.work();
    let spent = after.units() - before.units();
    assert!(
        spent <= INPUT_WORK_MAX,
        "an input costs an agent {spent} units of work: {before:?} before, {after:?} after"
    );
    spent
}

/// Passes an input to a relay and checks its cost. Returns the units of work.
///
/// # Panics
/// If the cost exceeds [`INPUT_WORK_MAX`] plus that of the registrations that end with a session.
pub fn check_relay_input(relay: &mut Relay, input: impl FnOnce(&mut Relay)) -> u64 {
    let before = relay.work();
    input(relay);
    let after = relay.work();
    let spent = after.units() - before.units();
    let ended = (after.registrations - before.registrations).min(FLOWS_PER_SESSION_MAX as u64);
    assert!(
        spent <= INPUT_WORK_MAX + ended * REGISTRATION_WORK,
        "an input costs a relay {spent} units of work: {before:?} before, {after:?} after"
    );
    spent
}
