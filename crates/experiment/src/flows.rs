//! Study of flows: losses on their direct paths, and the share, times and costs of repairs.

use std::collections::{BTreeMap, BTreeSet};

use byway_scenario::{DeliveryMethod, FlowRecord, FlowService, LossLocation, Outcome, PacketRecord};
use byway_units::Duration;
use byway_wire::Service;

use crate::decoding_bound;
use crate::findings::{Findings, Unit, number, quantile, share};

/// Fewest losses of a path that counts in shares of paths, because the repaired share of fewer
/// losses means little.
const PATH_LOSSES_MIN: u64 = 20;

/// Fewest losses of a path whose repaired share counts on its own, in the measure `worst-path`.
const PATH_LOSSES_MANY: u64 = 200;

/// Time from the beginning of an outage for which its packets do not count, besides a round trip.
const OUTAGE_GRACE: Duration = Duration::from_millis(250);

/// Fewest such packets of an outage: fewer are a burst of losses.
const OUTAGE_PACKETS_MIN: u64 = 20;

/// Most consecutive losses of a burst; longer ones count as an outage (J-QoS, section 5.2).
const BURST_PACKETS_MAX: u64 = 14;

/// Reduces the outcome of a run to measures and samples of its flows.
pub(crate) fn reduce(outcome: &Outcome) -> Findings {
    let mut findings = Findings { stopped: outcome.stopped.clone(), ..Findings::default() };
    let records: Vec<&FlowRecord> = outcome.records.iter().collect();
    let names: BTreeSet<&str> = records.iter().map(|record| record.name.as_str()).collect();
    let farthest = farthest_receivers(&records);
    for record in &records {
        sample(record, &farthest, &mut findings);
    }
    let groups = names.iter().map(|name| Some(*name)).chain([None]);
    for group in groups {
        let members: Vec<&FlowRecord> =
            records.iter().copied().filter(|record| group.is_none_or(|name| record.name == name)).collect();
        measure(&members, group, &mut findings);
    }
    decoding_bound::bounds(&records, &mut findings);
    let app_bytes = records.iter().map(|record| record.bytes).sum();
    let relays: BTreeSet<&str> = records
        .iter()
        .filter_map(|record| record.overlay.as_ref())
        .flat_map(|overlay| [overlay.ingress.as_str(), overlay.egress.as_str()])
        .collect();
    let relayed = outcome.nodes.iter().filter(|node| relays.contains(node.name.as_str()));
    let relayed = relayed.map(|node| node.sent_bytes).sum();
    findings.measure("relay-bytes", None, Some(number(relayed)), Unit::Count);
    findings.measure("relay-share", None, share(relayed, app_bytes), Unit::Ratio);
    let senders: BTreeSet<&str> = records.iter().map(|record| record.from.as_str()).collect();
    let senders = outcome.nodes.iter().filter(|node| senders.contains(node.name.as_str()));
    let sent = senders.map(|node| node.sent_bytes).sum();
    findings.measure("sender-bytes", None, Some(number(sent)), Unit::Count);
    findings
}

/// Returns the longest delay from each egress relay to one of its receivers, which may be a helper.
fn farthest_receivers(records: &[&FlowRecord]) -> BTreeMap<String, Duration> {
    let mut farthest: BTreeMap<String, Duration> = BTreeMap::new();
    for overlay in records.iter().filter_map(|record| record.overlay.as_ref()) {
        let delay = farthest.entry(overlay.egress.clone()).or_default();
        *delay = overlay.egress_to_receiver.max(*delay);
    }
    farthest
}

fn measure(records: &[&FlowRecord], group: Option<&str>, findings: &mut Findings) {
    let tallies: Vec<Tally> = records.iter().map(|record| Tally::of(record)).collect();
    let total = |of: fn(&Tally) -> u64| tallies.iter().map(of).sum::<u64>();
    let (sent, lost) = (total(|tally| tally.sent), total(|tally| tally.lost));
    let mut put = |name: &str, value: Option<f64>, unit: Unit| findings.measure(name, group, value, unit);
    put("sent", Some(number(sent)), Unit::Count);
    put("lost", Some(number(lost)), Unit::Count);
    put("loss", share(lost, sent), Unit::Share);
    put("repaired", share(total(|tally| tally.repaired), lost), Unit::Share);
    put("repaired-within-rtt", share(total(|tally| tally.within_rtt), lost), Unit::Share);
    put(
        "repairs-within-half-rtt",
        share(total(|tally| tally.within_half_rtt), total(|tally| tally.repaired)),
        Unit::Share,
    );
    let outages = tallies.iter().flat_map(|tally| &tally.outages);
    let shares: Vec<f64> = outages.filter_map(|(all, delivered)| share(*delivered, *all)).collect();
    // Long outages have most of the packets, and would hide what is missing of short ones.
    let mean = (!shares.is_empty()).then(|| shares.iter().sum::<f64>() / number(shares.len() as u64));
    put("delivered-in-outages", mean, Unit::Share);
    put("worst-outage", shares.into_iter().reduce(f64::min), Unit::Share);
    put("residual-loss", share(total(|tally| tally.undelivered), sent), Unit::Share);
    let locations = sums(tallies.iter().map(|tally| tally.locations));
    let episodes = sums(tallies.iter().map(|tally| tally.episodes));
    for (name, (of_kind, repaired)) in
        LOSS_LOCATIONS.into_iter().zip(locations).chain(EPISODES.into_iter().zip(episodes))
    {
        put(&format!("lost-{name}"), share(of_kind, lost), Unit::Share);
        put(&format!("repaired-{name}"), share(repaired, of_kind), Unit::Share);
    }
    let (spurious_nacks, nacks) = (total(|tally| tally.spurious_nacks), total(|tally| tally.nacks));
    put("spurious-nacks", share(spurious_nacks, sent), Unit::Share);
    put("nacks", Some(number(nacks)), Unit::Count);
    put("lent-share", share(total(|tally| tally.lent_bytes), total(|tally| tally.bytes)), Unit::Share);
    paths(&tallies, put);
    times(records, group, findings);
}

fn paths(tallies: &[Tally], mut put: impl FnMut(&str, Option<f64>, Unit)) {
    let enough = |least| tallies.iter().filter(move |tally| tally.lost >= least);
    let over_80 = enough(PATH_LOSSES_MIN).filter(|tally| tally.within_rtt * 5 > tally.lost * 4).count();
    put("paths-over-80", share(over_80 as u64, enough(PATH_LOSSES_MIN).count() as u64), Unit::Share);
    let worst =
        enough(PATH_LOSSES_MANY).filter_map(|tally| share(tally.within_rtt, tally.lost)).reduce(f64::min);
    put("worst-path", worst, Unit::Share);
    put("paths-with-200-losses", Some(number(enough(PATH_LOSSES_MANY).count() as u64)), Unit::Count);
}

/// Adds quantiles of the repair times and delays of a group of flows.
fn times(records: &[&FlowRecord], group: Option<&str>, findings: &mut Findings) {
    for (sample, unit) in
        [("repair", Unit::Milliseconds), ("repair-over-rtt", Unit::Ratio), ("repair-over-floor", Unit::Ratio)]
    {
        let name = (sample.to_owned(), group.map(str::to_owned));
        let mut values = findings.samples.get(&name).cloned().unwrap_or_default();
        for (suffix, at) in [("p50", 0.5), ("p95", 0.95), ("p99", 0.99)] {
            findings.measure(&format!("{sample}-{suffix}"), group, quantile(&mut values, at), unit);
        }
    }
    let fates = || records.iter().flat_map(|record| &record.packets);
    let mut all: Vec<f64> = fates().filter_map(PacketRecord::delay).map(milliseconds).collect();
    // Repairs take longer than other deliveries; only the latter show a delay by head-of-line
    // blocking.
    let mut direct: Vec<f64> =
        fates().filter(|fate| !fate.is_lost()).filter_map(PacketRecord::delay).map(milliseconds).collect();
    for (suffix, at) in [("p50", 0.5), ("p99", 0.99), ("p999", 0.999)] {
        findings.measure(&format!("delay-{suffix}"), group, quantile(&mut all, at), Unit::Milliseconds);
        findings.measure(
            &format!("direct-delay-{suffix}"),
            group,
            quantile(&mut direct, at),
            Unit::Milliseconds,
        );
    }
}

/// Adds samples of one flow's repair times: in milliseconds, relative to the round trip, and
/// relative to the shortest possible time.
fn sample(record: &FlowRecord, farthest: &BTreeMap<String, Duration>, findings: &mut Findings) {
    let round_trip = milliseconds(record.terms.round_trip);
    let floors = Floors::of(record, farthest);
    let (mut times, mut of_round_trip, mut of_floor) = (Vec::new(), Vec::new(), Vec::new());
    for (index, fate) in record.packets.iter().enumerate() {
        let (Some(time), Some((_, method))) = (fate.repair_time(&record.terms), fate.delivered) else {
            continue;
        };
        let time = milliseconds(time);
        times.push(time);
        of_round_trip.push(time / round_trip);
        of_floor.extend(floors.as_ref().map(|floors| time / milliseconds(floors.floor(index, method))));
    }
    for (name, values) in
        [("repair", &times), ("repair-over-rtt", &of_round_trip), ("repair-over-floor", &of_floor)]
    {
        findings.sample(name, &record.name, values);
    }
    let tally = Tally::of(record);
    if tally.lost >= PATH_LOSSES_MIN {
        let within = share(tally.within_rtt, tally.lost);
        findings.sample("path-repaired", &record.name, within.as_slice());
    }
    findings.sample("path-loss", &record.name, share(tally.lost, tally.sent).as_slice());
}

/// Shortest possible times of a flow's repairs, by the source of the repair.
struct Floors<'a> {
    record: &'a FlowRecord,
    /// Interval of the flow's packets: the shortest time in which the receiver can detect a loss.
    gap: Duration,
    to_ingress: Duration,
    to_egress: Duration,
    between_relays: Duration,
    /// True for coding and pull: the ingress relay stores copies for later NACKs.
    fetches: bool,
    /// Delay from the egress relay to the farthest receiver that may be a helper.
    helpers: Duration,
}

impl<'a> Floors<'a> {
    fn of(record: &'a FlowRecord, farthest: &BTreeMap<String, Duration>) -> Option<Self> {
        let overlay = record.overlay.as_ref()?;
        Some(Self {
            record,
            gap: interval(record),
            to_ingress: overlay.sender_to_ingress,
            to_egress: overlay.egress_to_receiver,
            between_relays: overlay.ingress_to_egress,
            fetches: matches!(
                record.service,
                FlowService::Automatic | FlowService::Named(Service::Coding | Service::Pull)
            ),
            helpers: farthest.get(&overlay.egress).copied().unwrap_or_default(),
        })
    }

    fn floor(&self, index: usize, method: DeliveryMethod) -> Duration {
        match method {
            DeliveryMethod::Cooperative => self.gap + self.to_egress * 2 + self.helpers * 2,
            // The ingress relay detects the loss by the next copy, and sends a NACK.
            DeliveryMethod::Direct => self.gap_of_copies(index) + self.to_ingress * 2,
            // Copies that the egress relay lacks are at the ingress relay.
            DeliveryMethod::Cached if self.fetches => self.gap + (self.to_egress + self.between_relays) * 2,
            DeliveryMethod::Resent => self.gap + self.to_ingress + self.between_relays + self.to_egress,
            DeliveryMethod::Cached | DeliveryMethod::InStream | DeliveryMethod::Forwarded => {
                self.gap + self.to_egress * 2
            }
        }
    }

    fn gap_of_copies(&self, index: usize) -> Duration {
        let (lost, later) =
            (self.record.packets[index], self.record.packets.get(index..).unwrap_or_default());
        let next = later.iter().find(|fate| !fate.is_lost());
        next.map_or(self.gap, |next| next.sent.saturating_since(lost.sent))
    }
}

/// Returns the shortest interval between packets of a flow, in which a loss can be detected.
fn interval(record: &FlowRecord) -> Duration {
    let between = record.packets.windows(2).map(|two| two[1].sent.saturating_since(two[0].sent));
    between.filter(|time| !time.is_zero()).min().unwrap_or_default()
}

pub(crate) fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1_000.0
}

/// Locations of losses on a path, as in the names of measures.
const LOSS_LOCATIONS: [&str; 3] = ["sender-access", "middle", "receiver-access"];

/// Kinds of loss episodes by their length, as in the names of measures.
const EPISODES: [&str; 3] = ["single", "burst", "outage"];

/// Losses, and those repaired within a round trip, for each of three kinds of loss.
type KindCounts = [(u64, u64); 3];

fn sums(of_flows: impl Iterator<Item = KindCounts>) -> KindCounts {
    of_flows.fold(KindCounts::default(), |mut sums, kinds| {
        sums.iter_mut().zip(kinds).for_each(|(sum, kind)| add(sum, kind));
        sums
    })
}

/// Counts of one flow: packets, losses, repairs, NACKs and bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Tally {
    sent: u64,
    lost: u64,
    repaired: u64,
    within_rtt: u64,
    within_half_rtt: u64,
    /// Packets that were never delivered, or after the latency budget.
    undelivered: u64,
    /// Losses by location, in the order of [`LOSS_LOCATIONS`].
    locations: KindCounts,
    /// Losses by length of their episode, in the order of [`EPISODES`].
    episodes: KindCounts,
    /// Packets of each outage of the direct path after its first moments, and those of them that
    /// were delivered within the budget, see [`outages`].
    outages: Vec<(u64, u64)>,
    nacks: u64,
    spurious_nacks: u64,
    /// Bytes that the application sent; `lent_bytes` counts those that the receiver sent for
    /// others' repairs.
    bytes: u64,
    lent_bytes: u64,
}

impl Tally {
    fn of(record: &FlowRecord) -> Self {
        let sent = record.packets.len() as u64;
        let mut tally = Self { sent, bytes: record.bytes, ..Self::default() };
        let mut episode = (0, 0);
        for fate in &record.packets {
            let in_time = fate.delay().is_some_and(|delay| delay <= record.terms.budget);
            tally.undelivered += u64::from(!in_time);
            if !fate.is_lost() {
                tally.close(&mut episode);
                continue;
            }
            let repair = fate.repair_time(&record.terms);
            let is_within = repair.is_some_and(|time| time <= record.terms.round_trip);
            tally.lost += 1;
            tally.repaired += u64::from(repair.is_some());
            tally.within_rtt += u64::from(is_within);
            tally.within_half_rtt +=
                u64::from(repair.is_some_and(|time| time * 2 <= record.terms.round_trip));
            let location = match fate.lost {
                Some(LossLocation::SenderAccess) => 0,
                Some(LossLocation::ReceiverAccess) => 2,
                _ => 1,
            };
            add(&mut tally.locations[location], (1, u64::from(is_within)));
            add(&mut episode, (1, u64::from(is_within)));
        }
        tally.close(&mut episode);
        tally.outages = outages(record);
        if let Some(counted) = &record.counted {
            tally.nacks = counted.nacks + counted.open_ended_nacks;
            tally.spurious_nacks = counted.spurious_nacks;
            tally.lent_bytes = counted.lent_bytes;
        }
        tally
    }

    /// Adds the losses of an episode to the counts of its kind, and resets the episode.
    fn close(&mut self, episode: &mut (u64, u64)) {
        let kind = match episode.0 {
            0 => return,
            1 => 0,
            2..=BURST_PACKETS_MAX => 1,
            _ => 2,
        };
        add(&mut self.episodes[kind], *episode);
        *episode = (0, 0);
    }
}

/// Returns the packets of each outage of a flow's direct path, and those that were delivered within
/// the budget.
///
/// An outage is a time without a delivery by the direct path. A sender may send nothing there in an
/// outage, so losses alone do not show it. Packets count from [`OUTAGE_GRACE`] and a round trip
/// after the first on, because outages have to be detected.
fn outages(record: &FlowRecord) -> Vec<(u64, u64)> {
    let is_direct = |fate: &PacketRecord| matches!(fate.delivered, Some((_, DeliveryMethod::Direct)));
    let dark = record.packets.split(is_direct).filter_map(|packets| {
        let from = packets.first()?.sent + OUTAGE_GRACE + record.terms.round_trip;
        let counted = packets.iter().filter(|fate| fate.sent >= from);
        let is_in_time = |fate: &&PacketRecord| fate.delay().is_some_and(|at| at <= record.terms.budget);
        Some((counted.clone().count() as u64, counted.filter(is_in_time).count() as u64))
    });
    dark.filter(|(packets, _)| *packets >= OUTAGE_PACKETS_MIN).collect()
}

fn add(sums: &mut (u64, u64), values: (u64, u64)) {
    sums.0 += values.0;
    sums.1 += values.1;
}
