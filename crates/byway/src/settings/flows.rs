//! What flows are asked for as meant, and where they begin and end: forwards and what is exposed.

use std::mem::discriminant;
use std::net::{IpAddr, SocketAddr};

use byway_proto::CodingRates;
use byway_proto::agent::{Duplication, Terms, Traffic};
use byway_proto::marking::Mark;
use byway_typed::{KeyPath, Problem, Source};
use byway_units::{Duration, Rate};
use byway_wire::{BlockShape, Service};

use super::endpoint::{Endpoint, unicast_problem};
use super::meaning::named_as;
use super::tunnel::{Network, contains, network};
use super::typed::{TypedCopies, TypedExpose, TypedForward, TypedService, TypedTraffic, TypedWish};

/// What flows are asked for, and whom.
#[derive(Clone, Debug)]
pub(crate) struct Wanted {
    /// The agent at the other end.
    pub(crate) peer: String,
    /// What it exposes.
    pub(crate) to: String,
    /// What is offered, but for what depends on the packets.
    pub(crate) terms: Terms,
    /// What they carry; `None`: packets show it.
    pub(crate) traffic: Option<Traffic>,
    /// Which packets are marked.
    pub(crate) marks: Vec<Mark>,
}

impl PartialEq for Wanted {
    /// Terms are the same where a peer cannot tell them apart; settings are not, where this end can.
    fn eq(&self, other: &Self) -> bool {
        let own = |wanted: &Self| {
            let Terms { duplication, standby, rate, latency_budget, .. } = wanted.terms;
            (discriminant(&duplication), standby, rate, latency_budget)
        };
        (&self.peer, &self.to, self.traffic, &self.marks)
            == (&other.peer, &other.to, other.traffic, &other.marks)
            && self.terms == other.terms
            && own(self) == own(other)
    }
}

impl Eq for Wanted {}

impl Wanted {
    /// What this end offers for flows that carry this.
    pub(crate) fn forth(&self, traffic: Traffic) -> Terms {
        Terms { traffic, ..self.terms }
    }
}

/// A port whose datagrams go to a peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Forward {
    pub(crate) listen: SocketAddr,
    pub(crate) wanted: Wanted,
    /// True if the DSCP of datagrams is kept, in both directions.
    pub(crate) keep_dscp: bool,
}

/// Something that peers may send to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Exposed {
    pub(crate) name: String,
    pub(crate) at: ExposedAt,
    /// Who may; `None`: everybody.
    pub(crate) peers: Option<Vec<String>>,
    /// True if the DSCP of datagrams is kept, in both directions.
    pub(crate) keep_dscp: bool,
}

impl Exposed {
    /// What offers call it: packets are not for what takes datagrams, nor the other way round.
    pub(crate) fn subject_name(&self) -> String {
        match self.at {
            ExposedAt::Target(_) => self.name.clone(),
            ExposedAt::Network(_) => packets_for(&self.name, None),
        }
    }

    /// Whether packets for an address may go through here, whatever else they are.
    pub(crate) fn has(&self, address: IpAddr) -> bool {
        match &self.at {
            ExposedAt::Target(_) => false,
            ExposedAt::Network(network) => contains(&network.selection.prefixes, address),
        }
    }
}

/// What offers call something exposed that takes packets: no name has a colon. Where they all go to one address, it is said: whether
/// its machine has that, an agent knows itself.
pub(crate) fn packets_for(name: &str, only: Option<IpAddr>) -> String {
    match only {
        None => format!("ip:{name}"),
        Some(address) => format!("ip:{name}:{address}"),
    }
}

/// What offers call something, without the address that they name beside it.
pub(crate) fn without_address(subject: &str) -> (String, Option<IpAddr>) {
    let packets = subject.strip_prefix("ip:").and_then(|rest| rest.split_once(':'));
    let packets = packets.and_then(|(name, address)| Some((name, address.parse().ok()?)));
    packets.map_or((subject.to_owned(), None), |(name, address)| (packets_for(name, None), Some(address)))
}

/// What it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ExposedAt {
    /// Where datagrams go.
    Target(Endpoint),
    /// Where packets go that were captured.
    Network(Network),
}

/// What flows ask for unless they say otherwise.
#[derive(Clone, Copy, Debug)]
pub(super) struct Defaults<'a> {
    pub(super) rate: Rate,
    pub(super) traffic: Option<Traffic>,
    pub(super) marks: &'a [Mark],
}

/// What a forward asks for: one application's flow.
const OF_FORWARDS: Defaults<'_> =
    Defaults { rate: Rate::from_megabits_per_second(4), traffic: Some(Traffic::Datagrams), marks: &[] };

/// What is asked for in a table at `here`.
pub(super) fn wanted(
    here: &KeyPath,
    typed: &TypedWish<'_>,
    defaults: &Defaults<'_>,
    source: &Source,
) -> Result<Wanted, Problem> {
    let rates = CodingRates {
        in_stream: typed.in_stream.map_or(BlockShape::new(16, 1), |shape| shape.0),
        batch: typed.batch.map_or(BlockShape::new(8, 2), |shape| shape.0),
    };
    if !rates.are_kept() {
        let message = format!(
            "relays keep at most {} repair packets of a block or batch",
            byway_proto::limits::BATCH_REPAIRS_MAX
        );
        return Err(source.problem(&here.key("batch"), message));
    }
    let rate = typed.rate.map_or(defaults.rate, |rate| rate.0);
    if rate.bits_per_second() < 1_000 {
        return Err(source.problem(&here.key("rate"), "is less than 1 kbit/s"));
    }
    let latency_budget = typed.latency_budget.map_or(Duration::from_millis(250), |budget| budget.0);
    if !(Duration::from_millis(1)..=Duration::from_secs(10)).contains(&latency_budget) {
        return Err(source.problem(&here.key("latency_budget"), "is out of range: 1 ms to 10 s"));
    }
    let traffic = typed.traffic.map(|traffic| match traffic {
        TypedTraffic::Datagrams => Traffic::Datagrams,
        TypedTraffic::CongestionControlled => Traffic::CongestionControlled,
        TypedTraffic::Mixture => Traffic::Mixture,
    });
    let duplication = match typed.copies {
        TypedCopies::Usual => Duplication::Usual,
        TypedCopies::All => Duplication::All,
        TypedCopies::Marked => Duplication::Marked,
        TypedCopies::ByRelay => Duplication::ByRelay,
        TypedCopies::OwnRepairs => Duplication::OwnRepairs,
    };
    let marks = typed.marks.map(|marks| marks.iter().map(|mark| mark.0).collect());
    Ok(Wanted {
        peer: named_as(&here.key("peer"), typed.peer.to_owned(), source)?,
        to: named_as(&here.key("to"), typed.to.to_owned(), source)?,
        terms: Terms {
            service: service(typed.service),
            rates,
            rate,
            latency_budget,
            duplication,
            traffic: Traffic::Datagrams,
            standby: typed.standby,
            shares: false,
        },
        traffic: traffic.or(defaults.traffic),
        marks: marks.unwrap_or_else(|| defaults.marks.to_vec()),
    })
}

pub(super) fn forwards(typed: &[TypedForward], source: &Source) -> Result<Vec<Forward>, Problem> {
    let root = KeyPath::of("forward");
    let mut found: Vec<Forward> = Vec::new();
    for (place, typed) in typed.iter().enumerate() {
        let here = root.place(place);
        if found.iter().any(|other| other.listen == typed.listen && typed.listen.port() != 0) {
            let message = format!("{} is that of another forward: each needs its own", typed.listen);
            return Err(source.problem(&here.key("listen"), message));
        }
        if let Some(problem) = unicast_problem(&typed.listen) {
            return Err(source.problem(&here.key("listen"), problem));
        }
        let mut wanted = wanted(&here, &typed.wish(), &OF_FORWARDS, source)?;
        if wanted.marks.iter().any(|mark| mark.needs_headers()) {
            let message =
                "a forward sees datagrams without their headers: name key frames, or use a [[capture]]";
            return Err(source.problem(&here.key("marks"), message));
        }
        wanted.traffic = wanted.traffic.map(|traffic| as_seen_by_a_forward(traffic, &wanted));
        found.push(Forward { listen: typed.listen, wanted, keep_dscp: typed.keep_dscp.unwrap_or(true) });
    }
    Ok(found)
}

/// What a forward takes TCP and QUIC for where nothing says what of them to copy: it cannot tell bulk data from the rest, and would
/// copy nothing.
fn as_seen_by_a_forward(traffic: Traffic, wanted: &Wanted) -> Traffic {
    let is_usual = matches!(wanted.terms.duplication, Duplication::Usual) && wanted.marks.is_empty();
    if is_usual && traffic == Traffic::CongestionControlled { Traffic::Mixture } else { traffic }
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

pub(super) fn exposed(typed: &[TypedExpose], source: &Source) -> Result<Vec<Exposed>, Problem> {
    let root = KeyPath::of("expose");
    let mut found: Vec<Exposed> = Vec::new();
    for (place, typed) in typed.iter().enumerate() {
        let here = root.place(place);
        let name = named_as(&here.key("name"), typed.name.clone(), source)?;
        if found.iter().any(|other| other.name == name) {
            return Err(source.problem(
                &here.key("name"),
                format!("{name:?} is exposed already: each needs its own name"),
            ));
        }
        for (number, peer) in typed.peers.iter().flatten().enumerate() {
            named_as(&here.key("peers").place(number), peer.clone(), source)?;
        }
        let at = match (&typed.target, typed.networks.is_empty()) {
            (Some(target), true) => match target.problem() {
                None => ExposedAt::Target(target.clone()),
                Some(problem) => return Err(source.problem(&here.key("target"), problem)),
            },
            (None, false) => ExposedAt::Network(network(&here, typed, source)?),
            (Some(_), false) => {
                let message = "there are networks too: datagrams go to a target, packets that were captured to networks";
                return Err(source.problem(&here.key("target"), message));
            }
            (None, true) => {
                let message = "say where what is sent to it goes: target = \"127.0.0.1:6000\", or networks = [\"192.0.2.1\"]";
                return Err(source.problem(&here.key("name"), message));
            }
        };
        if typed.keep_dscp.is_some() && matches!(at, ExposedAt::Network(_)) {
            let message = "packets that were captured have their own DSCP: leave it out beside networks";
            return Err(source.problem(&here.key("keep_dscp"), message));
        }
        let keep_dscp = typed.keep_dscp.unwrap_or(true);
        found.push(Exposed { name, at, peers: typed.peers.clone(), keep_dscp });
    }
    Ok(found)
}
