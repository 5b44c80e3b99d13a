//! Registration of flows with relays: requests, answers, the path in use, and the fallback to the
//! direct path.

use alloc::vec::Vec;

use byway_units::Time;
use byway_wire::messages::{Refusal, RegisterReply, Unregister};
use byway_wire::{GrantedRelay, Message};

use super::events::Event;
use super::register_message::register_message;
use super::send_flow::{SendFlow, SendFlowId};
use super::{Agent, Flow};
use crate::session::SessionId;

impl Agent {
    /// Sends the registration requests of a flow that are due, and chooses its path.
    pub(super) fn register(&mut self, flow: Flow, now: Time) {
        let paths = self.settings_of(flow).paths.len();
        for path in 0..paths {
            if self.registrations_of(flow).next_try(path).is_some_and(|next| next <= now) {
                self.send_register(flow, path, now);
            }
        }
        self.choose_path(flow, now);
    }

    /// Sends a registration request to the relay of a path. Without a session, starts a handshake
    /// with the request in its initiation.
    fn send_register(&mut self, flow: Flow, path: usize, now: Time) {
        self.registrations_of_mut(flow).on_requested(path, now);
        let (key, role) = self.identity_of(flow);
        let Some(session) = self.session_of_path(flow, path) else {
            return;
        };
        self.add_via_relay(flow, session);
        let settings = match flow {
            Flow::Sent(id) => self.senders[id.0 as usize].settings_in_force(),
            Flow::Received(_) | Flow::RelayProbing => self.settings_of(flow).clone(),
        };
        let revision = self.registrations_of(flow).revision();
        let register = register_message((key, role, revision), &settings, path);
        let mut message = alloc::vec![0; 512];
        let mut writer = byway_wire::Writer::new(&mut message);
        let written = Message::Register(register).emit(&mut writer).map(|()| writer.as_bytes().len());
        if self.sessions.is_established(session, now) {
            // While a request waits for its answer, the agent needs to know whether the relay is
            // alive.
            self.sessions.use_session(session, now);
            self.sessions.queue_message(session, &Message::Register(register), now);
        } else if let Ok(length) = written {
            self.sessions.connect(session, &message[..length], now);
        }
    }

    /// Handles a relay's answer to a registration: records it for the paths that it concerns,
    /// reports refusals, and chooses the flow's path.
    pub(super) fn on_register_reply(&mut self, session: SessionId, reply: &RegisterReply, now: Time) {
        let Some(flow) = self.find_flow(reply.flow_key, reply.role) else {
            self.on_late_register_reply(session, reply, now);
            return;
        };
        if !self.registrations_of_mut(flow).accept_revision(reply.revision, now) {
            self.register(flow, now);
            return;
        }
        let mut is_open = false;
        for path in self.paths_registered(flow, session, reply) {
            // A relay whose aliases exceed the limit is treated as full.
            let outcome = reply.outcome.and_then(|alias| {
                if self.bind_alias(session, alias, flow) { Ok(alias) } else { Err(Refusal::Full) }
            });
            let registrations = self.registrations_of_mut(flow);
            let refusal = match outcome {
                Ok(alias) => {
                    is_open |= !registrations.is_accepted(path);
                    registrations.on_accepted(path, alias);
                    registrations.set_reported(path, reply);
                    None
                }
                Err(Refusal::Unreachable) => {
                    registrations.set_unreachable(path, now).then_some(Refusal::Unreachable)
                }
                Err(refusal) => {
                    registrations.on_refused(path, refusal, now);
                    Some(refusal)
                }
            };
            self.events.extend(refusal.map(|refusal| Event::FlowRefused { flow: reply.flow_key, refusal }));
        }
        if is_open {
            self.send_handshake_through(flow, session, now);
        }
        // If the relay cannot forward packets, the agent repeats its request at once. That shows
        // the relay that its notice arrived.
        self.register(flow, now);
    }

    /// Unregisters a flow that a relay has accepted, but that this agent has closed meanwhile.
    fn on_late_register_reply(&mut self, session: SessionId, reply: &RegisterReply, now: Time) {
        let RegisterReply { flow_key, role, .. } = *reply;
        let unregister = Unregister { flow_key, role, far_relay: None };
        if reply.outcome.is_ok() && !self.teardowns.is_pending(session, unregister) {
            self.teardowns.schedule(session, unregister, now);
            self.send_unregisters(self.messages_end(), now);
        }
    }

    /// Registers a flow again at a relay that forgot it: its paths to the relay `far`, or all its
    /// paths there.
    pub(super) fn register_again(
        &mut self,
        flow: Flow,
        session: SessionId,
        far: Option<GrantedRelay>,
        now: Time,
    ) {
        let paths = match far {
            Some(far) => self.paths_ended(flow, session, far),
            None => self.paths_through(flow, session),
        };
        for path in paths {
            if self.registrations_of(flow).alias_of(path).is_some() {
                self.registrations_of_mut(flow).restart(path, now);
            }
        }
        self.register(flow, now);
    }

    /// Registers all flows again at a relay that does not know them, because the relay or this
    /// agent restarted.
    pub(super) fn register_all_again(&mut self, session: SessionId, now: Time) {
        for flow in self.all_flows() {
            self.work.entries += 1;
            for path in self.paths_through(flow, session) {
                self.registrations_of_mut(flow).restart(path, now);
            }
            self.register(flow, now);
        }
    }

    /// Repeats the registration of a sent flow's path in use: the relay's answer contains its delay
    /// to the egress relay.
    pub(super) fn repeat_registration(&mut self, flow: SendFlowId, now: Time) {
        let registrations = self.registrations_of_mut(Flow::Sent(flow));
        let path = registrations.in_use();
        if registrations.is_accepted(path) {
            registrations.request_again(path, now);
            self.register(Flow::Sent(flow), now);
        }
    }

    /// Asks the ingress relay of a sent flow for its delay to the egress relay, if that is not
    /// known. Flows whose service the settings name do not need it, but an
    /// [explanation](super::explain) does. Returns true if it asks.
    pub fn ask_for_unknown_delay(&mut self, flow: SendFlowId, now: Time) -> bool {
        let asks = self.flow_delays(flow).is_some_and(|known| known.between.is_none());
        if asks {
            self.repeat_registration(flow, now);
            self.finish(now);
        }
        asks
    }

    /// Unregisters a flow at the relays of its paths, and registers it again.
    pub(super) fn withdraw_registrations(&mut self, flow: Flow, now: Time) {
        let (flow_key, role) = self.identity_of(flow);
        for path in 0..self.settings_of(flow).paths.len() {
            if let Some(session) = self.session_of_path(flow, path) {
                let unregister = Unregister { flow_key, role, far_relay: None };
                self.sessions.queue_message(session, &Message::Unregister(unregister), now);
            }
            self.registrations_of_mut(flow).restart(path, now);
        }
        self.register(flow, now);
    }

    /// Chooses the path of each flow again, after a relay failed or recovered.
    pub(super) fn choose_paths(&mut self, now: Time) {
        for flow in self.all_flows() {
            self.choose_path(flow, now);
        }
    }

    /// Chooses the best relay path of a flow that works, or the direct path if none does, and
    /// reports a change.
    pub(super) fn choose_path(&mut self, flow: Flow, now: Time) {
        if flow == Flow::RelayProbing {
            self.plan_registration(flow);
            return;
        }
        let paths = self.settings_of(flow).paths.len();
        self.work.entries += 1 + paths as u64;
        let lives: Vec<bool> = (0..paths).map(|path| self.is_path_alive(flow, path, now)).collect();
        if let Flow::Sent(id) = flow {
            self.senders[id.0 as usize].clear_explained_failure(&lives, now);
        }
        let shut: Vec<Option<Time>> = (0..paths).map(|path| self.path_shut_until(flow, path, now)).collect();
        let registrations = self.registrations_of_mut(flow);
        let is_changed = registrations.choose_path(|path| lives[path] && shut[path].is_none(), now);
        // A path that is about to be left may never have delivered anything.
        let is_final = registrations.review_at.is_none();
        let opens = shut.into_iter().flatten();
        registrations.review_at = registrations.review_at.into_iter().chain(opens).min();
        let lives = lives.get(registrations.in_use()) == Some(&true);
        // Nobody knows yet what the relays of another path lose.
        let is_proven = !is_changed || !self.has_selected_forwarding(flow);
        self.update_fallback(flow, (lives && is_proven, is_final), now);
        if is_changed {
            if let Flow::Sent(id) = flow {
                self.senders[id.0 as usize].settle_delivery(now);
            }
            let (key, _) = self.identity_of(flow);
            let registrations = self.registrations_of(flow);
            if registrations.was_accepted {
                self.events.push_back(Event::PathChanged { flow: key, path: registrations.in_use() });
            }
            if let Some((peer, via_relay)) = self.via_relay_of(flow)
                && let Some(session) = self.sessions.get_mut(peer)
            {
                session.via_relay = Some(via_relay);
            }
        }
        self.plan_registration(flow);
    }

    /// Moves a flow that needs a relay to the direct path if its relay path delivers nothing, and
    /// back to relays when the path delivers again. `lives` is true if its relay answers, and
    /// `is_final` if no change to a better path is due.
    ///
    /// A flow whose sender has selected forwarding does not return: the next selection is both
    /// paths, which show what relays lose.
    fn update_fallback(&mut self, flow: Flow, (lives, is_final): (bool, bool), now: Time) {
        let Flow::Sent(id) = flow else {
            return;
        };
        let is_selected = self.has_selected_forwarding(flow);
        let Some(sender) = self.senders.get_mut(id.0) else {
            return;
        };
        let peer = self.sessions.get(sender.peer);
        let is_closed = peer.is_none_or(|peer| peer.is_dead || peer.path.address().is_none());
        let steady_at = sender.registrations.steady_at();
        let is_steady = steady_at.is_some_and(|at| at <= now);
        let fails_until = sender.undelivered_until(now);
        let delivers = fails_until.is_none();
        let fell_back = sender.falls_back();
        // A path that loses many packets is left only for another relay path, because the direct
        // path may be in an outage.
        let returns = is_steady && is_final && delivers && !is_selected;
        sender.set_fallback(lives && delivers || is_closed, returns || is_closed);
        sender.update_failing(is_final, now);
        if fell_back && sender.needs_relay() {
            self.rely_on_relays(id, now);
        }
        let sender = &mut self.senders[id.0 as usize];
        let again = steady_at.max(fails_until).filter(|at| sender.falls_back() && *at > now);
        let registrations = &mut sender.registrations;
        registrations.review_at = registrations.review_at.into_iter().chain(again).min();
    }

    /// Returns true if relays alone forward a sent flow, because its sender has selected that
    /// service. A flow with a route has it for another reason.
    fn has_selected_forwarding(&self, flow: Flow) -> bool {
        let Flow::Sent(id) = flow else {
            return false;
        };
        let is_selected = self.senders.get(id.0).is_some_and(SendFlow::is_forwarded_automatically);
        is_selected && !self.service_changes.routes.is_routed(id.0)
    }

    /// Returns true if the relay of a path has accepted the flow and answers, or may still answer
    /// the registration.
    pub(super) fn is_path_alive(&self, flow: Flow, path: usize, now: Time) -> bool {
        let Some(session) = self.session_of_path(flow, path) else {
            return false;
        };
        let registrations = self.registrations_of(flow);
        let is_accepted = registrations.is_accepted(path) && self.relay_is_alive(session, now);
        // The first relay to answer is not necessarily the best.
        let is_open = registrations.may_answer(path) && !self.relay_is_dead(session);
        is_accepted || is_open
    }

    /// Returns the session with the relay at which a flow's path begins (for a sender) or ends (for
    /// a receiver).
    pub(super) fn session_of_path(&self, flow: Flow, path: usize) -> Option<SessionId> {
        let path = self.settings_of(flow).paths.get(path)?;
        let (_, role) = self.identity_of(flow);
        self.relay_session(path.near_relay(role))
    }
}
