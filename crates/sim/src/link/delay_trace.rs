//! Recorded delays of a path, replayed by a link.

use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use byway_units::{Duration, Time};
use thiserror::Error;

use crate::limits::{MEASURED_DELAY_MAX, MEASURED_DELAYS_MAX, MEASURED_SPAN_MAX};

/// Recorded delays over time. A packet has the delay, or the loss, of the last recorded packet
/// before it. At its end, the recording repeats.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DelayTrace {
    /// Links may share the samples.
    samples: Arc<Vec<DelaySample>>,
    period: Duration,
    /// Offset in the recording at which the world begins.
    begin: Duration,
}

/// Recorded measurement of one packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct DelaySample {
    /// Time at which the recorded packet was sent, relative to the first one.
    at: Duration,
    /// Delay of the recorded packet; `None` if it was lost.
    delay: Option<Duration>,
}

/// Error in a recording of delays. Text lines are counted from 1.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum DelayTraceError {
    /// The text has no measurements.
    #[error("it has no lines: give a delay in milliseconds in each, or `lost`")]
    Empty,
    /// All recorded packets are lost.
    #[error("its packets ({count}) are all lost, or later than `late`: give one with a delay, or an outage")]
    AllLost {
        /// Number of recorded packets.
        count: usize,
    },
    /// A text line that is not a delay.
    #[error(
        "line {line} is no delay: {found:?}; write {form}; a lost packet has the word lost for its delay"
    )]
    NoDelay {
        /// Number of the text line.
        line: usize,
        /// Beginning of the text line's content.
        found: String,
        /// Expected form of a text line, for the error message.
        form: &'static str,
    },
    /// A delay beyond [`MEASURED_DELAY_MAX`].
    #[error("line {line} has a delay of {found}: at most {MEASURED_DELAY_MAX}; what takes longer is `lost`")]
    TooLate {
        /// Number of the text line.
        line: usize,
        /// Delay in the text line.
        found: Duration,
    },
    /// A text line whose packet was not sent later than that of the line before it.
    #[error(
        "line {line} was sent at {found}, and the line before it at {before}: write them in order, each sent later than the last"
    )]
    OutOfOrder {
        /// Number of the text line.
        line: usize,
        /// Time of sending in this text line.
        found: Duration,
        /// Time of sending in the text line before it.
        before: Duration,
    },
    /// A time of sending that is more than [`MEASURED_SPAN_MAX`] after the first.
    #[error(
        "line {line} was sent more than a year after the first: at most {MEASURED_SPAN_MAX}, use a part of it"
    )]
    TooFar {
        /// Number of the text line.
        line: usize,
    },
    /// The text has more measurements than [`MEASURED_DELAYS_MAX`].
    #[error("line {line} is one too many: at most {MEASURED_DELAYS_MAX} packets, use a part of it")]
    TooLong {
        /// Number of the first text line that exceeds the limit.
        line: usize,
    },
    /// An interval between packets of zero, or of more than [`MEASURED_SPAN_MAX`].
    #[error(
        "its packets were sent every {found}, as `every` says: more than 0 s, and at most {MEASURED_SPAN_MAX}"
    )]
    NoInterval {
        /// The interval between packets.
        found: Duration,
    },
}

impl DelayTrace {
    /// Parses a delay in milliseconds, or `lost`, in each text line. `every` is the interval
    /// between the packets. Without it, each text line has the time of sending in milliseconds
    /// before the delay, separated by a comma or blanks. Packets with a delay of more than `late`
    /// are lost. Empty text lines and those that begin with `#` are ignored.
    ///
    /// # Errors
    /// If the text has no measurements, too many or other content; the error has the number of the
    /// text line.
    pub fn parse(
        text: &str,
        every: Option<Duration>,
        late: Option<Duration>,
    ) -> Result<Self, DelayTraceError> {
        let mut samples: Vec<DelaySample> = Vec::new();
        let mut origin = Duration::ZERO;
        for (line, content) in (1..).zip(text.lines().map(str::trim)) {
            if content.is_empty() || content.starts_with('#') {
                continue;
            }
            let form = match every {
                Some(_) => "milliseconds, as in 41.2",
                None => "when it was sent and how long it took, both in milliseconds, as in 1200 41.2",
            };
            let found = || content.chars().take(FOUND_CHARACTERS_MAX).collect();
            let (sent, delay) = columns(content, every.is_none())
                .ok_or_else(|| DelayTraceError::NoDelay { line, found: found(), form })?;
            let nth = samples.len() as u64;
            let regular = every.unwrap_or_default().as_nanos().checked_mul(nth).map(Duration::from_nanos);
            let sent = sent.or(regular).ok_or(DelayTraceError::TooFar { line })?;
            if let Some(last) = samples.last().filter(|last| every.is_none() && sent <= origin + last.at) {
                return Err(DelayTraceError::OutOfOrder { line, found: sent, before: origin + last.at });
            }
            if samples.is_empty() {
                origin = sent;
            }
            let at = sent - origin;
            if at > MEASURED_SPAN_MAX {
                return Err(DelayTraceError::TooFar { line });
            }
            if samples.len() == MEASURED_DELAYS_MAX {
                return Err(DelayTraceError::TooLong { line });
            }
            let delay = delay.filter(|delay| late.is_none_or(|late| *delay <= late));
            if let Some(found) = delay.filter(|delay| *delay > MEASURED_DELAY_MAX) {
                return Err(DelayTraceError::TooLate { line, found });
            }
            samples.push(DelaySample { at, delay });
        }
        Self::of(samples, every)
    }

    fn of(samples: Vec<DelaySample>, every: Option<Duration>) -> Result<Self, DelayTraceError> {
        let last = samples.last().ok_or(DelayTraceError::Empty)?.at;
        if samples.iter().all(|sample| sample.delay.is_none()) {
            return Err(DelayTraceError::AllLost { count: samples.len() });
        }
        let gaps = samples.len() as u64 - 1;
        // The first packet follows the last one after the mean interval.
        let gap = every.or_else(|| (gaps > 0).then(|| last / gaps)).unwrap_or(Duration::from_secs(1));
        if gap.is_zero() || gap > MEASURED_SPAN_MAX {
            return Err(DelayTraceError::NoInterval { found: gap });
        }
        Ok(Self { samples: Arc::new(samples), period: last + gap, begin: Duration::ZERO })
    }

    /// Returns the same recording with its beginning at this packet, modulo their number.
    #[must_use]
    pub fn begun_at(&self, packet: u64) -> Self {
        let first = usize::try_from(packet % self.samples.len() as u64).unwrap_or_default();
        Self { begin: self.samples[first].at, ..self.clone() }
    }

    /// Returns the median of the delays, without lost packets.
    #[must_use]
    pub fn median(&self) -> Duration {
        let mut delays: Vec<Duration> = self.samples.iter().filter_map(|sample| sample.delay).collect();
        delays.sort_unstable();
        delays.get(delays.len().saturating_sub(1) / 2).copied().unwrap_or_default()
    }

    /// Returns the delay of a packet sent at this time; `None` if it is lost.
    pub(super) fn at(&self, time: Time) -> Option<Duration> {
        let since = (time + self.begin).saturating_since(Time::START).as_nanos() % self.period.as_nanos();
        let after = self.samples.partition_point(|sample| sample.at.as_nanos() <= since);
        self.samples[after.saturating_sub(1)].delay
    }
}

/// Most characters of a text line in an error, because it can be of any length.
const FOUND_CHARACTERS_MAX: usize = 60;

/// Splits a text line into the time of sending, if `has_time`, and the delay, which is `None` for
/// `lost`. Returns `None` if the text line has another form.
fn columns(content: &str, has_time: bool) -> Option<(Option<Duration>, Option<Duration>)> {
    let mut parts = content.split([',', ';', ' ', '\t']).filter(|part| !part.is_empty());
    let sent = if has_time { Some(milliseconds(parts.next()?)?) } else { None };
    let delay = match parts.next()? {
        "lost" => None,
        delay => Some(milliseconds(delay)?),
    };
    parts.next().is_none().then_some((sent, delay))
}

/// Parses a number of milliseconds, which may have a fraction, exactly to the nanosecond.
fn milliseconds(text: &str) -> Option<Duration> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let is_plain = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    if !is_plain(whole) || !is_plain(fraction) || whole.is_empty() {
        return None;
    }
    let nanos = fraction.bytes().chain([b'0'; 6]).take(6);
    let nanos = nanos.fold(0, |nanos, digit| nanos * 10 + u64::from(digit - b'0'));
    whole.parse::<u64>().ok()?.checked_mul(1_000_000)?.checked_add(nanos).map(Duration::from_nanos)
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::string::ToString;

    use super::*;

    const EVERY: Option<Duration> = Some(Duration::from_millis(20));

    fn delays(text: &str, every: Option<Duration>, late: u64) -> DelayTrace {
        DelayTrace::parse(text, every, Some(Duration::from_millis(late))).expect("a measurement")
    }

    /// Returns the delays of packets sent at these milliseconds, in microseconds.
    fn at<const N: usize>(delays: &DelayTrace, millis: [u64; N]) -> [Option<u64>; N] {
        let at = |millis| delays.at(Time::START + Duration::from_millis(millis));
        millis.map(|millis| at(millis).map(|delay| delay.as_nanos() / 1_000))
    }

    #[test]
    fn a_packet_takes_as_long_as_the_last_one_before_it_and_what_is_late_is_lost() {
        let found = delays("# a path\n41.2\nlost\n150\n\n150.001\n", EVERY, 150);
        let wanted = [Some(41_200), Some(41_200), None, Some(150_000), None, None, Some(41_200)];
        assert_eq!(at(&found, [0, 19, 20, 40, 60, 79, 80]), wanted);
        assert_eq!(found.median(), Duration::from_micros(41_200));
    }

    #[test]
    fn times_of_sending_may_be_given_and_it_may_begin_elsewhere() {
        let found = delays("1000, 40\n1010\t50\n1050;lost\n", None, 150);
        // The mean interval is 25 ms: the recording repeats after 75 ms.
        let wanted = [Some(40_000), Some(50_000), Some(50_000), None, None, Some(40_000)];
        assert_eq!(at(&found, [9, 10, 49, 50, 74, 75]), wanted);
        assert_eq!(at(&found.begun_at(4), [0, 39, 40, 65]), [Some(50_000), Some(50_000), None, Some(40_000)]);
    }

    #[test]
    fn what_no_clock_can_count_is_refused_with_its_line() {
        let day = Duration::from_secs(86_400);
        let refused = DelayTrace::parse("40\n40", Some(day * 1_000), None).expect_err("three years");
        assert_eq!(refused, DelayTraceError::TooFar { line: 2 });
        let refused = DelayTrace::parse("0 40\n18446744073708 40", None, None).expect_err("centuries");
        assert_eq!(refused, DelayTraceError::TooFar { line: 2 });
        let refused = DelayTrace::parse("40", Some(Duration::MAX), None).expect_err("centuries");
        assert_eq!(refused, DelayTraceError::NoInterval { found: Duration::MAX });
    }

    #[test]
    fn what_is_no_measurement_is_named_with_its_line() {
        for (text, every, wanted) in [
            ("", EVERY, "no lines"),
            ("# nothing\n\n", None, "no lines"),
            ("lost\n160\n", EVERY, "its packets (2) are all lost"),
            ("40\n-1\n", EVERY, "line 2 is no delay: \"-1\"; write milliseconds, as in 41.2"),
            ("40\n\nsoon\n", EVERY, "line 3 is no delay"),
            ("40 50\n", EVERY, "line 1 is no delay"),
            ("40\n", None, "line 1 is no delay: \"40\"; write when it was sent and how long it took"),
            ("1 40\n1e3 40\n", None, "line 2 is no delay"),
            (
                "5 40\n5 41\n",
                None,
                "line 2 was sent at 5 ms, and the line before it at 5 ms: write them in order",
            ),
            ("5 40\n7 40\n6 41\n", None, "line 3 was sent at 6 ms, and the line before it at 7 ms"),
            ("5 40\n4 41\n", None, "line 2 was sent at 4 ms, and the line before it at 5 ms"),
            ("40\n", Some(Duration::ZERO), "sent every 0 s, as `every` says: more than 0 s, and at most"),
        ] {
            let error = DelayTrace::parse(text, every, Some(Duration::from_millis(150))).expect_err(text);
            assert!(error.to_string().contains(wanted), "{text:?}: {error}");
        }
        let error = DelayTrace::parse("40\n60000.001\n", EVERY, None).expect_err("a minute and more");
        let wanted = "line 2 has a delay of 60.000001 s: at most 60 s";
        assert!(error.to_string().contains(wanted), "{error}");
        assert!(DelayTrace::parse("40\n60000\n", EVERY, None).is_ok());
    }
}
