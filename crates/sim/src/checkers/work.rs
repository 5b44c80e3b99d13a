//! Work that one input costs a node, so that virtual time sees what a processor would.

use byway_proto::agent::Agent;
use byway_proto::limits::{FLOWS_PER_SESSION_MAX, INPUT_WORK_MAX, REGISTRATION_WORK};
use byway_proto::relay::Relay;

/// Gives an agent an input, and checks what that costs; returns the units of work.
///
/// # Panics
/// If these are more than [`INPUT_WORK_MAX`].
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

/// Gives a relay an input, and checks what that costs; returns the units of work.
///
/// # Panics
/// If these are more than [`INPUT_WORK_MAX`], beside the registrations of a session, which end with it.
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
