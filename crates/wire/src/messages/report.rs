//! Report: how a flow fares.

use crate::error::{Full, ParseError};
use crate::ids::FlowKey;
use crate::quantities::Microseconds;
use crate::reader::Reader;
use crate::writer::Writer;

/// Packets lost on the direct path, by what brought them back in time; modulo 2^32.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RepairCounters {
    /// The flow's own repair packets.
    pub in_stream: u32,
    /// A batch, with the help of other receivers.
    pub cooperative: u32,
    /// The egress relay's cache.
    pub cached: u32,
    /// Delivery over the overlay.
    pub forwarded: u32,
}

/// One-way delays above the least one of the direct path, of the packets of the last second that came in time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DelayPercentiles {
    /// Half of the packets were not later.
    pub p50: Microseconds,
    /// 95 in 100 were not later.
    pub p95: Microseconds,
    /// 99 in 100 were not later.
    pub p99: Microseconds,
}

/// A receiver says how a flow fares. Counters began with the session, and are modulo 2^32.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Report {
    /// The flow.
    pub flow_key: FlowKey,
    /// The low 32 bits of the highest sequence number seen.
    pub highest_low: u32,
    /// Packets first delivered by the direct path.
    pub direct: u32,
    /// Packets lost on the direct path.
    pub lost: u32,
    /// Of these, repaired.
    pub repaired: RepairCounters,
    /// Packets that came too late.
    pub late: u32,
    /// Rows of lost packets.
    pub bursts: u32,
    /// Packets in the longest such row.
    pub longest_burst: u32,
    /// Delays of the last interval.
    pub delay: DelayPercentiles,
}

impl Report {
    /// The message's type.
    pub const TYPE: u8 = 24;

    /// Reads the body.
    ///
    /// # Errors
    /// If a field is cut off or illegal.
    pub fn parse(body: &[u8]) -> Result<Self, ParseError> {
        let mut reader = Reader::new("report", body);
        Ok(Self {
            flow_key: reader.flow_key()?,
            highest_low: reader.u32("highest")?,
            direct: reader.u32("direct")?,
            lost: reader.u32("lost")?,
            repaired: RepairCounters {
                in_stream: reader.u32("in-stream")?,
                cooperative: reader.u32("cooperative")?,
                cached: reader.u32("cached")?,
                forwarded: reader.u32("forwarded")?,
            },
            late: reader.u32("late")?,
            bursts: reader.u32("bursts")?,
            longest_burst: reader.u32("longest burst")?,
            delay: DelayPercentiles {
                p50: Microseconds::new(reader.u32("delay p50")?),
                p95: Microseconds::new(reader.u32("delay p95")?),
                p99: Microseconds::new(reader.u32("delay p99")?),
            },
        })
    }

    /// Appends the message.
    ///
    /// # Errors
    /// If it does not fit.
    pub fn emit(&self, writer: &mut Writer<'_>) -> Result<(), Full> {
        let (repaired, delay) = (&self.repaired, &self.delay);
        writer.append(Self::TYPE, |output| {
            output.bytes(&self.flow_key.to_bytes());
            let before = [self.highest_low, self.direct, self.lost];
            let ways = [repaired.in_stream, repaired.cooperative, repaired.cached, repaired.forwarded];
            let after = [self.late, self.bursts, self.longest_burst];
            let delays = [delay.p50, delay.p95, delay.p99].map(Microseconds::count);
            for number in before.into_iter().chain(ways).chain(after).chain(delays) {
                output.u32(number);
            }
        })
    }
}
