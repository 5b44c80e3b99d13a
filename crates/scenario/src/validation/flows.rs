//! Validation of flows between agents.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

use byway_config_types::{KeyPath, Problem};
use byway_units::{Duration, FlowId, Probability, Rate};
use byway_wire::messages::Consent;
use byway_wire::{BlockShape, Service};

use super::conversations::{RATE, is_tcp, reverse_flow};
use super::names::{Names, matched};
use super::rates::registered_rate;
use super::{Reader, element};
use crate::flow_service::FlowService;
use crate::frames::FrameTrace;
use crate::limits::{
    DATAGRAM_BYTES_MAX, DATAGRAM_BYTES_MIN, DELAY_MAX, FLOWS_MAX, FRAME_PACKETS_MAX, INTERVAL_MIN, LENGTH_MAX,
};
use crate::raw::{
    CodingSetting, CopiesSetting, FlowSetting, ServiceSetting, TrafficKindSetting, TrafficSetting,
    TunnelTrafficSetting,
};
use crate::scenario::{
    CapturedCopies, CapturedTraffic, Coding, ConversationPlan, FlowPlan, Load, Pattern, ProgramEnds, Role,
    Traffic, Tunnel,
};

/// Default start of applications: the agents have set up sessions and flows by then.
const BEGIN: Duration = Duration::from_secs(2);

/// Default time from the end of applications to the end of the scenario: the last repairs arrive in
/// this time.
const LAST: Duration = Duration::from_secs(1);

/// Default latency budget: that of a call (ITU-T G.114: up to 400 ms, and less than half of that to
/// be good).
const BUDGET: Duration = Duration::from_millis(200);

/// Mean length of a talkspurt in a conversation (ITU-T P.59, table 1).
const SPURT: Duration = Duration::from_millis(1_004);
/// Mean length of a pause in a conversation (ITU-T P.59, table 1).
const PAUSE: Duration = Duration::from_millis(1_587);

/// Interval between the frames of voice, as of Opus.
const VOICE_INTERVAL: Duration = Duration::from_millis(20);
/// Length of a voice datagram, in bytes: 60 of Opus at 24 kbit/s for 20 ms, and 12 of RTP.
const VOICE_BYTES: u32 = 72;

/// Number of flows from each machine to each other machine, from which the next one gets its
/// number, and the numbers of tunnels.
#[derive(Default)]
struct FlowNumbering {
    last: BTreeMap<(usize, usize), u16>,
    tunnels: BTreeMap<(usize, usize, String), FlowId>,
}

impl FlowNumbering {
    /// Returns the number of a flow: the next one, or that of its tunnel.
    fn number(&mut self, from: usize, to: usize, tunnel: Option<&Tunnel>) -> FlowId {
        let Some(tunnel) = tunnel else {
            return self.next(from, to);
        };
        let key = (from, to, tunnel.name.clone());
        if let Some(number) = self.tunnels.get(&key) {
            return *number;
        }
        let number = self.next(from, to);
        self.tunnels.insert(key, number);
        number
    }

    fn next(&mut self, from: usize, to: usize) -> FlowId {
        let number = self.last.entry((from, to)).or_default();
        *number = number.saturating_add(1);
        FlowId::new(*number)
    }
}

/// Addresses at which programs use flows, in use until now; each belongs to one flow.
#[derive(Default)]
struct ProgramEndpoints {
    listening: BTreeSet<(usize, SocketAddr)>,
    captured: BTreeSet<(usize, usize)>,
}

impl ProgramEndpoints {
    fn reserve(
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
                let message = format!("another flow listens at {at} in {name}: use another port");
                Err(reader.problem(&here.key("sends").key("listen"), message))
            }
            Load::Captured(_) if !self.captured.insert((from, to)) => {
                let (from, to) = (names.name(from), names.name(to));
                let message = format!(
                    "another flow is captured from {from} to {to}: merge the two, with the ports of both"
                );
                Err(reader.problem(&here.key("sends").key("kind"), message))
            }
            _ => Ok(()),
        }
    }
}

impl Reader<'_> {
    pub(super) fn flows(
        &self,
        typed: &[FlowSetting],
        names: &Names,
        length: Duration,
    ) -> Result<(Vec<FlowPlan>, Vec<ConversationPlan>), Problem> {
        let (mut flows, mut conversations) = (Vec::new(), Vec::new());
        let (mut numbers, mut ends) = (FlowNumbering::default(), ProgramEndpoints::default());
        for (index, flow) in typed.iter().enumerate() {
            let here = element("flow", index);
            if typed[..index].iter().any(|before| before.name == flow.name) {
                let message = format!("duplicate name {:?}: give each flow its own", flow.name);
                return Err(self.problem(&here.key("name"), message));
            }
            let plan = FlowPlan { group: index, ..self.flow(&here, flow, names, length)? };
            let conversation = self.conversation(&here.key("sends"), &flow.sends, length)?;
            for (from, to) in self.between(&here, flow, names)? {
                self.check_bare(&here, flow, names, [from, to])?;
                for _ in 0..flow.count.unwrap_or(1) {
                    ends.reserve(self, &here, &plan.load, (from, to), names)?;
                    let number = numbers.number(from, to, plan.tunnel.as_ref());
                    flows.push(FlowPlan { from, to, number, ..plan.clone() });
                    if let Some(conversation) = conversation {
                        let number = numbers.number(to, from, plan.tunnel.as_ref());
                        let back = FlowPlan { from: to, to: from, number, ..plan.clone() };
                        flows.push(reverse_flow(back, flow.back.unwrap_or_default()));
                        let flows = [flows.len() - 2, flows.len() - 1];
                        conversations.push(ConversationPlan { flows, ..conversation });
                    }
                    if flows.len() > FLOWS_MAX {
                        let message = format!("too many flows: at most {FLOWS_MAX}");
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
        flow: &FlowSetting,
        names: &Names,
    ) -> Result<Vec<(usize, usize)>, Problem> {
        let from = names.of_role(self, &here.key("from"), &flow.from, Role::Agent)?;
        let to = names.of_role(self, &here.key("to"), &flow.to, Role::Agent)?;
        let pairs = matched(from, to).map_err(|message| self.problem(&here.key("to"), message))?;
        if pairs.iter().any(|(from, to)| from == to) {
            return Err(self.problem(&here.key("to"), "same machine as `from`: name another one"));
        }
        Ok(pairs)
    }

    /// Checks that a flow of a machine without Byway is between two of these, and has no service.
    fn check_bare(
        &self,
        here: &KeyPath,
        flow: &FlowSetting,
        names: &Names,
        ends: [usize; 2],
    ) -> Result<(), Problem> {
        let is_bare = ends.map(|end| names.all()[end].bare.is_some());
        if is_bare == [false; 2] {
            return Ok(());
        }
        if is_bare != [true; 2] {
            let message = "one of the two machines is `bare`: set it for both, or for none";
            return Err(self.problem(&here.key("to"), message));
        }
        let of_back = flow.back.and_then(|back| back.service);
        let is_served = |service: Option<ServiceSetting>| service != Some(ServiceSetting::Internet);
        if is_served(flow.service) || (of_back.is_some() && is_served(of_back)) {
            let message = "not possible between `bare` machines: set service \"internet\"";
            return Err(self.problem(&here.key("service"), message));
        }
        Ok(())
    }

    /// Returns the plan of a flow from its settings; the caller adds sender, receiver and flow
    /// number.
    fn flow(
        &self,
        here: &KeyPath,
        flow: &FlowSetting,
        names: &Names,
        length: Duration,
    ) -> Result<FlowPlan, Problem> {
        self.no_longer_than(&here.key("budget"), flow.budget.map(|budget| budget.0), DELAY_MAX)?;
        if flow.count == Some(0) {
            return Err(self.problem(&here.key("count"), "is 0: omit the flow instead"));
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
        let shape =
            |typed: Option<byway_config_types::ShapeSetting>, default| typed.map_or(default, |shape| shape.0);
        Ok(FlowPlan {
            group: 0,
            name: flow.name.clone(),
            from: 0,
            to: 0,
            number: FlowId::new(0),
            service: service(flow.service.unwrap_or(ServiceSetting::Caching)),
            location: self.source.location(here),
            via,
            budget: flow.budget.map_or(BUDGET, |budget| budget.0),
            in_stream: shape(flow.in_stream, BlockShape::new(5, 1)),
            batch: shape(flow.batch, BlockShape::new(8, 2)),
            coding: coding(flow.coding.unwrap_or_default()),
            tunnel: self.tunnel(here, flow)?,
            load: self.load(here, flow, length)?,
        })
    }

    /// Returns the name of a flow's tunnel, which is copied whole.
    fn tunnel(&self, here: &KeyPath, flow: &FlowSetting) -> Result<Option<Tunnel>, Problem> {
        let of_programs =
            matches!(flow.sends.kind, TrafficKindSetting::Command | TrafficKindSetting::Captured);
        let message = match &flow.tunnel {
            Some(_) if of_programs => "not allowed for this `kind`: omit it",
            Some(_) if flow.copies.is_some() => "conflicts with `copies`: omit one of them",
            None => return Ok(None),
            Some(tunnel) => {
                let is_mixture = tunnel.traffic.unwrap_or_default() == TunnelTrafficSetting::Mixture;
                return Ok(Some(Tunnel { name: tunnel.name.clone(), is_mixture }));
            }
        };
        Err(self.problem(&here.key("tunnel"), message))
    }

    fn load(&self, here: &KeyPath, flow: &FlowSetting, length: Duration) -> Result<Load, Problem> {
        let sends = here.key("sends");
        self.check_keys(&sends, &flow.sends)?;
        if is_tcp(flow.sends.kind) {
            return self.segments(&sends, flow).map(Load::Segments);
        }
        let is_captured = flow.sends.kind == TrafficKindSetting::Captured;
        for (key, is_given) in
            [("copies", flow.copies.is_some() && !is_captured), ("back", flow.back.is_some())]
        {
            if is_given {
                let message = "only allowed for TCP: omit it, or send `fetches` or `bulk`";
                return Err(self.problem(&here.key(key), message));
            }
        }
        if flow.sends.kind == TrafficKindSetting::Command {
            return self.program_ends(&sends, &flow.sends).map(Load::Programs);
        }
        if is_captured {
            return self.captured(&sends, flow).map(Load::Captured);
        }
        self.traffic(&sends, &flow.sends, length).map(Load::Datagrams)
    }

    fn captured(&self, here: &KeyPath, flow: &FlowSetting) -> Result<CapturedTraffic, Problem> {
        let Some(ports) = flow.sends.ports.clone().filter(|ports| !ports.is_empty()) else {
            return Err(self.problem(here, "ports to capture missing: set `ports`, as in [\"tcp:80\"]"));
        };
        let copies = match flow.copies {
            None => CapturedCopies::Usual,
            Some(CopiesSetting::All) => CapturedCopies::All,
            Some(CopiesSetting::Marked) => CapturedCopies::Ends,
            Some(CopiesSetting::Syn) => CapturedCopies::Syn,
            Some(CopiesSetting::SynAck) => CapturedCopies::SynAck,
        };
        Ok(CapturedTraffic { ports, copies, rate: self.rate_of_programs(here, &flow.sends)? })
    }

    fn rate_of_programs(&self, here: &KeyPath, typed: &TrafficSetting) -> Result<Rate, Problem> {
        let rate = typed.rate.map_or(RATE, |rate| rate.0);
        if rate.is_zero() {
            return Err(self.problem(&here.key("rate"), "is 0: set the rate that the flow needs"));
        }
        Ok(rate)
    }

    fn program_ends(&self, here: &KeyPath, typed: &TrafficSetting) -> Result<ProgramEnds, Problem> {
        let (Some(listen), Some(target)) = (typed.listen, typed.target) else {
            return Err(self.problem(here, "addresses of programs missing: set `listen` and `target`"));
        };
        let is_within = |address: SocketAddr| address.ip().is_loopback() && address.port() != 0;
        for (key, address) in [("listen", listen), ("target", target)] {
            if !is_within(address) {
                let message =
                    format!("{address} is not a port within a machine: write one as in \"127.0.0.1:5000\"");
                return Err(self.problem(&here.key(key), message));
            }
        }
        Ok(ProgramEnds { listen, target, rate: self.rate_of_programs(here, typed)? })
    }

    fn traffic(&self, here: &KeyPath, typed: &TrafficSetting, length: Duration) -> Result<Traffic, Problem> {
        let is_voice = typed.kind == TrafficKindSetting::Voice;
        let every = match typed.every {
            Some(every) => every.0,
            None if is_voice => VOICE_INTERVAL,
            None => return Err(self.problem(here, "interval missing: set `every`")),
        };
        if every < INTERVAL_MIN {
            return Err(self.problem(&here.key("every"), format!("is too short: at least {INTERVAL_MIN}")));
        }
        let bytes = match typed.bytes {
            Some(bytes) => bytes,
            None if is_voice => VOICE_BYTES,
            None => return Err(self.problem(here, "length of datagrams missing: set `bytes`")),
        };
        if !(DATAGRAM_BYTES_MIN..=DATAGRAM_BYTES_MAX).contains(&bytes) {
            let message = format!("{bytes} is out of range: {DATAGRAM_BYTES_MIN} to {DATAGRAM_BYTES_MAX}");
            return Err(self.problem(&here.key("bytes"), message));
        }
        let (begin, end) = self.time_of(here, typed, length)?;
        if end - begin < every {
            let message =
                format!("from {begin} to {end} is too short for one packet every {every}: set a longer time");
            return Err(self.problem(here, message));
        }
        let pattern = self.pattern(here, typed, every)?;
        let bytes = bytes as usize;
        let rate = registered_rate(&pattern, every, bytes);
        Ok(Traffic { pattern, every, bytes, rate, begin, end })
    }

    /// Returns the start and the end of an application.
    pub(super) fn time_of(
        &self,
        here: &KeyPath,
        typed: &TrafficSetting,
        length: Duration,
    ) -> Result<(Duration, Duration), Problem> {
        let begin = typed.begin.map_or(BEGIN.min(length), |begin| begin.0);
        let end = typed.end.map_or(length.saturating_sub(LAST).max(begin), |end| end.0);
        if begin > end || end > length {
            let message = format!("from {begin} to {end} is not within the {length} of the scenario");
            return Err(self.problem(here, message));
        }
        Ok((begin, end))
    }

    fn pattern(&self, here: &KeyPath, typed: &TrafficSetting, every: Duration) -> Result<Pattern, Problem> {
        match typed.kind {
            TrafficKindSetting::Steady => Ok(Pattern::Steady),
            TrafficKindSetting::Voice => Ok(Pattern::Voice { spurt: SPURT, pause: PAUSE }),
            TrafficKindSetting::OnOff => match (typed.on, typed.off) {
                (Some(on), Some(off)) if typed.every.is_some_and(|every| on.0 >= every.0) => {
                    self.no_longer_than(here, [on.0, off.0], LENGTH_MAX)?;
                    Ok(Pattern::OnOff { on: on.0, off: off.0 })
                }
                _ => Err(self.problem(here, "times missing: set `on`, of at least `every`, and `off`")),
            },
            TrafficKindSetting::Frames => self.frames(here, typed, every),
            TrafficKindSetting::Fetches
            | TrafficKindSetting::Bulk
            | TrafficKindSetting::Command
            | TrafficKindSetting::Captured => {
                unreachable!("neither TCP nor programs have a calendar")
            }
        }
    }

    fn frames(&self, here: &KeyPath, typed: &TrafficSetting, every: Duration) -> Result<Pattern, Problem> {
        match (typed.packets, &typed.file) {
            (Some(_), Some(_)) => {
                Err(self.problem(&here.key("file"), "conflicts with `packets`: omit one of them"))
            }
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
                        "is too small: a frame of the file needs {packets} packets, at most \
                         {FRAME_PACKETS_MAX}"
                    );
                    return Err(self.problem(&here.key("bytes"), message));
                }
                Ok(Pattern::Video { frames, spread: part(every, pace) })
            }
            (None, None) => {
                Err(self.problem(here, "length of frames missing: set `packets`, or a `file` of sizes"))
            }
        }
    }

    /// Checks that all keys of a traffic table are valid for its kind.
    fn check_keys(&self, here: &KeyPath, typed: &TrafficSetting) -> Result<(), Problem> {
        let is = |kind| typed.kind == kind;
        let (fetches, bulk) = (is(TrafficKindSetting::Fetches), is(TrafficKindSetting::Bulk));
        let (of_tcp, captured) = (fetches || bulk, is(TrafficKindSetting::Captured));
        let of_command = is(TrafficKindSetting::Command);
        let of_programs = of_command || captured;
        let keys = [
            ("every", typed.every.is_some(), !of_tcp && !of_programs),
            ("bytes", typed.bytes.is_some(), !fetches && !of_programs),
            ("packets", typed.packets.is_some(), is(TrafficKindSetting::Frames)),
            ("file", typed.file.is_some(), is(TrafficKindSetting::Frames)),
            ("pace", typed.pace.is_some(), is(TrafficKindSetting::Frames) && typed.file.is_some()),
            ("on", typed.on.is_some(), is(TrafficKindSetting::OnOff)),
            ("off", typed.off.is_some(), is(TrafficKindSetting::OnOff)),
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
            Some((key, ..)) => Err(self.problem(&here.key(key), "not allowed for this `kind`: omit it")),
            None => Ok(()),
        }
    }
}

/// Returns this share of a time.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "a part of a time that fits"
)]
fn part(time: Duration, share: Probability) -> Duration {
    Duration::from_nanos((time.as_nanos() as f64 * share.value()) as u64)
}

fn coding(setting: CodingSetting) -> Coding {
    Coding {
        redundancy: setting.redundancy.unwrap_or_default(),
        consent: setting.consent.map(|share| consent(share.0)),
    }
}

/// Returns a consent that limits what receivers return to a share of the rate in any second: agents
/// allow a burst, which an experiment of two minutes would never exhaust.
fn consent(share: Probability) -> Consent {
    let long_run = byway_proto::consent(share);
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a share is between 0 and 1")]
    let burst_percent = (share.value() * 100.0).ceil() as u8;
    Consent { burst_percent, seconds: 1, ..long_run }
}

pub(super) const fn service(typed: ServiceSetting) -> FlowService {
    FlowService::Named(match typed {
        ServiceSetting::Auto => return FlowService::Automatic,
        ServiceSetting::Internet => Service::Internet,
        ServiceSetting::Coding => Service::Coding,
        ServiceSetting::Caching => Service::Caching,
        ServiceSetting::Forwarding => Service::Forwarding,
        ServiceSetting::Both => Service::Both,
        ServiceSetting::Pull => Service::Pull,
        ServiceSetting::Retransmission => Service::Retransmission,
    })
}
