//! Import of loss and delay traces from the output of other tools.

use std::fmt::Write as _;

use byway_units::Duration;
use thiserror::Error;

use crate::limits::DELAY_MAX;

/// Format of a text with measured delays, for [`import_trace`] and [`import_delays`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MeasurementFormat {
    /// Output of `ping`, as of Linux: text lines with `icmp_seq=3` and `time=41.2 ms`. Missing
    /// numbers are lost packets. After 65535 they restart at 0: fewer than 32,768 may be missing in
    /// a row.
    Ping,
    /// Text lines of a number and a delay in milliseconds, separated by commas, semicolons or
    /// blanks. A packet with the delay `lost`, or without one, is lost. A first line of words, and
    /// lines that begin with `#`, are ignored.
    Columns,
}

/// Error of a text that is not a measurement in the expected format.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ImportError {
    /// The text has no measurements.
    #[error("no measurements found: {0}")]
    Empty(&'static str),
    /// A text line is not a measurement.
    #[error("line {line}: invalid measurement {text:?}: {remedy}")]
    Line {
        /// Number of the text line, from 1.
        line: usize,
        /// Content of the text line.
        text: String,
        /// Expected content, for the error message.
        remedy: &'static str,
    },
    /// More packets are missing in a row than a measurement may lack.
    #[error(
        "line {line}: {count} packets are missing before it: split the measurement where it was interrupted"
    )]
    Interrupted {
        /// Number of the text line after the gap, from 1.
        line: usize,
        /// Number of packets missing before it.
        count: u64,
    },
}

/// Most packets missing in a row: a larger gap is another measurement, not loss.
const GAP_MAX: u64 = 1_000_000;

/// Converts a measurement to a trace of `0` (received) and `1` (lost): a character for each packet
/// in the order of their numbers, in text lines of 80. This is the format of `trace` of a link's
/// loss. Packets with a delay of more than `late` are lost.
///
/// # Errors
/// If the text is not a measurement; the error has the number of the text line.
pub fn import_trace(
    text: &str,
    format: MeasurementFormat,
    late: Option<Duration>,
) -> Result<String, ImportError> {
    let delays = packet_delays(text, format, late)?;
    let mut trace = String::new();
    for line in delays.chunks(80) {
        let signs = line.iter().map(|delay| if delay.is_some() { '0' } else { '1' });
        // Writing to a string cannot fail.
        let _ = writeln!(trace, "{}", signs.collect::<String>());
    }
    Ok(trace)
}

/// Converts a measurement to a text line for each packet in the order of their numbers, with its
/// delay in milliseconds or `lost`. This is the format of `trace` of a link's `delays`. Packets
/// with a delay of more than `late` are lost. Round trips can be halved.
///
/// # Errors
/// As [`import_trace`].
pub fn import_delays(
    text: &str,
    format: MeasurementFormat,
    late: Option<Duration>,
    is_halved: bool,
) -> Result<String, ImportError> {
    let mut trace = String::new();
    for delay in packet_delays(text, format, late)? {
        // Writing to a string cannot fail.
        let _ = match delay {
            Some(delay) => writeln!(trace, "{:.3}", if is_halved { delay / 2.0 } else { delay }),
            None => writeln!(trace, "lost"),
        };
    }
    Ok(trace)
}

/// Returns the delay of each packet, in the order of their numbers; `None` for lost packets, and
/// for those with a delay of more than `late`.
fn packet_delays(
    text: &str,
    format: MeasurementFormat,
    late: Option<Duration>,
) -> Result<Vec<Option<f64>>, ImportError> {
    let (mut delays, mut last): (Vec<Option<f64>>, Option<u64>) = (Vec::new(), None);
    for (line, content) in (1..).zip(text.lines()) {
        let measured = match format {
            MeasurementFormat::Ping => ping(content).map(|(number, delay)| (unwrapped(number, last), delay)),
            MeasurementFormat::Columns => columns(line, content)?,
        };
        let Some((number, delay)) = measured else {
            continue;
        };
        let is_in_time = |delay: &f64| late.is_none_or(|late| *delay <= late.as_secs_f64() * 1_000.0);
        let delay = delay.filter(is_in_time);
        let missing = match last {
            Some(last) if number <= last => {
                fill(&mut delays, last - number, delay);
                continue;
            }
            Some(last) => number - last - 1,
            None => 0,
        };
        if missing > GAP_MAX {
            return Err(ImportError::Interrupted { line, count: missing });
        }
        delays.extend((0..missing).map(|_| None));
        delays.push(delay);
        last = Some(number);
    }
    if delays.is_empty() {
        return Err(ImportError::Empty(match format {
            MeasurementFormat::Ping => "give the output of `ping`, with icmp_seq= and time= in each line",
            MeasurementFormat::Columns => "give lines with a number and a delay in milliseconds",
        }));
    }
    Ok(delays)
}

/// Sets the delay of a reordered packet, whose number is `before_last` below the last one. Of
/// duplicates, only the first counts.
fn fill(delays: &mut [Option<f64>], before_last: u64, delay: Option<f64>) {
    let before_last = usize::try_from(before_last).unwrap_or(usize::MAX);
    let index = delays.len().checked_sub(1).and_then(|last| last.checked_sub(before_last));
    if let Some(slot) = index.and_then(|index| delays.get_mut(index)) {
        *slot = slot.or(delay);
    }
}

/// Number of a packet, and its delay in milliseconds if it was delivered.
type Measurement = (u64, Option<f64>);

fn ping(line: &str) -> Option<Measurement> {
    let number = value(line, "icmp_seq=")?.parse().ok()?;
    let delay: f64 = value(line, "time=")?.parse().ok()?;
    Some((number, Some(delay).filter(|delay| delay.is_finite())))
}

/// Returns the part of a text line after a word, up to a blank; `None` without the word.
fn value<'a>(line: &'a str, word: &str) -> Option<&'a str> {
    line.split_once(word)?.1.split_whitespace().next()
}

/// Number of sequence numbers of ICMP echo requests (RFC 792: 16 bits).
const ECHO_NUMBERS: u64 = 1 << 16;

/// Returns the number of a packet without wrap-around: the candidate nearest to the last one (RFC
/// 1982), but none before the first. A `ping` that does not wrap has numbers of more than 16 bits.
fn unwrapped(number: u64, last: Option<u64>) -> u64 {
    let Some(last) = last.filter(|_| number < ECHO_NUMBERS) else {
        return number;
    };
    let ahead = number.wrapping_sub(last) % ECHO_NUMBERS;
    let behind = ECHO_NUMBERS - ahead;
    if behind <= ECHO_NUMBERS / 2 && behind <= last { last - behind } else { last.saturating_add(ahead) }
}

fn columns(line: usize, content: &str) -> Result<Option<Measurement>, ImportError> {
    let content = content.trim();
    if content.is_empty() || content.starts_with('#') {
        return Ok(None);
    }
    let wrong = || ImportError::Line {
        line,
        text: content.chars().take(60).collect(),
        remedy: "write a number and a delay in milliseconds, as in 17, 41.2; for a lost packet \
                 `lost`, or no delay",
    };
    let mut parts = content.split([',', ';', ' ', '\t']).map(str::trim).filter(|part| !part.is_empty());
    let number = parts.next().ok_or_else(wrong)?;
    let Ok(number) = number.parse() else {
        return if line == 1 { Ok(None) } else { Err(wrong()) };
    };
    let delay = match parts.next() {
        None | Some("lost") => None,
        Some(delay) => {
            let delay: f64 = delay.parse().map_err(|_| wrong())?;
            if !(0.0..=DELAY_MAX.as_secs_f64() * 1_000.0).contains(&delay) {
                return Err(wrong());
            }
            Some(delay)
        }
    };
    Ok(Some((number, delay)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const LATE: Option<Duration> = Some(Duration::from_millis(100));

    #[test]
    fn what_ping_does_not_see_is_lost() {
        let text = "PING 192.0.2.1\n64 bytes from 192.0.2.1: icmp_seq=1 ttl=57 time=41.2 ms\n\
            64 bytes from 192.0.2.1: icmp_seq=4 ttl=57 time=140 ms\n64 bytes from 192.0.2.1: icmp_seq=5 ttl=57 time=9 ms\n\n4 packets transmitted";
        assert_eq!(import_trace(text, MeasurementFormat::Ping, LATE).as_deref(), Ok("01110\n"));
        assert_eq!(import_trace(text, MeasurementFormat::Ping, None).as_deref(), Ok("01100\n"));
    }

    #[test]
    fn delays_are_kept_halved_or_lost() {
        let text = "1 41.2\n2 150\n4 9\n";
        let import = |late, is_halved| import_delays(text, MeasurementFormat::Columns, late, is_halved);
        assert_eq!(import(LATE, false).as_deref(), Ok("41.200\nlost\nlost\n9.000\n"));
        let halved = import(None, true).expect("a measurement");
        assert_eq!(halved, "20.600\n75.000\nlost\n4.500\n");
        let every = Some(Duration::from_millis(20));
        assert!(byway_sim::DelayTrace::parse(&halved, every, None).is_ok(), "a link takes it");
    }

    #[test]
    fn what_comes_out_of_order_is_not_lost() {
        let import = |text| import_delays(text, MeasurementFormat::Columns, None, false);
        assert_eq!(import("1 41\n3 42\n2 90\n2 95\n0 7\n").as_deref(), Ok("41.000\n90.000\n42.000\n"));
        for absurd in ["1 inf", "1 1e300", "1 NaN", "1 -1"] {
            assert!(import(absurd).is_err(), "{absurd}");
        }
    }

    #[test]
    fn columns_without_a_delay_are_lost() {
        let text = "number,delay_ms\n# a comment\n7,41.2\n8,\n9;250\n10 3\n11 lost\n12,lost\n13 4\n";
        assert_eq!(import_trace(text, MeasurementFormat::Columns, LATE).as_deref(), Ok("0110110\n"));
    }

    #[test]
    fn numbers_of_ping_begin_again_after_16_bits() {
        let line = |number| format!("64 bytes from 192.0.2.1: icmp_seq={number} ttl=57 time=41.2 ms\n");
        let import = |numbers: &[u64]| {
            let text: String = numbers.iter().map(|number| line(*number)).collect();
            import_trace(&text, MeasurementFormat::Ping, None).expect("a measurement").replace('\n', "")
        };
        assert_eq!(import(&[65_533, 65_535, 0, 3]), "0100110");
        assert_eq!(import(&[65_534, 0, 65_535, 1]), "0000", "late packets count at their own index");
        assert_eq!(import(&[65_534, 1, 65_535]), "0010");
        assert_eq!(import(&[65_535, 65_536, 65_538]), "0010", "a ping that counts on");
        assert_eq!(import(&[1, 60_000]).len(), 60_000, "no packet is before the first");
        // Two cycles of the numbers, with every third packet lost.
        let numbers: Vec<u64> =
            (1..150_000).filter(|number| number % 3 > 0).map(|number| number % 65_536).collect();
        let wanted: String = (1..150_000).map(|number| if number % 3 > 0 { '0' } else { '1' }).collect();
        assert_eq!(import(&numbers), wanted);
    }

    #[test]
    fn what_is_no_measurement_is_refused_with_its_line() {
        for (text, wanted) in [
            ("", "no measurements"),
            ("1,2\nx,3", "line 2"),
            ("1,-3", "line 1"),
            ("1,2\n9000000,3", "interrupted"),
        ] {
            let error = import_trace(text, MeasurementFormat::Columns, LATE).expect_err(text).to_string();
            assert!(error.contains(wanted), "{error}");
        }
    }

    proptest! {
        #[test]
        fn whatever_is_given_is_taken_or_refused(text in ".{0,200}") {
            for format in [MeasurementFormat::Ping, MeasurementFormat::Columns] {
                if let Ok(trace) = import_trace(&text, format, LATE) {
                    prop_assert!(trace.chars().all(|sign| matches!(sign, '0' | '1' | '\n')));
                }
            }
        }
    }
}
