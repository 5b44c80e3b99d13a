//! What agents send each other.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

use byway_typed::{KeyPath, Problem};
use byway_units::{Duration, FlowId, Probability, Rate};
use byway_wire::messages::Consent;
use byway_wire::{BlockShape, Service};

use super::conversations::{RATE, is_tcp, turned};
use super::names::{Names, matched};
use super::rates::registered_rate;
use super::{Reader, element};
use crate::frames::FrameTrace;
use crate::limits::{
    DATAGRAM_BYTES_MAX, DATAGRAM_BYTES_MIN, DELAY_MAX, FLOWS_MAX, FRAME_PACKETS_MAX, INTERVAL_MIN, LENGTH_MAX,
};
use crate::scenario::{
    CapturedCopies, CapturedTraffic, ConversationPlan, FlowPlan, Load, Pattern, ProgramEnds, Role, Traffic,
};
use crate::typed::{TypedCopies, TypedFlow, TypedService, TypedTraffic, TypedTrafficKind};

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

/// The numbers of flows between two agents, from 1.
#[derive(Default)]
struct Numbers(BTreeMap<(usize, usize), u16>);

impl Numbers {
    fn next(&mut self, from: usize, to: usize) -> FlowId {
        let number = self.0.entry((from, to)).or_default();
        *number = number.saturating_add(1);
        FlowId::new(*number)
    }
}

/// Where programs reach flows, each of which is one flow's alone.
#[derive(Default)]
struct Ends {
    listening: BTreeSet<(usize, SocketAddr)>,
    captured: BTreeSet<(usize, usize)>,
}

impl Ends {
    fn take(
        &mut self,
        reader: &Reader<'_>,
        here: &KeyPath,
        load: &Load,
        (from, to): (usize, usize),
        names: &Names,
    ) -> Result<(), Problem> {
        match load {
            Load::Programs(ends) if !self.listening.insert((from, ends.listen)) => {
                let (at, name) = (ends.listen, names.name(from));
                let message = format!("another flow listens at {at} in {name}: take another port");
                Err(reader.problem(&here.key("sends").key("listen"), message))
            }
            Load::Captured(_) if !self.captured.insert((from, to)) => {
                let (from, to) = (names.name(from), names.name(to));
                let message =
                    format!("another flow is captured from {from} to {to}: have one, with the ports of both");
                Err(reader.problem(&here.key("sends").key("kind"), message))
            }
            _ => Ok(()),
        }
    }
}

impl Reader<'_> {
    pub(super) fn flows(
        &self,
        typed: &[TypedFlow],
        names: &Names,
        length: Duration,
    ) -> Result<(Vec<FlowPlan>, Vec<ConversationPlan>), Problem> {
        let (mut flows, mut conversations) = (Vec::new(), Vec::new());
        let (mut numbers, mut ends) = (Numbers::default(), Ends::default());
        for (place, flow) in typed.iter().enumerate() {
            let here = element("flow", place);
            if typed[..place].iter().any(|before| before.name == flow.name) {
                let message = format!("another flow is called {:?}: names differ", flow.name);
                return Err(self.problem(&here.key("name"), message));
            }
            let plan = FlowPlan { group: place, ..self.flow(&here, flow, names, length)? };
            let conversation = self.conversation(&here.key("sends"), &flow.sends, length)?;
            for (from, to) in self.between(&here, flow, names)? {
                for _ in 0..flow.count.unwrap_or(1) {
                    ends.take(self, &here, &plan.load, (from, to), names)?;
                    let forth = FlowPlan { from, to, number: numbers.next(from, to), ..plan.clone() };
                    flows.push(forth);
                    if let Some(conversation) = conversation {
                        let back =
                            FlowPlan { from: to, to: from, number: numbers.next(to, from), ..plan.clone() };
                        flows.push(turned(back, flow.back.unwrap_or_default()));
                        let flows = [flows.len() - 2, flows.len() - 1];
                        conversations.push(ConversationPlan { flows, ..conversation });
                    }
                    if flows.len() > FLOWS_MAX {
                        let message = format!("there are more than {FLOWS_MAX} flows: have fewer");
                        return Err(self.problem(&here, message));
                    }
                }
            }
        }
        Ok((flows, conversations))
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
            consent: flow.consent.map(|share| consent(share.0)),
            load: self.load(here, flow, length)?,
        })
    }

    fn load(&self, here: &KeyPath, flow: &TypedFlow, length: Duration) -> Result<Load, Problem> {
        let sends = here.key("sends");
        self.check_keys(&sends, &flow.sends)?;
        if is_tcp(flow.sends.kind) {
            return self.segments(&sends, flow).map(Load::Segments);
        }
        let is_captured = flow.sends.kind == TypedTrafficKind::Captured;
        for (key, is_given) in
            [("copies", flow.copies.is_some() && !is_captured), ("back", flow.back.is_some())]
        {
            if is_given {
                let message = "is of TCP: leave it out, or send `fetches` or `bulk`";
                return Err(self.problem(&here.key(key), message));
            }
        }
        if flow.sends.kind == TypedTrafficKind::Command {
            return self.program_ends(&sends, &flow.sends).map(Load::Programs);
        }
        if is_captured {
            return self.captured(&sends, flow).map(Load::Captured);
        }
        self.traffic(&sends, &flow.sends, length).map(Load::Datagrams)
    }

    fn captured(&self, here: &KeyPath, flow: &TypedFlow) -> Result<CapturedTraffic, Problem> {
        let Some(ports) = flow.sends.ports.clone().filter(|ports| !ports.is_empty()) else {
            return Err(self.problem(here, "says not what is captured: give `ports`, as in [\"tcp:80\"]"));
        };
        let copies = match flow.copies {
            None => CapturedCopies::Usual,
            Some(TypedCopies::All) => CapturedCopies::All,
            Some(TypedCopies::Marked) => CapturedCopies::Ends,
            Some(TypedCopies::Syn) => CapturedCopies::Syn,
            Some(TypedCopies::SynAck) => CapturedCopies::SynAck,
        };
        Ok(CapturedTraffic { ports, copies, rate: self.rate_of_programs(here, &flow.sends)? })
    }

    fn rate_of_programs(&self, here: &KeyPath, typed: &TypedTraffic) -> Result<Rate, Problem> {
        let rate = typed.rate.map_or(RATE, |rate| rate.0);
        if rate.is_zero() {
            return Err(self.problem(&here.key("rate"), "is 0: give what the flow needs"));
        }
        Ok(rate)
    }

    fn program_ends(&self, here: &KeyPath, typed: &TypedTraffic) -> Result<ProgramEnds, Problem> {
        let (Some(listen), Some(target)) = (typed.listen, typed.target) else {
            return Err(self.problem(here, "says not where programs are: give `listen` and `target`"));
        };
        let is_within = |address: SocketAddr| address.ip().is_loopback() && address.port() != 0;
        for (key, address) in [("listen", listen), ("target", target)] {
            if !is_within(address) {
                let message =
                    format!("{address} is no port within a machine: write one as in \"127.0.0.1:5000\"");
                return Err(self.problem(&here.key(key), message));
            }
        }
        Ok(ProgramEnds { listen, target, rate: self.rate_of_programs(here, typed)? })
    }

    fn traffic(&self, here: &KeyPath, typed: &TypedTraffic, length: Duration) -> Result<Traffic, Problem> {
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
        let (begin, end) = self.time_of(here, typed, length)?;
        if end - begin < every {
            let message = format!("from {begin} to {end} nothing is sent every {every}: give it more time");
            return Err(self.problem(here, message));
        }
        let pattern = self.pattern(here, typed, every)?;
        let bytes = bytes as usize;
        let rate = registered_rate(&pattern, every, bytes);
        Ok(Traffic { pattern, every, bytes, rate, begin, end })
    }

    /// When an application begins and ends.
    pub(super) fn time_of(
        &self,
        here: &KeyPath,
        typed: &TypedTraffic,
        length: Duration,
    ) -> Result<(Duration, Duration), Problem> {
        let begin = typed.begin.map_or(BEGIN.min(length), |begin| begin.0);
        let end = typed.end.map_or(length.saturating_sub(LAST).max(begin), |end| end.0);
        if begin > end || end > length {
            let message = format!("from {begin} to {end} is no time within the {length} of the scenario");
            return Err(self.problem(here, message));
        }
        Ok((begin, end))
    }

    fn pattern(&self, here: &KeyPath, typed: &TypedTraffic, every: Duration) -> Result<Pattern, Problem> {
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
            TypedTrafficKind::Frames => self.frames(here, typed, every),
            TypedTrafficKind::Fetches
            | TypedTrafficKind::Bulk
            | TypedTrafficKind::Command
            | TypedTrafficKind::Captured => {
                unreachable!("neither TCP nor programs have a calendar")
            }
        }
    }

    fn frames(&self, here: &KeyPath, typed: &TypedTraffic, every: Duration) -> Result<Pattern, Problem> {
        match (typed.packets, &typed.file) {
            (Some(_), Some(_)) => Err(self.problem(&here.key("file"), "says all: leave `packets` out")),
            (Some(packets), None) if (1..=FRAME_PACKETS_MAX).contains(&packets) => {
                Ok(Pattern::Frames { packets })
            }
            (Some(packets), None) => {
                let message = format!("{packets} is out of range: 1 to {FRAME_PACKETS_MAX}");
                Err(self.problem(&here.key("packets"), message))
            }
            (None, Some(file)) => {
                let frames = self.trace(&here.key("file"), file, FrameTrace::parse)?;
                let pace = typed.pace.map_or(Probability::ZERO, |pace| pace.0);
                let packets = frames.bytes_max().div_ceil(typed.bytes.unwrap_or(DATAGRAM_BYTES_MAX).max(1));
                if packets > FRAME_PACKETS_MAX {
                    let message = format!(
                        "is too short: a frame of the file has {packets} of them, at most {FRAME_PACKETS_MAX}"
                    );
                    return Err(self.problem(&here.key("bytes"), message));
                }
                Ok(Pattern::Video { frames, spread: part(every, pace) })
            }
            (None, None) => {
                Err(self.problem(here, "says not how long frames are: give `packets`, or a `file` of sizes"))
            }
        }
    }

    /// That no key is there that this kind has no use for.
    fn check_keys(&self, here: &KeyPath, typed: &TypedTraffic) -> Result<(), Problem> {
        let is = |kind| typed.kind == kind;
        let (fetches, bulk) = (is(TypedTrafficKind::Fetches), is(TypedTrafficKind::Bulk));
        let (of_tcp, captured) = (fetches || bulk, is(TypedTrafficKind::Captured));
        let of_command = is(TypedTrafficKind::Command);
        let of_programs = of_command || captured;
        let keys = [
            ("every", typed.every.is_some(), !of_tcp && !of_programs),
            ("bytes", typed.bytes.is_some(), !fetches && !of_programs),
            ("packets", typed.packets.is_some(), is(TypedTrafficKind::Frames)),
            ("file", typed.file.is_some(), is(TypedTrafficKind::Frames)),
            ("pace", typed.pace.is_some(), is(TypedTrafficKind::Frames) && typed.file.is_some()),
            ("on", typed.on.is_some(), is(TypedTrafficKind::OnOff)),
            ("off", typed.off.is_some(), is(TypedTrafficKind::OnOff)),
            ("request", typed.request.is_some(), fetches),
            ("response", typed.response.is_some(), fetches),
            ("count", typed.count.is_some(), fetches),
            ("pause", typed.pause.is_some(), fetches),
            ("segment", typed.segment.is_some(), of_tcp),
            ("algorithm", typed.algorithm.is_some(), of_tcp),
            ("first_timeout", typed.first_timeout.is_some(), of_tcp),
            ("ecn", typed.ecn.is_some(), of_tcp),
            ("rate", typed.rate.is_some(), of_tcp || of_programs),
            ("listen", typed.listen.is_some(), of_command),
            ("target", typed.target.is_some(), of_command),
            ("ports", typed.ports.is_some(), captured),
            ("begin", typed.begin.is_some(), !of_programs),
            ("end", typed.end.is_some(), !bulk && !of_programs),
        ];
        match keys.into_iter().find(|(_, is_given, is_used)| *is_given && !is_used) {
            Some((key, ..)) => {
                Err(self.problem(&here.key(key), "means nothing for this `kind`: leave it out"))
            }
            None => Ok(()),
        }
    }
}

/// A share of a time.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "a part of a time that fits"
)]
fn part(time: Duration, share: Probability) -> Duration {
    Duration::from_nanos((time.as_nanos() as f64 * share.value()) as u64)
}

#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a probability is between 0 and 1"
)]
fn consent(share: Probability) -> Consent {
    let per_mille = (share.value() * 1_000.0).round() as u16;
    let percent = (share.value() * 100.0).ceil() as u8;
    Consent { burst_percent: percent, average_per_mille: per_mille, seconds: 1 }
}

pub(super) const fn service(typed: TypedService) -> Service {
    match typed {
        TypedService::Internet => Service::Internet,
        TypedService::Coding => Service::Coding,
        TypedService::Caching => Service::Caching,
        TypedService::Forwarding => Service::Forwarding,
        TypedService::Both => Service::Both,
    }
}
