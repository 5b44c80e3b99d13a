//! Validated settings of flows, and of their ends: forwards and exposed resources.

use std::mem::discriminant;
use std::net::{IpAddr, SocketAddr};

use byway_config_types::{KeyPath, Problem, RedundancySetting, Source};
use byway_plan::LatencyTerms;
use byway_proto::CodingRates;
use byway_proto::agent::{Duplication, RedundancyMode, Terms, Traffic, can_use_routes, initial_service};
use byway_proto::copy_selection::Mark;
use byway_units::{Duration, Rate};
use byway_wire::{BlockShape, Service};

use super::endpoint::{Endpoint, unicast_problem};
use super::raw::{RawExpose, RawForward};
use super::raw_flow::{CopiesSetting, RawFlow, RawLatency, ServiceSetting, TrafficSetting};
use super::tunnel::{ExposedNetwork, contains, network};
use super::validated::validated_name;

/// Settings of the flows of a forward or a capture, and their peer.
#[derive(Clone, Debug)]
pub(crate) struct FlowSpec {
    /// Name of the agent at the other end.
    pub(crate) peer: String,
    /// Name of the resource to which the flows go, as the peer exposes it.
    pub(crate) to: String,
    /// Terms that this agent offers, apart from the traffic, which may depend on the packets.
    pub(crate) terms: Terms,
    /// Kind of the flows' traffic; `None` if each packet's headers determine it.
    pub(crate) traffic: Option<Traffic>,
    /// Kinds of packets that get a copy even if not all do.
    pub(crate) marks: Vec<Mark>,
}

impl PartialEq for FlowSpec {
    /// True if two settings have the same effect at both ends. Terms alone count as equal if a peer
    /// cannot distinguish them.
    fn eq(&self, other: &Self) -> bool {
        let own = |wanted: &Self| {
            let Terms { duplication, rate, latency_budget, latency, .. } = wanted.terms;
            (discriminant(&duplication), rate, latency_budget, latency)
        };
        (&self.peer, &self.to, self.traffic, &self.marks)
            == (&other.peer, &other.to, other.traffic, &other.marks)
            && self.terms == other.terms
            && own(self) == own(other)
    }
}

impl Eq for FlowSpec {}

impl FlowSpec {
    /// Returns the terms that this agent offers for flows with this kind of traffic.
    pub(crate) fn forward_terms(&self, traffic: Traffic) -> Terms {
        let Terms { service, automatic_service, duplication, .. } = self.terms;
        let service = if automatic_service { initial_service(traffic, duplication) } else { service };
        Terms { traffic, service, ..self.terms }
    }
}

/// Forward: a UDP port whose datagrams go to a resource of a peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Forward {
    pub(crate) listen: SocketAddr,
    pub(crate) spec: FlowSpec,
    /// True if the DSCP of datagrams is preserved, in both directions.
    pub(crate) keep_dscp: bool,
}

/// Resource to which peers may send: a target or a network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ExposedResource {
    pub(crate) name: String,
    pub(crate) at: ExposedKind,
    /// Names of the peers that may use the resource; `None` for all.
    pub(crate) peers: Option<Vec<String>>,
    /// True if the DSCP of datagrams is preserved, in both directions.
    pub(crate) keep_dscp: bool,
}

impl ExposedResource {
    /// Returns the resource's name in offers. Names of networks differ from those of targets,
    /// because networks accept packets, and targets accept datagrams.
    pub(crate) fn subject_name(&self) -> String {
        match self.at {
            ExposedKind::Target(_) => self.name.clone(),
            ExposedKind::Network(_) => packet_subject(&self.name, None),
        }
    }

    /// True if the resource is a network that contains the address. Other properties of packets are
    /// not considered.
    pub(crate) fn covers(&self, address: IpAddr) -> bool {
        match &self.at {
            ExposedKind::Target(_) => false,
            ExposedKind::Network(network) => contains(&network.selection.prefixes, address),
        }
    }
}

/// Returns the name of an exposed network in offers, which begins with `ip:`, unlike a target's. If
/// all packets go to one address (`only`), the name contains it. Only the peer's agent knows
/// whether its machine has that address.
pub(crate) fn packet_subject(name: &str, only: Option<IpAddr>) -> String {
    match only {
        None => format!("ip:{name}"),
        Some(address) => format!("ip:{name}:{address}"),
    }
}

/// Splits the name in an offer into the resource's name and the address that may follow it.
pub(crate) fn without_address(subject: &str) -> (String, Option<IpAddr>) {
    let packets = subject.strip_prefix("ip:").and_then(|rest| rest.split_once(':'));
    let packets = packets.and_then(|(name, address)| Some((name, address.parse().ok()?)));
    packets.map_or((subject.to_owned(), None), |(name, address)| (packet_subject(name, None), Some(address)))
}

/// Kind of an exposed resource, with its destination.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ExposedKind {
    /// Target of datagrams, by address or DNS name.
    Target(Endpoint),
    /// Network to which packets of captures go.
    Network(ExposedNetwork),
}

/// Default settings of the flows of a forward or a capture.
#[derive(Clone, Copy, Debug)]
pub(super) struct FlowDefaults<'a> {
    pub(super) rate: Rate,
    pub(super) traffic: Option<Traffic>,
    pub(super) marks: &'a [Mark],
}

/// Default settings of a forward, which has one flow for each application.
const FORWARD_DEFAULTS: FlowDefaults<'_> =
    FlowDefaults { rate: Rate::from_megabits_per_second(4), traffic: Some(Traffic::Datagrams), marks: &[] };

/// Validates the flow settings in the table at the path `here` of the file.
pub(super) fn flow_spec(
    here: &KeyPath,
    typed: &RawFlow<'_>,
    defaults: &FlowDefaults<'_>,
    source: &Source,
) -> Result<FlowSpec, Problem> {
    let rates = CodingRates {
        in_stream: typed.in_stream.map_or(BlockShape::new(16, 1), |shape| shape.0),
        batch: typed.batch.map_or(BlockShape::new(8, 2), |shape| shape.0),
    };
    if !rates.is_within_limits() {
        let message = format!(
            "at most {} repair packets of a block or batch are supported",
            byway_proto::limits::BATCH_REPAIRS_MAX
        );
        return Err(source.problem(&here.key("batch"), message));
    }
    let rate = typed.rate.map_or(defaults.rate, |rate| rate.0);
    if rate.bits_per_second() < 1_000 {
        return Err(source.problem(&here.key("rate"), "is below 1 kbit/s"));
    }
    let latency_budget = typed.latency_budget.map_or(Duration::from_millis(250), |budget| budget.0);
    if !(Duration::from_millis(1)..=Duration::from_secs(10)).contains(&latency_budget) {
        return Err(source.problem(&here.key("latency_budget"), "is out of range: 1 ms to 10 s"));
    }
    let traffic = typed.traffic.map(|traffic| match traffic {
        TrafficSetting::Datagrams => Traffic::Datagrams,
        TrafficSetting::CongestionControlled => Traffic::CongestionControlled,
        TrafficSetting::Mixture => Traffic::Mixture,
    });
    let duplication = duplication(typed.copies);
    let (service, automatic_service) = service(typed.service, duplication)
        .map_err(|problem| source.problem(&here.key("service"), problem))?;
    if typed.coded_with_other_tenants && (service, automatic_service) != (Service::Coding, false) {
        let message = "requires `service = \"coding\"`: set that, or omit this key";
        return Err(source.problem(&here.key("coded_with_other_tenants"), message));
    }
    let latency = typed.latency.map(|latency| {
        let key = here.key("latency");
        latency_terms(&key, latency, latency_budget, source).and_then(|terms| {
            let problem = latency_problem((service, automatic_service), duplication);
            problem.map_or(Ok(terms), |problem| Err(source.problem(&key, problem)))
        })
    });
    let marks = typed.marks.map(|marks| marks.iter().map(|mark| mark.0).collect());
    Ok(FlowSpec {
        peer: validated_name(&here.key("peer"), typed.peer.to_owned(), source)?,
        to: validated_name(&here.key("to"), typed.to.to_owned(), source)?,
        terms: Terms {
            service,
            rates,
            redundancy: match typed.redundancy {
                RedundancySetting::Adaptive => RedundancyMode::Adaptive,
                RedundancySetting::Fixed => RedundancyMode::Fixed,
            },
            rate,
            latency_budget,
            duplication,
            traffic: Traffic::Datagrams,
            shares: typed.coded_with_other_tenants,
            automatic_service,
            latency: latency.transpose()?,
        },
        traffic: traffic.or(defaults.traffic),
        marks: marks.unwrap_or_else(|| defaults.marks.to_vec()),
    })
}

const fn duplication(typed: CopiesSetting) -> Duplication {
    match typed {
        CopiesSetting::Usual => Duplication::Usual,
        CopiesSetting::All => Duplication::All,
        CopiesSetting::Marked => Duplication::Marked,
        CopiesSetting::ByRelay => Duplication::ByRelay,
        CopiesSetting::SenderFec => Duplication::SenderFec,
    }
}

/// Least gain for which a flow changes its path, by default. Less is hardly felt.
const LATENCY_GAIN: Duration = Duration::from_millis(10);

/// Validates the limits of a flow's latency, in the table at the path `here` of the file.
fn latency_terms(
    here: &KeyPath,
    typed: RawLatency,
    latency_budget: Duration,
    source: &Source,
) -> Result<LatencyTerms, Problem> {
    let (acceptable, gain) = (typed.acceptable.0, typed.gain.map_or(LATENCY_GAIN, |gain| gain.0));
    for (key, delay) in [("acceptable", acceptable), ("gain", gain)] {
        if !(Duration::from_millis(1)..=Duration::from_secs(10)).contains(&delay) {
            return Err(source.problem(&here.key(key), "is out of range: 1 ms to 10 s"));
        }
    }
    if acceptable > latency_budget {
        let message = format!("exceeds the latency budget of {latency_budget}: set a smaller delay");
        return Err(source.problem(&here.key("acceptable"), message));
    }
    Ok(LatencyTerms { acceptable, gain })
}

/// Returns the problem of limits of the latency together with a service, which may be automatic,
/// and a selection of copies.
fn latency_problem(
    (service, is_automatic): (Service, bool),
    duplication: Duplication,
) -> Option<&'static str> {
    if !can_use_routes(Traffic::Datagrams, duplication) {
        return Some(
            "cannot be used with such `copies`, because relays have to get all packets: omit `copies`",
        );
    }
    let is_fixed = matches!(service, Service::Internet | Service::Forwarding | Service::Both);
    (is_fixed && !is_automatic).then_some(
        "cannot be used with this `service`, which has its paths already: omit `service`, or name one \
         that repairs the direct path",
    )
}

pub(super) fn forwards(typed: &[RawForward], source: &Source) -> Result<Vec<Forward>, Problem> {
    let root = KeyPath::of("forward");
    let mut found: Vec<Forward> = Vec::new();
    for (index, typed) in typed.iter().enumerate() {
        let here = root.index(index);
        if found.iter().any(|other| other.listen == typed.listen && typed.listen.port() != 0) {
            let message =
                format!("another forward listens on {}: each needs its own address or port", typed.listen);
            return Err(source.problem(&here.key("listen"), message));
        }
        if let Some(problem) = unicast_problem(&typed.listen) {
            return Err(source.problem(&here.key("listen"), problem));
        }
        let mut wanted = flow_spec(&here, &typed.raw_flow(), &FORWARD_DEFAULTS, source)?;
        if wanted.marks.iter().any(|mark| mark.needs_headers()) {
            let message =
                "forwards see datagrams without their headers: name key frames, or use a [[capture]]";
            return Err(source.problem(&here.key("marks"), message));
        }
        wanted.traffic = wanted.traffic.map(|traffic| forward_traffic(traffic, &wanted));
        found.push(Forward {
            listen: typed.listen,
            spec: wanted,
            keep_dscp: typed.keep_dscp.unwrap_or(true),
        });
    }
    Ok(found)
}

/// Returns the kind of a forward's traffic. Without a selection of copies, congestion-controlled
/// traffic counts as a mixture. The forward could not distinguish bulk data from the rest, and
/// would copy nothing.
fn forward_traffic(traffic: Traffic, wanted: &FlowSpec) -> Traffic {
    let is_usual = matches!(wanted.terms.duplication, Duplication::Usual) && wanted.marks.is_empty();
    if is_usual && traffic == Traffic::CongestionControlled { Traffic::Mixture } else { traffic }
}

/// Returns the problem of settings that leave the agent no choice of a service.
fn automatic_service_problem(duplication: Duplication) -> Option<&'static str> {
    let is_free = matches!(duplication, Duplication::Usual | Duplication::All);
    (!is_free)
        .then_some("cannot be automatic with such `copies`, because the agent decides what to copy: omit `copies`, or name a service")
}

/// Returns the first service of a flow, and whether the agent chooses others later.
fn service(typed: Option<ServiceSetting>, duplication: Duplication) -> Result<(Service, bool), &'static str> {
    let problem = automatic_service_problem(duplication);
    match (typed, problem) {
        (Some(ServiceSetting::Auto), Some(problem)) => Err(problem),
        // The traffic decides with which service an automatic flow begins.
        (None | Some(ServiceSetting::Auto), problem) => Ok((Service::Caching, problem.is_none())),
        (Some(typed), _) => Ok((named_service(typed), false)),
    }
}

const fn named_service(typed: ServiceSetting) -> Service {
    match typed {
        ServiceSetting::Internet => Service::Internet,
        ServiceSetting::Coding => Service::Coding,
        ServiceSetting::Auto | ServiceSetting::Caching => Service::Caching,
        ServiceSetting::Forwarding => Service::Forwarding,
        ServiceSetting::Both => Service::Both,
        ServiceSetting::Pull => Service::Pull,
        ServiceSetting::Retransmission => Service::Retransmission,
    }
}

pub(super) fn exposed(typed: &[RawExpose], source: &Source) -> Result<Vec<ExposedResource>, Problem> {
    let root = KeyPath::of("expose");
    let mut found: Vec<ExposedResource> = Vec::new();
    for (index, typed) in typed.iter().enumerate() {
        let here = root.index(index);
        let name = validated_name(&here.key("name"), typed.name.clone(), source)?;
        if found.iter().any(|other| other.name == name) {
            return Err(source.problem(
                &here.key("name"),
                format!("name {name:?} already in use: give each [[expose]] its own"),
            ));
        }
        for (number, peer) in typed.peers.iter().flatten().enumerate() {
            validated_name(&here.key("peers").index(number), peer.clone(), source)?;
        }
        let at = match (&typed.target, typed.networks.is_empty()) {
            (Some(target), true) => match target.problem() {
                None => ExposedKind::Target(target.clone()),
                Some(problem) => return Err(source.problem(&here.key("target"), problem)),
            },
            (None, false) => ExposedKind::Network(network(&here, typed, source)?),
            (Some(_), false) => {
                let message = "`networks` is set too: use a target for datagrams, networks for \
                               captured packets";
                return Err(source.problem(&here.key("target"), message));
            }
            (None, true) => {
                let message = "target missing: set target = \"127.0.0.1:6000\", or networks = \
                               [\"192.0.2.1\"]";
                return Err(source.problem(&here.key("name"), message));
            }
        };
        if typed.keep_dscp.is_some() && matches!(at, ExposedKind::Network(_)) {
            let message = "captured packets have their own DSCP: omit this key with `networks`";
            return Err(source.problem(&here.key("keep_dscp"), message));
        }
        let keep_dscp = typed.keep_dscp.unwrap_or(true);
        found.push(ExposedResource { name, at, peers: typed.peers.clone(), keep_dscp });
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::agent_of;

    /// Returns the limits of the latency of a forward with these keys, or the error.
    fn read(keys: &str) -> Result<Option<LatencyTerms>, String> {
        let forward =
            format!("[[forward]]\nlisten = \"127.0.0.1:5000\"\npeer = \"bob\"\nto = \"game\"\n{keys}\n");
        let settings = agent_of(&format!("[agent]\nname = \"alice\"\n{forward}"));
        let settings = settings.map_err(|problem| problem.to_string())?;
        Ok(settings.forwards[0].spec.terms.latency)
    }

    #[test]
    fn limits_of_the_latency_have_a_default_gain() {
        let (acceptable, gain) = (Duration::from_millis(50), Duration::from_millis(7));
        assert_eq!(read(""), Ok(None));
        let limits = |gain| Ok(Some(LatencyTerms { acceptable, gain }));
        assert_eq!(read("latency = { acceptable = \"50 ms\" }"), limits(LATENCY_GAIN));
        let all = "latency = { acceptable = \"50 ms\", gain = \"7 ms\" }";
        assert_eq!(read(all), limits(gain));
        for service in ["auto", "caching", "retransmission"] {
            assert_eq!(read(&format!("service = \"{service}\"\n{all}")), limits(gain), "{service}");
        }
    }

    #[test]
    fn flows_are_coded_with_those_of_other_tenants_only_if_their_settings_permit_it() {
        let shares = |keys: &str| {
            let forward =
                format!("[[forward]]\nlisten = \"127.0.0.1:5000\"\npeer = \"bob\"\nto = \"game\"\n{keys}\n");
            let settings = agent_of(&format!("[agent]\nname = \"alice\"\n{forward}"));
            settings.map(|settings| {
                let spec = &settings.forwards[0].spec;
                let offer = byway_proto::conventions::reverse_terms(&spec.terms);
                (spec.terms.shares, offer.shares)
            })
        };
        assert_eq!(shares("service = \"coding\""), Ok((false, false)));
        let both = "service = \"coding\"\ncoded_with_other_tenants = true";
        assert_eq!(shares(both), Ok((true, true)), "in both directions");
        assert_eq!(shares("coded_with_other_tenants = false"), Ok((false, false)));
        for service in ["", "service = \"auto\"\n", "service = \"caching\"\n"] {
            let error = shares(&format!("{service}coded_with_other_tenants = true"));
            let error = error.expect_err("another service").to_string();
            assert!(error.contains("forward[0].coded_with_other_tenants: requires"), "{error}");
        }
    }

    #[test]
    fn wrong_limits_of_the_latency_are_named_with_the_remedy() {
        for (keys, words) in [
            ("latency = { gain = \"10 ms\" }", "acceptable"),
            ("latency = { acceptable = \"0 ms\" }", "out of range: 1 ms to 10 s"),
            ("latency = { acceptable = \"50 ms\", gain = \"11 s\" }", "out of range: 1 ms to 10 s"),
            ("latency = { acceptable = \"260 ms\" }", "exceeds the latency budget of 250 ms"),
            ("latency = { acceptable = \"50 ms\", least = \"1 ms\" }", "least"),
            ("service = \"both\"\nlatency = { acceptable = \"50 ms\" }", "omit `service`"),
            ("service = \"internet\"\nlatency = { acceptable = \"50 ms\" }", "omit `service`"),
            ("copies = \"marked\"\nlatency = { acceptable = \"50 ms\" }", "omit `copies`"),
        ] {
            let error = read(keys).expect_err(keys);
            // The parser of TOML names a missing or unknown key without its table.
            let is_named = ["acceptable", "least"].contains(&words) || error.contains("latency");
            assert!(error.contains(words) && is_named, "{keys}: {error}");
        }
    }
}
