//! What agents send each other.

use std::collections::BTreeMap;

use byway_typed::{KeyPath, Problem};
use byway_units::{Duration, FlowId};
use byway_wire::{BlockShape, Service};

use super::names::{Names, matched};
use super::{Reader, element};
use crate::limits::{
    DATAGRAM_BYTES_MAX, DATAGRAM_BYTES_MIN, DELAY_MAX, FLOWS_MAX, FRAME_PACKETS_MAX, INTERVAL_MIN, LENGTH_MAX,
};
use crate::scenario::{FlowPlan, Pattern, Role, Traffic};
use crate::typed::{TypedFlow, TypedService, TypedTraffic, TypedTrafficKind};

/// When applications begin, unless they are told otherwise: sessions and flows are set up by then.
const BEGIN: Duration = Duration::from_secs(2);

/// How long before the end applications stop, unless they are told otherwise: the last repairs come in this time.
const LAST: Duration = Duration::from_secs(1);

/// What a call bears (ITU-T G.114: up to 400 ms, and less than half of that to be good).
const BUDGET: Duration = Duration::from_millis(200);

/// Talkspurts and pauses of a conversation in the mean (ITU-T P.59, table 1).
const SPURT: Duration = Duration::from_millis(1_004);
/// See [`SPURT`].
const PAUSE: Duration = Duration::from_millis(1_587);

/// A frame of voice: 60 bytes of Opus at 24 kbit/s, and 12 of RTP.
const VOICE_INTERVAL: Duration = Duration::from_millis(20);
/// See [`VOICE_INTERVAL`].
const VOICE_BYTES: u32 = 72;

impl Reader<'_> {
    pub(super) fn flows(
        &self,
        typed: &[TypedFlow],
        names: &Names,
        length: Duration,
    ) -> Result<Vec<FlowPlan>, Problem> {
        let mut flows = Vec::new();
        let mut numbers: BTreeMap<(usize, usize), u16> = BTreeMap::new();
        for (place, flow) in typed.iter().enumerate() {
            let here = element("flow", place);
            if typed[..place].iter().any(|before| before.name == flow.name) {
                let message = format!("another flow is called {:?}: names differ", flow.name);
                return Err(self.problem(&here.key("name"), message));
            }
            let plan = self.flow(&here, flow, names, length)?;
            for (from, to) in self.between(&here, flow, names)? {
                for _ in 0..flow.count.unwrap_or(1) {
                    let number = numbers.entry((from, to)).or_default();
                    *number = number.saturating_add(1);
                    let number = FlowId::new(*number);
                    flows.push(FlowPlan { group: place, from, to, number, ..plan.clone() });
                    if flows.len() > FLOWS_MAX {
                        let message = format!("there are more than {FLOWS_MAX} flows: have fewer");
                        return Err(self.problem(&here, message));
                    }
                }
            }
        }
        Ok(flows)
    }

    fn between(
        &self,
        here: &KeyPath,
        flow: &TypedFlow,
        names: &Names,
    ) -> Result<Vec<(usize, usize)>, Problem> {
        let from = names.of_role(self, &here.key("from"), &flow.from, Role::Agent)?;
        let to = names.of_role(self, &here.key("to"), &flow.to, Role::Agent)?;
        let pairs = matched(from, to).map_err(|message| self.problem(&here.key("to"), message))?;
        if pairs.iter().any(|(from, to)| from == to) {
            return Err(self.problem(&here.key("to"), "a machine sends nothing to itself: name another one"));
        }
        Ok(pairs)
    }

    /// A flow between nobody yet.
    fn flow(
        &self,
        here: &KeyPath,
        flow: &TypedFlow,
        names: &Names,
        length: Duration,
    ) -> Result<FlowPlan, Problem> {
        self.no_longer_than(&here.key("budget"), flow.budget.map(|budget| budget.0), DELAY_MAX)?;
        if flow.count == Some(0) {
            return Err(self.problem(&here.key("count"), "is 0: leave the flow out instead"));
        }
        let via = match &flow.via {
            None => None,
            Some(via) => {
                let path = here.key("via");
                let [ingress, egress] =
                    [&via[0], &via[1]].map(|name| names.one_of_role(self, &path, name, Role::Relay));
                Some((ingress?, egress?))
            }
        };
        let shape = |typed: Option<byway_typed::TypedShape>, default| typed.map_or(default, |shape| shape.0);
        Ok(FlowPlan {
            group: 0,
            name: flow.name.clone(),
            from: 0,
            to: 0,
            number: FlowId::new(0),
            service: service(flow.service.unwrap_or(TypedService::Caching)),
            place: self.source.place(here),
            via,
            budget: flow.budget.map_or(BUDGET, |budget| budget.0),
            in_stream: shape(flow.in_stream, BlockShape::new(5, 1)),
            batch: shape(flow.batch, BlockShape::new(8, 2)),
            is_on_standby: flow.standby.unwrap_or(false),
            traffic: self.traffic(&here.key("sends"), &flow.sends, length)?,
        })
    }

    fn traffic(&self, here: &KeyPath, typed: &TypedTraffic, length: Duration) -> Result<Traffic, Problem> {
        self.check_keys(here, typed)?;
        let is_voice = typed.kind == TypedTrafficKind::Voice;
        let every = match typed.every {
            Some(every) => every.0,
            None if is_voice => VOICE_INTERVAL,
            None => return Err(self.problem(here, "says not how often: give `every`")),
        };
        if every < INTERVAL_MIN {
            return Err(self.problem(&here.key("every"), format!("is too short: at least {INTERVAL_MIN}")));
        }
        let bytes = match typed.bytes {
            Some(bytes) => bytes,
            None if is_voice => VOICE_BYTES,
            None => return Err(self.problem(here, "says not how long datagrams are: give `bytes`")),
        };
        if !(DATAGRAM_BYTES_MIN..=DATAGRAM_BYTES_MAX).contains(&bytes) {
            let message = format!("{bytes} is out of range: {DATAGRAM_BYTES_MIN} to {DATAGRAM_BYTES_MAX}");
            return Err(self.problem(&here.key("bytes"), message));
        }
        let begin = typed.begin.map_or(BEGIN.min(length), |begin| begin.0);
        let end = typed.end.map_or(length.saturating_sub(LAST).max(begin), |end| end.0);
        if begin > end || end > length {
            let message = format!("from {begin} to {end} is no time within the {length} of the scenario");
            return Err(self.problem(here, message));
        }
        if end - begin < every {
            let message = format!("from {begin} to {end} nothing is sent every {every}: give it more time");
            return Err(self.problem(here, message));
        }
        Ok(Traffic { pattern: self.pattern(here, typed)?, every, bytes: bytes as usize, begin, end })
    }

    fn pattern(&self, here: &KeyPath, typed: &TypedTraffic) -> Result<Pattern, Problem> {
        match typed.kind {
            TypedTrafficKind::Steady => Ok(Pattern::Steady),
            TypedTrafficKind::Voice => Ok(Pattern::Talk { spurt: SPURT, pause: PAUSE }),
            TypedTrafficKind::OnOff => match (typed.on, typed.off) {
                (Some(on), Some(off)) if typed.every.is_some_and(|every| on.0 >= every.0) => {
                    self.no_longer_than(here, [on.0, off.0], LENGTH_MAX)?;
                    Ok(Pattern::OnOff { on: on.0, off: off.0 })
                }
                _ => Err(self.problem(here, "says not when: give `on`, of at least `every`, and `off`")),
            },
            TypedTrafficKind::Frames => match typed.packets {
                Some(packets) if (1..=FRAME_PACKETS_MAX).contains(&packets) => {
                    Ok(Pattern::Frames { packets })
                }
                Some(packets) => {
                    let message = format!("{packets} is out of range: 1 to {FRAME_PACKETS_MAX}");
                    Err(self.problem(&here.key("packets"), message))
                }
                None => Err(self.problem(here, "says not how long frames are: give `packets`")),
            },
        }
    }

    /// That no key is there that this kind has no use for.
    fn check_keys(&self, here: &KeyPath, typed: &TypedTraffic) -> Result<(), Problem> {
        let is = |kind| typed.kind == kind;
        let keys = [
            ("packets", typed.packets.is_some(), is(TypedTrafficKind::Frames)),
            ("on", typed.on.is_some(), is(TypedTrafficKind::OnOff)),
            ("off", typed.off.is_some(), is(TypedTrafficKind::OnOff)),
        ];
        match keys.into_iter().find(|(_, is_given, is_used)| *is_given && !is_used) {
            Some((key, ..)) => {
                Err(self.problem(&here.key(key), "means nothing for this `kind`: leave it out"))
            }
            None => Ok(()),
        }
    }
}

const fn service(typed: TypedService) -> Service {
    match typed {
        TypedService::Internet => Service::Internet,
        TypedService::Coding => Service::Coding,
        TypedService::Caching => Service::Caching,
        TypedService::Forwarding => Service::Forwarding,
        TypedService::Both => Service::Both,
    }
}
