//! A flow, as its sender keeps it.

use alloc::boxed::Box;

use byway_units::Time;
use byway_wire::{FlowKey, SequenceNumber, Uncopied};

use super::registration::Registrations;
use super::settings::FlowSettings;
use crate::limits::RESEND_REACH;
use crate::parts::block_encoder::BlockEncoder;
use crate::parts::packet_log::Handle;
use crate::parts::sequence_ring::SequenceRing;
use crate::session::SessionId;

/// A flow that this agent sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SendFlowId(pub(super) u32);

/// The sending end of a flow.
#[derive(Debug)]
pub(super) struct SendFlow {
    pub(super) key: FlowKey,
    pub(super) settings: FlowSettings,
    /// The session with the receiver.
    pub(super) peer: SessionId,
    pub(super) next: SequenceNumber,
    /// What the ingress relay of each path calls the flow.
    pub(super) registrations: Registrations,
    /// Copies that may be asked for again: coded bytes in the log of what was sent.
    pub(super) sent: SequenceRing<Handle>,
    /// The repair packets that this end makes, if it does.
    pub(super) block: Option<Box<BlockEncoder>>,
    /// Which of the latest packets were not copied.
    pub(super) uncopied: Uncopied,
    /// Until when copies are sent although the flow waits for losses.
    pub(super) copies_until: Time,
    /// What the receiver reported last.
    pub(super) report: Option<Box<byway_wire::messages::Report>>,
}

impl SendFlow {
    pub(super) fn new(key: FlowKey, settings: FlowSettings, peer: SessionId, next: SequenceNumber) -> Self {
        let registrations = Registrations::new(settings.paths.len());
        Self {
            key,
            settings,
            peer,
            next,
            registrations,
            sent: SequenceRing::new(RESEND_REACH),
            block: None,
            uncopied: Uncopied::NONE,
            copies_until: Time::START,
            report: None,
        }
    }

    /// Takes the next sequence number.
    pub(super) const fn take_number(&mut self) -> SequenceNumber {
        let number = self.next;
        self.next = number.next();
        number
    }

    /// Whether copies are sent now, as far as standby goes.
    pub(super) fn is_awake(&self, now: Time) -> bool {
        !self.settings.waits_for_losses() || now < self.copies_until
    }
}
