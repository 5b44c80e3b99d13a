//! Validation of applications over TCP.

use byway_config_types::{KeyPath, Problem};
use byway_sim::tcp;
use byway_units::{Bytes, Duration, Rate};

use super::Reader;
use super::flows::service;
use crate::limits::{DATAGRAM_BYTES_MAX, DELAY_MAX, LENGTH_MAX};
use crate::observer::LABEL_BYTES;
use crate::raw::{
    AlgorithmSetting, BackSetting, CopiesSetting, FlowSetting, TrafficKindSetting, TrafficSetting,
};
use crate::scenario::{ConversationPlan, CopyPolicy, FlowPlan, Load, Marks, Segments, Task};

/// Options and payload of a segment that fits into the path MTU of any path with all overlay
/// headers.
const SEGMENT_BYTES: u32 = 1_200;

/// Default pause between fetches: a click, or a page that fetches its next part.
const PAUSE: Duration = Duration::from_millis(100);

/// Default registered rate of a flow of TCP, or of programs. A window of 50 kB leaves at once and
/// takes some tens of milliseconds, as over a good access link.
pub(super) const RATE: Rate = Rate::from_megabits_per_second(10);

/// Shortest setting of the first retransmission timeout: with a shorter one, connections over long
/// paths would fail before they are open.
const FIRST_TIMEOUT_MIN: Duration = Duration::from_millis(200);

/// Overhead of a datagram around options and payload: its label, and the header of TCP.
#[allow(clippy::cast_possible_truncation, reason = "some tens of bytes")]
const FRAME_BYTES: u32 = (LABEL_BYTES + tcp::limits::HEADER_BYTES) as u32;

/// True if the application uses TCP.
pub(super) const fn is_tcp(kind: TrafficKindSetting) -> bool {
    matches!(kind, TrafficKindSetting::Fetches | TrafficKindSetting::Bulk)
}

/// Returns the reverse flow of a flow: with the differences in `back`, and the same relays in the
/// other order.
pub(super) fn reverse_flow(mut flow: FlowPlan, back: BackSetting) -> FlowPlan {
    flow.via = flow.via.map(|(ingress, egress)| (egress, ingress));
    flow.service = back.service.map_or(flow.service, service);
    if let (Load::Segments(segments), Some(copies)) = (&mut flow.load, back.copies) {
        segments.copy_policy = copy_policy(copies);
    }
    flow
}

const fn copy_policy(copies: CopiesSetting) -> CopyPolicy {
    match copies {
        CopiesSetting::All => CopyPolicy::All,
        CopiesSetting::Marked => CopyPolicy::Marked(Marks::Ends),
        CopiesSetting::Syn => CopyPolicy::Marked(Marks::Syn),
        CopiesSetting::SynAck => CopyPolicy::Marked(Marks::SynAck),
    }
}

impl Reader<'_> {
    /// Returns the settings of one direction of TCP.
    pub(super) fn segments(&self, here: &KeyPath, flow: &FlowSetting) -> Result<Segments, Problem> {
        let segment = self.segment_bytes(here, &flow.sends)?;
        let rate = flow.sends.rate.map_or(RATE, |rate| rate.0);
        if rate.is_zero() {
            return Err(self.problem(&here.key("rate"), "is 0: set the rate that the flow needs"));
        }
        let usual = match flow.sends.kind {
            // Copies of bulk data cost more than they help (RFC 9265); copies of short flows help.
            TrafficKindSetting::Bulk => CopiesSetting::Marked,
            _ => CopiesSetting::All,
        };
        let bytes_max = (FRAME_BYTES + u32::from(segment)) as usize;
        Ok(Segments { bytes_max, rate, copy_policy: copy_policy(flow.copies.unwrap_or(usual)) })
    }

    fn segment_bytes(&self, here: &KeyPath, typed: &TrafficSetting) -> Result<u16, Problem> {
        let bytes = typed.segment.unwrap_or(SEGMENT_BYTES);
        let (least, most) = (u32::from(tcp::limits::SEGMENT_BYTES_MIN), DATAGRAM_BYTES_MAX - FRAME_BYTES);
        let segment = u16::try_from(bytes).ok().filter(|_| (least..=most).contains(&bytes));
        segment.ok_or_else(|| {
            self.problem(&here.key("segment"), format!("{bytes} is out of range: {least} to {most}"))
        })
    }

    /// Returns the plan of an application over TCP, whose flows are not yet known; `None` for other
    /// kinds.
    pub(super) fn conversation(
        &self,
        here: &KeyPath,
        typed: &TrafficSetting,
        length: Duration,
    ) -> Result<Option<ConversationPlan>, Problem> {
        let task = match typed.kind {
            TrafficKindSetting::Fetches => self.fetches(here, typed)?,
            TrafficKindSetting::Bulk if typed.bytes == Some(0) => {
                return Err(self.problem(&here.key("bytes"), "is 0: set at least 1"));
            }
            TrafficKindSetting::Bulk => Task::Bulk(typed.bytes.map(bytes)),
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
                Some(AlgorithmSetting::NewReno) => tcp::Algorithm::NewReno,
                Some(AlgorithmSetting::Cubic) | None => tcp::Algorithm::Cubic,
            },
            segment_bytes: self.segment_bytes(here, typed)?,
            rto_initial,
            ecn: typed.ecn.unwrap_or(false),
            ..usual
        };
        Ok(Some(ConversationPlan { flows: [0; 2], task, settings, begin, end }))
    }

    fn fetches(&self, here: &KeyPath, typed: &TrafficSetting) -> Result<Task, Problem> {
        let (Some(request), Some(response)) = (typed.request, typed.response) else {
            return Err(self.problem(here, "bytes missing: set `request` and `response`"));
        };
        for (key, value) in [("request", Some(request)), ("response", Some(response)), ("count", typed.count)]
        {
            if value == Some(0) {
                return Err(self.problem(&here.key(key), "is 0: set at least 1"));
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
