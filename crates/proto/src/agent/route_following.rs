//! Change of a sent flow to its selected path, with each report of its receiver.

use alloc::vec::Vec;

use byway_plan::{PlannedRoute, Route};
use byway_units::{Duration, Time};
use byway_wire::Service;
use byway_wire::messages::{FlowRole, Report};

use super::routes::FlowProgress;
use super::selection::reported_delays;
use super::send_flow::{SendFlow, SendFlowId};
use super::settings::RelayPath;
use super::{Agent, Flow};

/// Selects a flow's path after a report of its receiver, and changes its service towards that of
/// the path. Returns true if the path determines the service; false for the others, and for flows
/// without limits of their latency.
pub(super) fn follow_route(agent: &mut Agent, id: SendFlowId, report: &Report, now: Time) -> bool {
    if agent.service_changes.routes.status(id.0).is_none() {
        return false;
    }
    agent.watch_relays(Flow::Sent(id), now);
    request_far_delays(agent, id, now);
    // Without a direct path, relays deliver the flow anyway.
    if agent.sessions.is_direct(agent.senders[id.0 as usize].peer) {
        select_route(agent, id, report, now);
        change_path(agent, id, now);
        change_service_for_path(agent, id, now);
    }
    agent.service_changes.routes.is_routed(id.0)
}

/// Selects a flow's path, and records the change to it.
fn select_route(agent: &mut Agent, id: SendFlowId, report: &Report, now: Time) {
    let routes = routes_of(agent, id, report, now);
    let may_use_relays = agent.services_for(id, now).allow(Service::Both);
    let flow = &agent.senders[id.0 as usize];
    let progress = FlowProgress {
        round_trip: agent.sessions.measured_round_trip(flow.peer),
        path_in_use: flow.settings.paths.get(flow.registrations.in_use()).and_then(RelayPath::route),
        next: flow.next,
    };
    let service = agent.service_changes.pending_service(id.0).unwrap_or(flow.settings.service);
    let selection = agent.service_changes.routes.select(id.0, report, (&progress, routes.as_slice()), now);
    if let Some(selection) = selection.filter(|selection| selection.route.is_none() || may_use_relays) {
        agent.service_changes.routes.on_changed(id.0, selection, service, now);
    }
}

/// Changes a flow's relay path to that of its selected route, once its service allows that.
fn change_path(agent: &mut Agent, id: SendFlowId, now: Time) {
    let flow = &mut agent.senders[id.0 as usize];
    let Some(selection) = agent.service_changes.routes.pop_path(id.0, flow.settings.service, now) else {
        return;
    };
    let route = selection.route.map(|planned| planned.route);
    let has_route = |path: &RelayPath| route.is_some() && path.route() == route;
    flow.registrations.prefer(flow.settings.paths.iter().position(has_route));
    agent.choose_path(Flow::Sent(id), now);
}

/// Begins a change of a flow's service, if its path needs another one, and no change is pending.
fn change_service_for_path(agent: &mut Agent, id: SendFlowId, now: Time) {
    if agent.is_changing_service(id) {
        return;
    }
    let may_forward = agent.services_for(id, now).allow(Service::Forwarding);
    let in_force = agent.senders[id.0 as usize].settings.service;
    let next = agent.service_changes.routes.next_service(id.0, in_force, may_forward, now);
    if let Some(service) = next.filter(|service| *service != in_force) {
        agent.begin_service_change(id, service, now);
    }
}

/// Ends the selection of a flow's routes. The flow prefers the first one of its relay paths again,
/// and no sample uses its direct path. Returns true if it had a route, or was returning from one.
pub(super) fn end_routes(agent: &mut Agent, id: SendFlowId, now: Time) -> bool {
    let was_routed = agent.service_changes.routes.is_routed(id.0);
    agent.service_changes.routes.remove(id.0);
    let flow = &mut agent.senders[id.0 as usize];
    flow.settings.latency = None;
    if was_routed {
        flow.registrations.prefer(None);
        agent.choose_path(Flow::Sent(id), now);
    }
    was_routed
}

/// Returns the routes over a flow's relay paths that work, with the sums of their measured delays:
/// halves of round trips. Routes with unknown delays are left out.
fn routes_of(agent: &Agent, id: SendFlowId, report: &Report, now: Time) -> Vec<PlannedRoute> {
    let flow = &agent.senders[id.0 as usize];
    let mut routes: Vec<PlannedRoute> = Vec::new();
    for (index, path) in flow.settings.paths.iter().enumerate() {
        let works = flow.registrations.is_accepted(index)
            && agent.is_path_alive(Flow::Sent(id), index, now)
            && agent.path_shut_until(Flow::Sent(id), index, now).is_none();
        let delay = path_delay(agent, flow, index, report).filter(|_| works);
        if let Some((route, delay)) = path.route().zip(delay)
            && !routes.iter().any(|known| known.route == route)
        {
            routes.push(PlannedRoute { route, delay });
        }
    }
    routes
}

/// Returns the one-way delay of a flow's relay path, from its sender to its receiver; `None` if a
/// part of it was not measured.
fn path_delay(agent: &Agent, flow: &SendFlow, index: usize, report: &Report) -> Option<Duration> {
    let path = flow.settings.paths.get(index)?;
    let ingress = agent.relay_session(path.ingress)?;
    let to_ingress = agent.sessions.measured_round_trip(ingress)? / 2;
    let between =
        if path.has_two_relays() { flow.registrations.far_delay_of(index)? } else { Duration::ZERO };
    let (to_receiver, _) = reported_delays(report, path.far_relay(FlowRole::Sender));
    Some(to_ingress.saturating_add(between).saturating_add(to_receiver?))
}

/// Repeats the registrations of a flow's paths over two relays from time to time: the relays'
/// answers contain their delays to each other.
fn request_far_delays(agent: &mut Agent, id: SendFlowId, now: Time) {
    let SendFlow { settings, registrations, .. } = &mut agent.senders[id.0 as usize];
    let paths = settings.paths.iter().enumerate().filter(|(_, path)| path.has_two_relays());
    let indices = paths.map(|(index, _)| index).filter(|index| registrations.is_accepted(*index));
    let indices: Vec<usize> = indices.collect();
    let are_known = indices.iter().all(|index| registrations.far_delay_of(*index).is_some());
    if indices.is_empty() || !agent.service_changes.routes.is_delay_request_due(id.0, are_known, now) {
        return;
    }
    for index in indices {
        registrations.request_again(index, now);
    }
    agent.register(Flow::Sent(id), now);
}

impl RelayPath {
    /// Returns the route over the relays of the path.
    fn route(&self) -> Option<Route> {
        let (ingress, egress) = (self.ingress.0, self.egress.0);
        if self.has_two_relays() { Route::new(&[ingress, egress]) } else { Route::new(&[ingress]) }
    }

    /// True if the path leads over two relays, and not only over two shards of one.
    fn has_two_relays(&self) -> bool {
        self.ingress.0 != self.egress.0
    }
}
