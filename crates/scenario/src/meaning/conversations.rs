//! What applications say to each other over TCP.

use byway_sim::tcp;
use byway_typed::{KeyPath, Problem};
use byway_units::{Bytes, Duration, Rate};

use super::Reader;
use super::flows::service;
use crate::limits::{DATAGRAM_BYTES_MAX, DELAY_MAX, LENGTH_MAX};
use crate::scenario::{ConversationPlan, Copied, FlowPlan, Load, Marks, Segments, Task};
use crate::typed::{TypedAlgorithm, TypedBack, TypedCopies, TypedFlow, TypedTraffic, TypedTrafficKind};
use crate::watch::LABEL_BYTES;

/// Options and payload of a segment that any path carries with all that the overlay puts around it.
const SEGMENT_BYTES: u32 = 1_200;

/// From one fetch to the next: somebody clicks, or a page asks for its next part.
const PAUSE: Duration = Duration::from_millis(100);

/// What a flow of TCP, or of programs, is registered with: a window of 50 kB goes at once and takes some tens of milliseconds, as over a good
/// access line.
pub(super) const RATE: Rate = Rate::from_megabits_per_second(10);

/// Shorter, and connections would be given up over long ways before they are open.
const FIRST_TIMEOUT_MIN: Duration = Duration::from_millis(200);

/// What surrounds options and payload in a datagram: its label, and the header of TCP.
#[allow(clippy::cast_possible_truncation, reason = "some tens of bytes")]
const FRAME_BYTES: u32 = (LABEL_BYTES + tcp::limits::HEADER_BYTES) as u32;

/// Whether it goes over TCP.
pub(super) const fn is_tcp(kind: TypedTrafficKind) -> bool {
    matches!(kind, TypedTrafficKind::Fetches | TypedTrafficKind::Bulk)
}

/// The flow back: what differs, and the same relays in the other order.
pub(super) fn turned(mut flow: FlowPlan, back: TypedBack) -> FlowPlan {
    flow.via = flow.via.map(|(ingress, egress)| (egress, ingress));
    flow.service = back.service.map_or(flow.service, service);
    if let (Load::Segments(segments), Some(copies)) = (&mut flow.load, back.copies) {
        segments.copied = copied(copies);
    }
    flow
}

const fn copied(copies: TypedCopies) -> Copied {
    match copies {
        TypedCopies::All => Copied::All,
        TypedCopies::Marked => Copied::Marked(Marks::Ends),
        TypedCopies::Syn => Copied::Marked(Marks::Syn),
        TypedCopies::SynAck => Copied::Marked(Marks::SynAck),
    }
}

impl Reader<'_> {
    /// One direction of TCP.
    pub(super) fn segments(&self, here: &KeyPath, flow: &TypedFlow) -> Result<Segments, Problem> {
        let segment = self.segment_bytes(here, &flow.sends)?;
        let rate = flow.sends.rate.map_or(RATE, |rate| rate.0);
        if rate.is_zero() {
            return Err(self.problem(&here.key("rate"), "is 0: give what the flow needs"));
        }
        let usual = match flow.sends.kind {
            // Bulk data is not for copying (RFC 9265), short flows are.
            TypedTrafficKind::Bulk => TypedCopies::Marked,
            _ => TypedCopies::All,
        };
        let bytes_max = (FRAME_BYTES + u32::from(segment)) as usize;
        Ok(Segments { bytes_max, rate, copied: copied(flow.copies.unwrap_or(usual)) })
    }

    fn segment_bytes(&self, here: &KeyPath, typed: &TypedTraffic) -> Result<u16, Problem> {
        let bytes = typed.segment.unwrap_or(SEGMENT_BYTES);
        let (least, most) = (u32::from(tcp::limits::SEGMENT_BYTES_MIN), DATAGRAM_BYTES_MAX - FRAME_BYTES);
        let segment = u16::try_from(bytes).ok().filter(|_| (least..=most).contains(&bytes));
        segment.ok_or_else(|| {
            self.problem(&here.key("segment"), format!("{bytes} is out of range: {least} to {most}"))
        })
    }

    /// An application over TCP between flows that are not there yet; `None` of other kinds.
    pub(super) fn conversation(
        &self,
        here: &KeyPath,
        typed: &TypedTraffic,
        length: Duration,
    ) -> Result<Option<ConversationPlan>, Problem> {
        let task = match typed.kind {
            TypedTrafficKind::Fetches => self.fetches(here, typed)?,
            TypedTrafficKind::Bulk if typed.bytes == Some(0) => {
                return Err(self.problem(&here.key("bytes"), "is 0: send something"));
            }
            TypedTrafficKind::Bulk => Task::Bulk(typed.bytes.map(bytes)),
            _ => return Ok(None),
        };
        let (begin, end) = self.time_of(here, typed, length)?;
        let usual = tcp::Settings::default();
        let rto_initial = typed.first_timeout.map_or(usual.rto_initial, |timeout| timeout.0);
        if !(FIRST_TIMEOUT_MIN..=DELAY_MAX).contains(&rto_initial) {
            let message = format!("{rto_initial} is out of range: {FIRST_TIMEOUT_MIN} to {DELAY_MAX}");
            return Err(self.problem(&here.key("first_timeout"), message));
        }
        let settings = tcp::Settings {
            algorithm: match typed.algorithm {
                Some(TypedAlgorithm::NewReno) => tcp::Algorithm::NewReno,
                Some(TypedAlgorithm::Cubic) | None => tcp::Algorithm::Cubic,
            },
            segment_bytes: self.segment_bytes(here, typed)?,
            rto_initial,
            ecn: typed.ecn.unwrap_or(false),
            ..usual
        };
        Ok(Some(ConversationPlan { flows: [0; 2], task, settings, begin, end }))
    }

    fn fetches(&self, here: &KeyPath, typed: &TypedTraffic) -> Result<Task, Problem> {
        let (Some(request), Some(response)) = (typed.request, typed.response) else {
            return Err(self.problem(here, "says not how much: give `request` and `response`"));
        };
        for (key, value) in [("request", Some(request)), ("response", Some(response)), ("count", typed.count)]
        {
            if value == Some(0) {
                return Err(self.problem(&here.key(key), "is 0: give 1 or more"));
            }
        }
        let pause = typed.pause.map_or(PAUSE, |pause| pause.0);
        self.no_longer_than(&here.key("pause"), [pause], LENGTH_MAX)?;
        Ok(Task::Fetches { request: bytes(request), response: bytes(response), count: typed.count, pause })
    }
}

fn bytes(count: u32) -> Bytes {
    Bytes::new(count.into())
}
