//! A flow, as its sender keeps it.

use alloc::boxed::Box;

use byway_units::Time;
use byway_wire::{FlowKey, SequenceNumber, Service, Uncopied};

use super::registration::Registrations;
use super::relay_delivery::RelayDelivery;
use super::settings::{Duplication, FlowSettings};
use super::totals::{Reported, Reports};
use crate::limits::{ORIGINALS_AGAIN_MAX, PACKETS_PER_ORIGINAL_AGAIN, RESEND_REACH};
use crate::parts::block_encoder::BlockEncoder;
use crate::parts::packet_log::Handle;
use crate::parts::sequence_ring::SequenceRing;
use crate::policy::copies;
use crate::session::SessionId;

/// A flow that this agent sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SendFlowId(pub(super) u32);

/// A packet that was sent a moment ago.
#[derive(Clone, Copy, Debug)]
pub(super) struct SentPacket {
    /// Its coded bytes in the log of what was sent.
    pub(super) packet: Handle,
    /// Whether the ingress relay was sent a copy.
    pub(super) is_copied: bool,
}

/// The sending end of a flow.
#[derive(Debug)]
pub(super) struct SendFlow {
    pub(super) key: FlowKey,
    pub(super) settings: FlowSettings,
    /// The session with the receiver.
    pub(super) peer: SessionId,
    pub(super) next: SequenceNumber,
    /// Time at which the first packet left.
    pub(super) began: Option<Time>,
    /// What the ingress relay of each path calls the flow.
    pub(super) registrations: Registrations,
    /// Packets that were copied, or may be when the direct path falls silent.
    pub(super) sent: SequenceRing<SentPacket>,
    /// The repair packets that this end makes, if it does.
    pub(super) block: Option<Box<BlockEncoder>>,
    /// Which of the latest packets were not copied.
    pub(super) uncopied: Uncopied,
    /// Until when copies are sent although the flow waits for losses.
    pub(super) copies_until: Time,
    /// True until a report shows that the direct path delivers, or that it does not.
    pub(super) is_unproven: bool,
    /// How many packets had come by the direct path when the receiver said that none comes, modulo 2^32; until a report
    /// counts more.
    pub(super) dark_since: Option<u32>,
    /// Whether relays deliver what they would else repair, as the receiver cannot be reached directly.
    stands_in: bool,
    /// True while no relay path works for a flow that needs one, or relays deliver too little of it: its packets take the direct path.
    falls_back: bool,
    /// Evidence that relays deliver what they alone get.
    pub(super) relay_delivery: Option<Box<RelayDelivery>>,
    /// How many originals may be sent again.
    again: u8,
    /// What the receiver reported; `None` before its first report.
    pub(super) reports: Option<Box<Reports>>,
}

impl SendFlow {
    pub(super) fn new(key: FlowKey, settings: FlowSettings, peer: SessionId, next: SequenceNumber) -> Self {
        let registrations = Registrations::new(settings.paths.len());
        Self {
            key,
            settings,
            peer,
            next,
            began: None,
            registrations,
            sent: SequenceRing::new(RESEND_REACH),
            block: None,
            uncopied: Uncopied::NONE,
            copies_until: Time::START,
            is_unproven: true,
            dark_since: None,
            stands_in: false,
            falls_back: false,
            relay_delivery: None,
            again: ORIGINALS_AGAIN_MAX,
            reports: None,
        }
    }

    /// Takes the next sequence number, for a packet that leaves now.
    pub(super) fn take_number(&mut self, now: Time) -> SequenceNumber {
        self.began.get_or_insert(now);
        let number = self.next;
        self.next = number.next();
        if number.number().is_multiple_of(PACKETS_PER_ORIGINAL_AGAIN) && self.again < ORIGINALS_AGAIN_MAX {
            self.again += 1;
        }
        number
    }

    /// Whether an original may be sent again; it counts as sent then.
    pub(super) const fn take_original_again(&mut self) -> bool {
        let may = self.again > 0;
        self.again = self.again.saturating_sub(1);
        may
    }

    /// Has relays deliver what they would else repair, or not any more. Without relays there is nothing that could be done,
    /// and the direct path is not missed where nothing is sent on it. Whether that changes anything.
    pub(super) const fn set_stand_in(&mut self, stands_in: bool) -> bool {
        let before = self.stands_in;
        self.stands_in = stands_in && copies(self.settings.service) && !self.settings.needs_relay();
        self.stands_in != before
    }

    /// Whether the flow has done without relays that deliver since the last look. One that pauses has not: what it sends next may take as
    /// long as its first losses take to be noticed.
    pub(super) fn look_whether_bridged(&mut self) -> bool {
        let reported = self.reports.as_mut().map(|reports| reports.look());
        let is_coded = matches!(self.settings.service, Service::Coding) && !self.stands_in;
        is_coded && reported.is_some_and(Reported::is_bridged)
    }

    /// Sets whether the flow takes the direct path instead of relays.
    ///
    /// `lives` is true if the path in use delivers packets, or may do so once its relay answers.
    /// `is_steady` is true if it has delivered for a while. The flow returns to relays only then: a
    /// relay that has just started accepts flows before it knows their receivers.
    pub(super) const fn set_fallback(&mut self, lives: bool, is_steady: bool) {
        self.falls_back = if self.falls_back { !is_steady } else { !lives };
    }

    /// True while no relay path works for a flow that needs one, or relays deliver too little of it.
    pub(super) const fn falls_back(&self) -> bool {
        self.falls_back
    }

    /// The service that relays are asked for.
    pub(super) const fn service_asked(&self) -> Service {
        match self.settings.service {
            Service::Coding | Service::Caching if self.stands_in => Service::Forwarding,
            service => service,
        }
    }

    /// The service in force.
    pub(super) fn service(&self) -> Service {
        match self.service_asked() {
            Service::Forwarding if self.falls_back && self.is_undelivered() => Service::Both,
            Service::Forwarding if self.falls_back => Service::Internet,
            service => service,
        }
    }

    /// What relays are to do: where they deliver, they get all there is.
    pub(super) fn settings_in_force(&self) -> FlowSettings {
        let settings = self.settings.clone();
        if !self.stands_in {
            return settings;
        }
        FlowSettings {
            service: self.service_asked(),
            duplication: Duplication::All,
            standby: false,
            ..settings
        }
    }

    /// Whether the packets go through a relay alone: what it gets is then no copy.
    pub(super) const fn needs_relay(&self) -> bool {
        !self.falls_back && (self.stands_in || self.settings.needs_relay())
    }

    /// Whether the ingress relay gets a datagram.
    pub(super) fn is_copied(&self, datagram: &[u8], marked: bool) -> bool {
        let FlowSettings { service, duplication, traffic, .. } = self.settings;
        copies(service) && (self.stands_in || duplication.takes(traffic, datagram, marked))
    }

    /// Whether packets were lost lately.
    pub(super) fn has_lost(&self, now: Time) -> bool {
        now < self.copies_until
    }

    /// Whether copies are sent now, as far as standby goes.
    pub(super) fn is_awake(&self, now: Time) -> bool {
        self.stands_in || !self.settings.waits_for_losses() || self.has_lost(now)
    }
}
