//! Send flow: state of a flow at its sender.

use alloc::boxed::Box;

use byway_units::{Bytes, Time};
use byway_wire::{FlowKey, SequenceNumber, Service, UnprotectedMask};

use super::registration_state::Registrations;
use super::relay_delivery::RelayDelivery;
use super::sent_usage::SentUsage;
use super::settings::{Duplication, FlowSettings};
use super::totals::{ReportedTotals, Reports};
use crate::limits::{
    AGENT_BUFFER_RETENTION, COPY_BURST, PACKETS_PER_SOURCE_RESEND, RESEND_REACH, SOURCE_INTERVAL_IN_OUTAGE,
    SOURCE_RESENDS_MAX,
};
use crate::parts::block_encoder::BlockEncoder;
use crate::parts::forwarding_allowance::ForwardingAllowance;
use crate::parts::packet_buffer::Handle;
use crate::parts::retransmissions::Retransmissions;
use crate::parts::sequence_ring::SequenceRing;
use crate::parts::token_bucket::TokenBucket;
use crate::policy::{copies, is_direct, repairs_on_request, retransmits, samples_direct_path};
use crate::session::SessionId;

/// Identifier of a flow that this agent sends, from [`Agent::open_flow`](super::Agent::open_flow).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SendFlowId(pub(super) u32);

/// Packet of a flow that was sent recently, in the retransmission buffer.
#[derive(Clone, Copy, Debug)]
pub(super) struct SentPacket {
    /// Entry of its coded bytes in the retransmission buffer.
    pub(super) packet: Handle,
    /// True if a copy was sent to the ingress relay, or is queued.
    pub(super) is_copied: bool,
}

/// Retransmissions of a sent flow, and their limits. A receiver that requests everything gets no
/// more than the flow's registered rate.
#[derive(Debug)]
pub(super) struct Resending {
    pub(super) packets: Retransmissions,
    pub(super) budget: TokenBucket<Bytes>,
    /// Limit of the time for which all packets are sent through relays.
    allowance: ForwardingAllowance,
    /// True if the receiver's silence shows that packets were lost: the application did not just
    /// pause.
    pub(super) is_outage_certain: bool,
    /// Time of the latest packet on the direct path in an outage.
    direct_sent_at: Time,
    /// Highest number from which the receiver reported that the direct path delivers again. Notices
    /// of earlier silences may arrive later, through slow relays.
    pub(super) acknowledged_from: Option<SequenceNumber>,
}

/// Path of a flow's packets where it is not that of its service.
#[derive(Clone, Copy, Debug, Default)]
struct PathInForce {
    /// True if relays deliver the packets that they would otherwise only repair, because the
    /// receiver has no direct path.
    relays_deliver: bool,
    /// True while a flow that needs a relay uses the direct path, because no relay path works, or
    /// relays deliver too little.
    falls_back: bool,
}

/// State of a flow that this agent sends.
#[derive(Debug)]
pub(super) struct SendFlow {
    pub(super) key: FlowKey,
    pub(super) settings: FlowSettings,
    /// Session with the flow's receiver.
    pub(super) peer: SessionId,
    /// Sequence number of the next source packet.
    pub(super) next: SequenceNumber,
    /// Packets that were sent.
    pub(super) usage: SentUsage,
    /// Registrations with the ingress relay of each path, with their aliases.
    pub(super) registrations: Registrations,
    /// Latest packets that were copied, or that may be copied after a notice of silence.
    pub(super) sent: SequenceRing<SentPacket>,
    /// Block of the sender FEC, if the flow uses it.
    pub(super) fec_block: Option<Box<BlockEncoder>>,
    /// Latest packets that were not copied, for the header of the next packet.
    pub(super) unprotected: UnprotectedMask,
    /// Time until which the latest reported losses count, see
    /// [`COPIES_AFTER_LOSS`](crate::limits::COPIES_AFTER_LOSS).
    pub(super) copies_until: Time,
    /// True until a report shows that the direct path delivers, or a report or notice shows losses.
    pub(super) is_unproven: bool,
    /// Number of packets received by the direct path when the receiver reported a silence, modulo
    /// 2^32. `None` if there was no silence, or a later report counts more packets.
    pub(super) outage_since: Option<u32>,
    path: PathInForce,
    /// Monitoring of the relays' delivery, for a flow that needs a relay.
    pub(super) relay_delivery: Option<Box<RelayDelivery>>,
    /// Number of source packets that the agent may send again at relays' requests.
    resend_credit: u8,
    /// Retransmissions at the receiver's requests; allocated at the first one.
    resending: Option<Box<Resending>>,
    /// Latest report of the receiver, and totals; `None` before the first one.
    pub(super) reports: Option<Box<Reports>>,
}

impl SendFlow {
    pub(super) fn new(key: FlowKey, settings: FlowSettings, peer: SessionId, next: SequenceNumber) -> Self {
        let registrations = Registrations::new(settings.paths.len());
        Self {
            key,
            settings: settings.with_effective_latency(),
            peer,
            next,
            usage: SentUsage::default(),
            registrations,
            sent: SequenceRing::new(RESEND_REACH),
            fec_block: None,
            unprotected: UnprotectedMask::NONE,
            copies_until: Time::START,
            is_unproven: true,
            outage_since: None,
            path: PathInForce::default(),
            relay_delivery: None,
            resend_credit: SOURCE_RESENDS_MAX,
            resending: None,
            reports: None,
        }
    }

    /// Returns the sequence number for a packet that is sent now, and increments the next one.
    /// Every [`PACKETS_PER_SOURCE_RESEND`] packets, one more may be sent again.
    pub(super) fn next_sequence(&mut self, now: Time) -> SequenceNumber {
        self.usage.began.get_or_insert(now);
        let number = self.next;
        self.next = number.next();
        if number.number().is_multiple_of(PACKETS_PER_SOURCE_RESEND)
            && self.resend_credit < SOURCE_RESENDS_MAX
        {
            self.resend_credit += 1;
        }
        number
    }

    /// Returns the time at which the flow's first packet was sent; `None` before.
    pub(super) const fn began(&self) -> Option<Time> {
        self.usage.began
    }

    /// Returns true if one more source packet may be sent again, and consumes that credit.
    pub(super) const fn spend_resend_credit(&mut self) -> bool {
        let may = self.resend_credit > 0;
        self.resend_credit = self.resend_credit.saturating_sub(1);
        may
    }

    /// Sets whether relays deliver the packets that they would otherwise only repair; returns true
    /// if that is a change. It has no effect on a flow without relays, or on one that does not use
    /// the direct path.
    pub(super) const fn set_relays_deliver(&mut self, relays_deliver: bool) -> bool {
        let before = self.path.relays_deliver;
        self.path.relays_deliver =
            relays_deliver && copies(self.settings.service) && !self.settings.needs_relay();
        self.path.relays_deliver != before
    }

    /// Returns true if repairs restored nearly all lost packets of the coded flow since the last
    /// review. A flow that pauses does not count as bridged: its next packets may be late by the
    /// time to detect their losses.
    pub(super) fn review_bridging(&mut self) -> bool {
        let reported = self.reports.as_mut().map(|reports| reports.poll());
        let is_coded = matches!(self.settings.service, Service::Coding) && !self.path.relays_deliver;
        is_coded && reported.is_some_and(ReportedTotals::is_bridged)
    }

    /// Sets whether a flow that needs a relay uses the direct path instead.
    ///
    /// `lives` is true if the relay path in use delivers packets, or may do so once its relay
    /// answers. `is_steady` is true if it has delivered for a while. The flow returns to relays
    /// only then, because a relay that has just started accepts flows before it knows their
    /// receivers.
    pub(super) const fn set_fallback(&mut self, lives: bool, is_steady: bool) {
        self.path.falls_back = if self.path.falls_back { !is_steady } else { !lives };
    }

    /// True while a flow that needs a relay uses the direct path, because no relay path works, or
    /// relays deliver too little.
    pub(super) const fn falls_back(&self) -> bool {
        self.path.falls_back
    }

    /// Returns the service that the flow requests from relays: forwarding instead of repairs if
    /// there is no direct path.
    pub(super) const fn service_asked(&self) -> Service {
        match self.settings.service {
            service if self.path.relays_deliver && repairs_on_request(service) => Service::Forwarding,
            service => service,
        }
    }

    /// Returns the service that the flow has now, with regard to a fallback to the direct path.
    pub(super) fn service(&self) -> Service {
        match self.service_asked() {
            Service::Forwarding if self.path.falls_back && self.uses_relays_in_fallback() => Service::Both,
            Service::Forwarding if self.path.falls_back => Service::Internet,
            service => service,
        }
    }

    /// Returns true if a flow that falls back from relays uses them besides the direct path. A
    /// relay path works then, and delivers too little, or the sender is about to select both paths.
    fn uses_relays_in_fallback(&self) -> bool {
        let has_relays = || self.registrations.steady_at().is_some();
        self.is_undelivered() || (self.is_forwarded_automatically() && has_relays())
    }

    /// Returns true if relays alone forward the flow, and its sender selects the service.
    pub(super) const fn is_forwarded_automatically(&self) -> bool {
        !is_direct(self.settings.service) && self.settings.selects_service()
    }

    /// Returns the settings that the flow registers at relays. If relays deliver, they get all
    /// packets.
    pub(super) fn settings_in_force(&self) -> FlowSettings {
        let settings = self.settings.clone();
        if !self.path.relays_deliver {
            return settings;
        }
        FlowSettings { service: self.service_asked(), duplication: Duplication::All, ..settings }
    }

    /// Returns true if the flow's packets are sent through a relay only. An envelope then contains
    /// the packet itself, and is no copy.
    pub(super) const fn needs_relay(&self) -> bool {
        !self.path.falls_back && (self.path.relays_deliver || self.settings.needs_relay())
    }

    /// Returns true if this packet is sent on the direct path. If relays alone forward the flow
    /// because that path is slow or lossy, a few packets show its delay and its loss.
    pub(super) const fn uses_direct_path(&self, sequence: SequenceNumber) -> bool {
        !self.needs_relay() || (self.settings.has_direct_samples() && samples_direct_path(sequence))
    }

    /// Returns true if the ingress relay gets this datagram, apart from suppressed copies. `marked`
    /// is the application's mark.
    pub(super) fn is_copied(&self, datagram: &[u8], marked: bool) -> bool {
        let FlowSettings { service, duplication, traffic, .. } = self.settings;
        copies(service) && (self.path.relays_deliver || duplication.includes(traffic, datagram, marked))
    }

    /// Returns true if packets were lost within the last
    /// [`COPIES_AFTER_LOSS`](crate::limits::COPIES_AFTER_LOSS), by the receiver's reports or
    /// notices.
    pub(super) fn has_lost(&self, now: Time) -> bool {
        now < self.copies_until
    }

    pub(super) fn resending(&mut self, now: Time) -> &mut Resending {
        let rate = self.settings.rate;
        self.resending.get_or_insert_with(|| {
            let burst = rate.bytes_in(COPY_BURST).unwrap_or(Bytes::MAX);
            Box::new(Resending {
                packets: Retransmissions::new(RESEND_REACH, AGENT_BUFFER_RETENTION),
                budget: TokenBucket::of_bytes(rate, burst, now),
                allowance: ForwardingAllowance::new(now),
                is_outage_certain: false,
                direct_sent_at: Time::START,
                acknowledged_from: None,
            })
        })
    }

    /// Returns true if the packet that is sent now goes to the ingress relay, too: always, except
    /// for a flow with retransmission. That one is charged to the allowance of its outages.
    #[inline]
    pub(super) fn copies_packet(&mut self, now: Time) -> bool {
        !retransmits(self.settings.service) || self.copies_packet_of_outage(now)
    }

    #[cold]
    fn copies_packet_of_outage(&mut self, now: Time) -> bool {
        !self.copies_on_loss_only()
            || (self.is_in_outage(now) && self.resending(now).allowance.try_forward(now))
    }

    /// Returns true if the flow's losses are retransmitted, and nothing else is copied.
    pub(super) fn copies_on_loss_only(&self) -> bool {
        // The first condition spares other flows the second one.
        retransmits(self.settings.service) && !self.needs_relay() && retransmits(self.service())
    }

    /// Returns true if relays carry nearly all packets of a flow with retransmission: the
    /// receiver's silence shows that packets were lost.
    #[inline]
    pub(super) fn is_left_to_relays(&self) -> bool {
        retransmits(self.settings.service)
            && self.copies_on_loss_only()
            && self.resending.as_ref().is_some_and(|resending| resending.is_outage_certain)
    }

    /// Returns true if the flow, which is in an outage, leaves a packet to relays. Either the
    /// uplink cannot sustain it with its copy (`is_narrow`), or a sender that retransmits is
    /// certain that the direct path loses it. A few packets show when that delivers again.
    #[cold]
    pub(super) fn leaves_to_relays(&mut self, sequence: SequenceNumber, is_narrow: bool, now: Time) -> bool {
        if is_narrow && !Self::probes_path_in_outage(sequence) {
            return true;
        }
        if !self.copies_on_loss_only() {
            return false;
        }
        let Some(resending) = self.resending.as_mut().filter(|resending| resending.is_outage_certain) else {
            return false;
        };
        let is_probe = Self::probes_path_in_outage(sequence)
            || now.saturating_since(resending.direct_sent_at) >= SOURCE_INTERVAL_IN_OUTAGE;
        if is_probe {
            resending.direct_sent_at = now;
        }
        !is_probe
    }
}
