//! Study of flows: losses on their direct paths, and the share, times and costs of repairs.

use std::collections::BTreeSet;

use byway_scenario::{DeliveryMethod, FlowRecord, LossLocation, Outcome, PacketRecord};
use byway_units::{Duration, Time};

use crate::decoding_bound;
use crate::findings::{Findings, Unit, number, quantile, share};
use crate::repair_floor::RepairFloor;

/// Fewest losses of a path that counts in shares of paths, because the repaired share of fewer
/// losses means little.
const PATH_LOSSES_MIN: u64 = 20;

/// Fewest losses of a path whose repaired share counts on its own, in the measure `worst-path`.
const PATH_LOSSES_MANY: u64 = 200;

/// Loss rate over which a path counts as lossy: the published paths are described by their number
/// over 0.1 % (J-QoS, section 5.2).
const PATH_LOSS_NOTABLE: f64 = 0.001;

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
    for record in &records {
        sample(record, &mut findings);
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
    let of_relays = || outcome.nodes.iter().filter(|node| relays.contains(node.name.as_str()));
    let relayed = of_relays().map(|node| node.sent_bytes).sum();
    let packets = of_relays().map(|node| node.sent).sum();
    findings.measure("relay-bytes", None, Some(number(relayed)), Unit::Count);
    findings.measure("relay-packets", None, Some(number(packets)), Unit::Count);
    findings.measure("relay-share", None, share(relayed, app_bytes), Unit::Ratio);
    let senders: BTreeSet<&str> = records.iter().map(|record| record.from.as_str()).collect();
    let senders = outcome.nodes.iter().filter(|node| senders.contains(node.name.as_str()));
    let sent = senders.map(|node| node.sent_bytes).sum();
    findings.measure("sender-bytes", None, Some(number(sent)), Unit::Count);
    findings
}

fn measure(records: &[&FlowRecord], group: Option<&str>, findings: &mut Findings) {
    let tallies: Vec<Tally> = records.iter().map(|record| Tally::of(record)).collect();
    let total = |of: fn(&Tally) -> u64| tallies.iter().map(of).sum::<u64>();
    let (sent, lost) = (total(|tally| tally.sent), total(|tally| tally.lost));
    let mut put = |name: &str, value: Option<f64>, unit: Unit| findings.measure(name, group, value, unit);
    put("sent", Some(number(sent)), Unit::Count);
    put("lost", Some(number(lost)), Unit::Count);
    put("loss", share(lost, sent), Unit::Share);
    put("loss-burst-mean", share(lost, total(|tally| tally.episode_count)), Unit::Ratio);
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
    let gap = records.iter().map(|record| longest_gap(record)).max();
    put("longest-gap", gap.map(milliseconds), Unit::Milliseconds);
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
    let losses: Vec<f64> = tallies.iter().filter_map(|tally| share(tally.lost, tally.sent)).collect();
    let lossy = losses.iter().filter(|loss| **loss > PATH_LOSS_NOTABLE).count() as u64;
    put("paths-over-a-thousandth", share(lossy, losses.len() as u64), Unit::Share);
    put("worst-path-loss", losses.into_iter().reduce(f64::max), Unit::Share);
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
        if sample == "repair-over-floor" {
            let below = values.iter().filter(|ratio| **ratio < 1.0).count() as u64;
            findings.measure("repairs-below-floor", group, share(below, values.len() as u64), Unit::Share);
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
/// relative to the least time in which a service could have repaired the packet.
fn sample(record: &FlowRecord, findings: &mut Findings) {
    let round_trip = milliseconds(record.terms.round_trip);
    let floor = RepairFloor::of(record);
    let (mut times, mut of_round_trip, mut of_floor) = (Vec::new(), Vec::new(), Vec::new());
    for (index, fate) in record.packets.iter().enumerate() {
        let Some(time) = fate.repair_time(&record.terms).map(milliseconds) else {
            continue;
        };
        times.push(time);
        of_round_trip.push(time / round_trip);
        let least = floor.as_ref().map(|floor| floor.least(index)).filter(|least| !least.is_zero());
        of_floor.extend(least.map(|least| time / milliseconds(least)));
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
    /// Number of episodes of any length.
    episode_count: u64,
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
        self.episode_count += 1;
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

/// Returns the longest time of sending without a packet that was delivered within the budget: a
/// viewer sees no new picture for about as long.
fn longest_gap(record: &FlowRecord) -> Duration {
    let is_in_time = |fate: &&PacketRecord| fate.delay().is_some_and(|at| at <= record.terms.budget);
    let ends = [record.packets.first(), record.packets.last()];
    let [first, last] = ends.map(|end| end.map(|fate| fate.sent));
    let delivered = record.packets.iter().filter(is_in_time).map(|fate| fate.sent);
    let times: Vec<Time> = first.into_iter().chain(delivered).chain(last).collect();
    let gaps = times.windows(2).map(|two| two[1].saturating_since(two[0]));
    gaps.max().unwrap_or_default()
}

fn add(sums: &mut (u64, u64), values: (u64, u64)) {
    sums.0 += values.0;
    sums.1 += values.1;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_records::{Fate, flow};

    fn findings_of(records: &[FlowRecord]) -> Findings {
        let members: Vec<&FlowRecord> = records.iter().collect();
        let mut findings = Findings::default();
        for record in &members {
            sample(record, &mut findings);
        }
        measure(&members, None, &mut findings);
        findings
    }

    #[test]
    fn paths_are_described_by_their_losses_and_bursts() {
        let clean = flow(&vec![Fate::Direct; 2_000]);
        let mut fates = vec![Fate::Direct; 2_000];
        // Three losses in two episodes: 0.15 %.
        for lost in [100, 101, 200] {
            fates[lost] = Fate::Missing;
        }
        let findings = findings_of(&[clean, flow(&fates)]);
        let value = |name| findings.value(name, None);
        assert_eq!(value("loss-burst-mean"), Some(1.5));
        assert_eq!(value("paths-over-a-thousandth"), Some(0.5));
        assert_eq!(value("worst-path-loss"), Some(0.0015));
    }

    #[test]
    fn the_longest_gap_is_between_packets_in_time() {
        let mut fates = [Fate::Direct; 100];
        fates[10..30].fill(Fate::Missing);
        // The repairs are later than the budget of a second, or within it.
        (fates[15], fates[25]) = (Fate::Repaired(2_000), Fate::Repaired(100));
        let gap = |fates: &[Fate]| longest_gap(&flow(fates)).as_millis();
        assert_eq!(gap(&fates), 160, "from packet 9 to packet 25");
        assert_eq!(gap(&[Fate::Direct; 100]), 10);
        assert_eq!(gap(&[Fate::Missing; 100]), 990, "nothing arrives");
        assert_eq!(findings_of(&[flow(&fates)]).value("longest-gap", None), Some(160.0));
    }

    #[test]
    fn repairs_below_their_floor_are_counted() {
        let mut fates = [Fate::Direct; 100];
        // The floor is a quarter of 10 ms, and two times 10 ms to the egress relay.
        (fates[10], fates[20], fates[30]) = (Fate::Repaired(15), Fate::Repaired(45), Fate::Repaired(90));
        let findings = findings_of(&[flow(&fates)]);
        let value = |name| findings.value(name, None);
        assert_eq!(value("repairs-below-floor"), Some(1.0 / 3.0));
        assert_eq!((value("repair-over-floor-p50"), value("repair-over-floor-p99")), (Some(2.0), Some(4.0)));
    }
}
