//! Report: losses and delays of a flow.

use crate::error::{MessageFullError, ParseError};
use crate::grant::GrantedRelay;
use crate::ids::FlowKey;
use crate::quantities::Microseconds;
use crate::reader::Reader;
use crate::writer::{Output, Writer};

/// Packets lost on the direct path and repaired in time, by source of the repair; modulo 2^32.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RepairCounters {
    /// Repaired by the flow's own repair packets.
    pub in_stream: u32,
    /// Repaired by decoding a batch, with packets from other receivers.
    pub cooperative: u32,
    /// Repaired from the egress relay's cache.
    pub cached: u32,
    /// Repaired by delivery over the overlay.
    pub forwarded: u32,
    /// Repaired by the sender, which sent them again through relays. Reports of earlier versions
    /// lack the field, which then is 0.
    pub resent: u32,
}

/// One-way delays of the packets of the last second that arrived in time, above the direct path's
/// base delay.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DelayPercentiles {
    /// Median of the delays.
    pub p50: Microseconds,
    /// 95th percentile of the delays.
    pub p95: Microseconds,
    /// 99th percentile of the delays.
    pub p99: Microseconds,
}

/// Most relays whose round-trip times a report contains: as many as the receiver sends NACKs to.
pub const RELAYS_REPORTED_MAX: usize = 4;

/// Round-trip time between the receiver of a flow and an egress relay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RelayRoundTrip {
    /// Egress relay of one or more of the flow's paths.
    pub relay: GrantedRelay,
    /// Round-trip time, as the receiver has measured it.
    pub round_trip: Microseconds,
}

/// One-way delays of a flow's packets on one path: differences between the receiver's clock at
/// arrival and the sender's timestamp, in microseconds modulo 2^32. They include the unknown offset
/// of the clocks, so only their differences have a meaning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RelativeDelay {
    /// Least difference.
    pub least: u32,
    /// 95th percentile of the differences, queues included.
    pub p95: u32,
}

/// Delays of the latest second on each of a flow's two paths; `None` if no packet arrived by it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReportedDelays {
    /// Delay of the direct path.
    pub direct: Option<RelativeDelay>,
    /// Delay of the relay path by which relays forward packets without a request.
    pub relayed: Option<RelativeDelay>,
}

/// A receiver reports losses and delays of a flow. Counters start with the session, and are modulo
/// 2^32.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Report {
    /// Key of the flow.
    pub flow_key: FlowKey,
    /// Low 32 bits of the highest sequence number that has arrived.
    pub highest_low: u32,
    /// Packets that the direct path delivered before any repair.
    pub direct: u32,
    /// Packets that the direct path lost, repaired or not.
    pub lost: u32,
    /// Lost packets that were repaired in time.
    pub repaired: RepairCounters,
    /// Packets that arrived after the latency budget.
    pub late: u32,
    /// Bursts of lost packets.
    pub bursts: u32,
    /// Packets in the longest burst.
    pub longest_burst: u32,
    /// One-way delays of the last second, above the base delay.
    pub delay: DelayPercentiles,
    /// Time from the expected arrival of a lost packet to its NACK: the small timeout of the
    /// receiver's loss timer, less the flow's interval. Reports of earlier versions lack the field,
    /// which then is 0.
    pub detection: Microseconds,
    /// Egress relays with measured round-trip times, before the `None`s. Reports of earlier
    /// versions lack the field.
    pub relays: [Option<RelayRoundTrip>; RELAYS_REPORTED_MAX],
    /// Packets that relays delivered without a request, and that the direct path lost. Reports of
    /// earlier versions lack the field; then all that relays delivered so count.
    pub covered: u32,
    /// Delays by path. Reports of earlier versions lack the field; then no delay is known.
    pub paths: ReportedDelays,
}

impl Report {
    /// Type number of a report on the wire.
    pub const TYPE: u8 = 24;

    /// Reads a report from the body of a message.
    ///
    /// # Errors
    /// If a field is cut off or illegal.
    pub fn parse(body: &[u8]) -> Result<Self, ParseError> {
        let mut reader = Reader::new("report", body);
        let mut report = Self {
            flow_key: reader.flow_key()?,
            highest_low: reader.u32("highest")?,
            direct: reader.u32("direct")?,
            lost: reader.u32("lost")?,
            repaired: RepairCounters {
                in_stream: reader.u32("in-stream")?,
                cooperative: reader.u32("cooperative")?,
                cached: reader.u32("cached")?,
                forwarded: reader.u32("forwarded")?,
                resent: 0,
            },
            late: reader.u32("late")?,
            bursts: reader.u32("bursts")?,
            longest_burst: reader.u32("longest burst")?,
            delay: DelayPercentiles {
                p50: Microseconds::new(reader.u32("delay p50")?),
                p95: Microseconds::new(reader.u32("delay p95")?),
                p99: Microseconds::new(reader.u32("delay p99")?),
            },
            detection: Microseconds::new(0),
            relays: [None; RELAYS_REPORTED_MAX],
            covered: 0,
            paths: ReportedDelays::default(),
        };
        report.covered = report.repaired.forwarded;
        if !reader.rest().is_empty() {
            report.repaired.resent = reader.u32("resent")?;
        }
        if !reader.rest().is_empty() {
            report.detection = Microseconds::new(reader.u32("detection")?);
            report.relays = parse_relays(&mut reader)?;
        }
        if !reader.rest().is_empty() {
            report.covered = reader.u32("covered")?;
        }
        if !reader.rest().is_empty() {
            report.paths = ReportedDelays::parse(&mut reader)?;
        }
        Ok(report)
    }

    /// Appends the report to the messages of a packet.
    ///
    /// # Errors
    /// If the packet has too few bytes left; then no byte is written.
    pub fn emit(&self, writer: &mut Writer<'_>) -> Result<(), MessageFullError> {
        let (repaired, delay) = (&self.repaired, &self.delay);
        writer.append(Self::TYPE, |output| {
            output.bytes(&self.flow_key.to_bytes());
            let before = [self.highest_low, self.direct, self.lost];
            let repairs = [repaired.in_stream, repaired.cooperative, repaired.cached, repaired.forwarded];
            let after = [self.late, self.bursts, self.longest_burst];
            let delays = [delay.p50, delay.p95, delay.p99].map(Microseconds::count);
            for number in before.into_iter().chain(repairs).chain(after).chain(delays) {
                output.u32(number);
            }
            output.u32(repaired.resent);
            output.u32(self.detection.count());
            emit_relays(&self.relays, output);
            output.u32(self.covered);
            self.paths.emit(output);
        })
    }
}

impl ReportedDelays {
    /// Bits of the paths with a delay, in the order of the delays.
    const DIRECT: u8 = 1;
    const RELAYED: u8 = 2;

    /// Reads the delays. Later versions may add others behind them.
    fn parse(reader: &mut Reader<'_>) -> Result<Self, ParseError> {
        let known = reader.u8("paths")?;
        let direct = RelativeDelay::parse(reader, known & Self::DIRECT != 0)?;
        let relayed = RelativeDelay::parse(reader, known & Self::RELAYED != 0)?;
        Ok(Self { direct, relayed })
    }

    /// Writes the delays; nothing if there are none, like earlier versions.
    fn emit(&self, output: &mut Output<'_>) {
        if *self == Self::default() {
            return;
        }
        let bit = |delay: Option<RelativeDelay>, bit: u8| if delay.is_some() { bit } else { 0 };
        output.u8(bit(self.direct, Self::DIRECT) | bit(self.relayed, Self::RELAYED));
        for delay in [self.direct, self.relayed].into_iter().flatten() {
            output.u32(delay.least);
            output.u32(delay.p95);
        }
    }
}

impl RelativeDelay {
    /// Reads a delay, if the report contains it.
    fn parse(reader: &mut Reader<'_>, is_known: bool) -> Result<Option<Self>, ParseError> {
        if !is_known {
            return Ok(None);
        }
        Ok(Some(Self { least: reader.u32("least path delay")?, p95: reader.u32("path delay p95")? }))
    }
}

fn parse_relays(
    reader: &mut Reader<'_>,
) -> Result<[Option<RelayRoundTrip>; RELAYS_REPORTED_MAX], ParseError> {
    let mut relays = [None; RELAYS_REPORTED_MAX];
    let count = reader.u8("relays")?;
    let Some(known) = relays.get_mut(..usize::from(count)) else {
        return Err(reader.illegal("relays", count, "0 to 4"));
    };
    for entry in known {
        let relay = GrantedRelay::parse(reader)?;
        *entry =
            Some(RelayRoundTrip { relay, round_trip: Microseconds::new(reader.u32("relay round trip")?) });
    }
    Ok(relays)
}

fn emit_relays(relays: &[Option<RelayRoundTrip>; RELAYS_REPORTED_MAX], output: &mut Output<'_>) {
    let known = || relays.iter().flatten();
    output.u8(known().map(|_| 1).sum());
    for RelayRoundTrip { relay, round_trip } in known() {
        relay.emit(output);
        output.u32(round_trip.count());
    }
}
