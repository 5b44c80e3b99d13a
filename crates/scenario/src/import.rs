//! Traces of losses and delays from what other tools write.

use std::fmt::Write as _;

use byway_units::Duration;
use thiserror::Error;

use crate::limits::DELAY_MAX;

/// What a text with measured delays looks like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MeasuredFormat {
    /// The output of `ping`, as of Linux: lines with `icmp_seq=3` and `time=41.2 ms`. Numbers that are missing are lost. After 65535
    /// they begin again at 0: fewer than 32,768 may be missing one after the other.
    Ping,
    /// Lines of a number and a delay in milliseconds, with commas, semicolons or blanks between; a packet whose delay is `lost`,
    /// or not there, is lost. A first line of words, and lines that begin with `#`, are passed over.
    Columns,
}

/// Why a text is no measurement.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ImportError {
    /// Nothing in it is one.
    #[error("it has no measurements: {0}")]
    Empty(&'static str),
    /// A line is none.
    #[error("line {line}: {text:?} is no measurement: {remedy}")]
    Line {
        /// Which line, from 1.
        line: usize,
        /// What stands there.
        text: String,
        /// What should stand there.
        remedy: &'static str,
    },
    /// The numbers leave out too many.
    #[error(
        "line {line}: {count} packets are missing before it: split the measurement where it was interrupted"
    )]
    Interrupted {
        /// Which line, from 1.
        line: usize,
        /// How many are missing.
        count: u64,
    },
}

/// Most packets missing one after the other: more is no loss, but another measurement.
const GAP_MAX: u64 = 1_000_000;

/// A trace of `0` (received) and `1` (lost), a character for each packet in the order of their numbers, in lines of 80: what
/// `trace` of a link's loss takes. What takes longer than `late` is lost.
///
/// # Errors
/// If the text is no measurement; the error names the line.
pub fn import_trace(
    text: &str,
    format: MeasuredFormat,
    late: Option<Duration>,
) -> Result<String, ImportError> {
    let delays = measured(text, format, late)?;
    let mut trace = String::new();
    for line in delays.chunks(80) {
        let signs = line.iter().map(|delay| if delay.is_some() { '0' } else { '1' });
        // Writing to a string cannot fail.
        let _ = writeln!(trace, "{}", signs.collect::<String>());
    }
    Ok(trace)
}

/// A line for each packet in the order of their numbers, with its delay in milliseconds or `lost`: what `trace` of a link's
/// `delays` takes. What takes longer than `late` is lost; of round trips, half of each may be taken.
///
/// # Errors
/// As [`import_trace`].
pub fn import_delays(
    text: &str,
    format: MeasuredFormat,
    late: Option<Duration>,
    is_halved: bool,
) -> Result<String, ImportError> {
    let mut trace = String::new();
    for delay in measured(text, format, late)? {
        // Writing to a string cannot fail.
        let _ = match delay {
            Some(delay) => writeln!(trace, "{:.3}", if is_halved { delay / 2.0 } else { delay }),
            None => writeln!(trace, "lost"),
        };
    }
    Ok(trace)
}

/// How long each packet took, in the order of their numbers; `None` of what was lost, or took longer than `late`.
fn measured(
    text: &str,
    format: MeasuredFormat,
    late: Option<Duration>,
) -> Result<Vec<Option<f64>>, ImportError> {
    let (mut delays, mut last): (Vec<Option<f64>>, Option<u64>) = (Vec::new(), None);
    for (line, content) in (1..).zip(text.lines()) {
        let measured = match format {
            MeasuredFormat::Ping => ping(content).map(|(number, delay)| (unwrapped(number, last), delay)),
            MeasuredFormat::Columns => columns(line, content)?,
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
            MeasuredFormat::Ping => "give what `ping` prints, with lines of icmp_seq= and time=",
            MeasuredFormat::Columns => "give lines of a number and a delay in milliseconds",
        }));
    }
    Ok(delays)
}

/// A packet came after others that were sent after it, so many before the last; twice it counts once.
fn fill(delays: &mut [Option<f64>], before_last: u64, delay: Option<f64>) {
    let before_last = usize::try_from(before_last).unwrap_or(usize::MAX);
    let place = delays.len().checked_sub(1).and_then(|last| last.checked_sub(before_last));
    if let Some(place) = place.and_then(|place| delays.get_mut(place)) {
        *place = place.or(delay);
    }
}

/// The number of a packet, and how long it took in milliseconds if it came.
type Measured = (u64, Option<f64>);

fn ping(line: &str) -> Option<Measured> {
    let number = value(line, "icmp_seq=")?.parse().ok()?;
    let delay: f64 = value(line, "time=")?.parse().ok()?;
    Some((number, Some(delay).filter(|delay| delay.is_finite())))
}

/// What follows a word, up to a blank.
fn value<'a>(line: &'a str, word: &str) -> Option<&'a str> {
    line.split_once(word)?.1.split_whitespace().next()
}

/// How many numbers ICMP has for echo requests (RFC 792: 16 bits).
const ECHO_NUMBERS: u64 = 1 << 16;

/// The number of a packet as if numbers did not begin again: the one nearest to the last (RFC 1982), but for what would be before
/// all others. Numbers of more than 16 bits are of a `ping` that counts on.
fn unwrapped(number: u64, last: Option<u64>) -> u64 {
    let Some(last) = last.filter(|_| number < ECHO_NUMBERS) else {
        return number;
    };
    let ahead = number.wrapping_sub(last) % ECHO_NUMBERS;
    let behind = ECHO_NUMBERS - ahead;
    if behind <= ECHO_NUMBERS / 2 && behind <= last { last - behind } else { last.saturating_add(ahead) }
}

fn columns(line: usize, content: &str) -> Result<Option<Measured>, ImportError> {
    let content = content.trim();
    if content.is_empty() || content.starts_with('#') {
        return Ok(None);
    }
    let wrong = || ImportError::Line {
        line,
        text: content.chars().take(60).collect(),
        remedy: "write a number and a delay in milliseconds, as in 17, 41.2; of a lost packet `lost`, or no delay",
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
        assert_eq!(import_trace(text, MeasuredFormat::Ping, LATE).as_deref(), Ok("01110\n"));
        assert_eq!(import_trace(text, MeasuredFormat::Ping, None).as_deref(), Ok("01100\n"));
    }

    #[test]
    fn delays_are_kept_halved_or_lost() {
        let text = "1 41.2\n2 150\n4 9\n";
        let import = |late, is_halved| import_delays(text, MeasuredFormat::Columns, late, is_halved);
        assert_eq!(import(LATE, false).as_deref(), Ok("41.200\nlost\nlost\n9.000\n"));
        let halved = import(None, true).expect("a measurement");
        assert_eq!(halved, "20.600\n75.000\nlost\n4.500\n");
        let every = Some(Duration::from_millis(20));
        assert!(byway_sim::MeasuredDelays::parse(&halved, every, None).is_ok(), "a link takes it");
    }

    #[test]
    fn what_comes_out_of_order_is_not_lost() {
        let import = |text| import_delays(text, MeasuredFormat::Columns, None, false);
        assert_eq!(import("1 41\n3 42\n2 90\n2 95\n0 7\n").as_deref(), Ok("41.000\n90.000\n42.000\n"));
        for absurd in ["1 inf", "1 1e300", "1 NaN", "1 -1"] {
            assert!(import(absurd).is_err(), "{absurd}");
        }
    }

    #[test]
    fn columns_without_a_delay_are_lost() {
        let text = "number,delay_ms\n# a comment\n7,41.2\n8,\n9;250\n10 3\n11 lost\n12,lost\n13 4\n";
        assert_eq!(import_trace(text, MeasuredFormat::Columns, LATE).as_deref(), Ok("0110110\n"));
    }

    #[test]
    fn numbers_of_ping_begin_again_after_16_bits() {
        let line = |number| format!("64 bytes from 192.0.2.1: icmp_seq={number} ttl=57 time=41.2 ms\n");
        let import = |numbers: &[u64]| {
            let text: String = numbers.iter().map(|number| line(*number)).collect();
            import_trace(&text, MeasuredFormat::Ping, None).expect("a measurement").replace('\n', "")
        };
        assert_eq!(import(&[65_533, 65_535, 0, 3]), "0100110");
        assert_eq!(import(&[65_534, 0, 65_535, 1]), "0000", "what comes late is put where it belongs");
        assert_eq!(import(&[65_534, 1, 65_535]), "0010");
        assert_eq!(import(&[65_535, 65_536, 65_538]), "0010", "a ping that counts on");
        assert_eq!(import(&[1, 60_000]).len(), 60_000, "nothing comes before the first packets");
        // Twice around, with every third packet lost.
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
            let error = import_trace(text, MeasuredFormat::Columns, LATE).expect_err(text).to_string();
            assert!(error.contains(wanted), "{error}");
        }
    }

    proptest! {
        #[test]
        fn whatever_is_given_is_taken_or_refused(text in ".{0,200}") {
            for format in [MeasuredFormat::Ping, MeasuredFormat::Columns] {
                if let Ok(trace) = import_trace(&text, format, LATE) {
                    prop_assert!(trace.chars().all(|sign| matches!(sign, '0' | '1' | '\n')));
                }
            }
        }
    }
}
