//! How a link is, for people and programs.

use std::fmt::Write as _;

use byway_net::ClassCounters;
use byway_units::{Bytes, Duration, Rate};
use serde::{Deserialize, Serialize};

use super::record::Record;
use crate::table::aligned;

/// How a link is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Report {
    /// The device.
    pub(super) device: String,
    /// Whether all is as it should be.
    pub(super) state: State,
    /// What is not.
    pub(super) note: Option<String>,
    /// The controller's process; that of one that has ended, too.
    pub(super) process: u32,
    /// Whether the device is up.
    pub(super) is_up: bool,
    /// What the link carries.
    pub(super) rate_bits_per_second: u64,
    /// The ratio of the rates of flows.
    pub(super) ratio: f64,
    /// The DSCPs that mean low delay.
    pub(super) dscps: Vec<u8>,
    /// Whether 0x12 as a whole byte means low delay.
    pub(super) is_tos_literal: bool,
    /// How long a low-delay packet is to wait at most.
    pub(super) delay_us: Option<u64>,
    /// How long it waits at most with the flows and packets that there are.
    pub(super) delay_promised_us: Option<u64>,
    /// The high-rate class.
    pub(super) high_rate: ClassReport,
    /// The low-delay class.
    pub(super) low_delay: ClassReport,
}

/// Whether all is as it should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum State {
    /// It is.
    Attached,
    /// Somebody has taken away what was put at the device, or put something in its place.
    Displaced,
    /// What was put at the device works, but nobody adapts it.
    Unattended,
}

/// How a class is. What only a controller knows is `null` without one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ClassReport {
    /// About how many flows there are.
    pub(super) flows: Option<u32>,
    /// What it gets if both have something to send.
    pub(super) rate_bits_per_second: Option<u64>,
    /// What its queue takes.
    pub(super) room_bytes: Option<u64>,
    /// What waits.
    pub(super) backlog_bytes: u64,
    /// What has left.
    pub(super) sent_bytes: u64,
    /// What has left, modulo 2^32.
    pub(super) sent_packets: u32,
    /// Packets that found no room, modulo 2^32.
    pub(super) dropped_full_packets: u32,
    /// The longest packet of late.
    pub(super) longest_packet_bytes: Option<u32>,
    /// Packets that came joined from several.
    pub(super) joined_packets: Option<u64>,
}

impl ClassReport {
    /// What the kernel has counted.
    pub(super) fn counted(counters: &[ClassCounters], class: u32) -> Self {
        let counters = counters.iter().find(|counters| counters.id == class).copied().unwrap_or_default();
        Self {
            backlog_bytes: counters.backlog.count(),
            sent_bytes: counters.sent.count(),
            sent_packets: counters.sent_packets,
            dropped_full_packets: counters.dropped_packets,
            ..Self::default()
        }
    }

    fn row(&self, name: &str) -> [String; 8] {
        fn or_unknown<T: ToString>(known: Option<T>) -> String {
            known.map_or_else(|| "?".to_owned(), |known| known.to_string())
        }
        [
            name.to_owned(),
            or_unknown(self.flows),
            or_unknown(self.rate_bits_per_second.map(Rate::from_bits_per_second)),
            Bytes::new(self.backlog_bytes).to_string(),
            or_unknown(self.room_bytes.map(Bytes::new)),
            Bytes::new(self.sent_bytes).to_string(),
            self.dropped_full_packets.to_string(),
            or_unknown(self.longest_packet_bytes.map(|bytes| Bytes::new(bytes.into()))),
        ]
    }
}

impl Report {
    /// What the record of a device says, with its classes.
    pub(super) fn of_record(record: &Record, high_rate: ClassReport, low_delay: ClassReport) -> Self {
        Self {
            device: record.device.clone(),
            state: State::Unattended,
            note: None,
            process: record.process,
            is_up: false,
            rate_bits_per_second: record.terms.rate().bits_per_second(),
            ratio: f64::from(record.terms.ratio().0) / 1_000.0,
            dscps: Vec::new(),
            is_tos_literal: false,
            delay_us: None,
            delay_promised_us: None,
            high_rate,
            low_delay,
        }
    }

    /// For people.
    pub(super) fn text(&self) -> String {
        let mut text = format!("{}: ", self.device);
        text.push_str(match self.state {
            State::Attached if self.is_up => "attached",
            State::Attached => "attached; the device is down",
            State::Displaced => "attached, but displaced",
            State::Unattended => "attached, but its controller is not running",
        });
        if let Some(note) = &self.note {
            let _ = write!(text, ": {note}");
        }
        let rate = Rate::from_bits_per_second(self.rate_bits_per_second);
        let marks: Vec<String> = self.dscps.iter().map(u8::to_string).collect();
        let _ =
            write!(text, "\n{rate}; a high-rate flow gets {} times the rate of a low-delay one", self.ratio);
        if !marks.is_empty() {
            let _ = write!(text, "; DSCP {}", marks.join(", "));
        }
        if self.is_tos_literal {
            text.push_str("; TOS 0x12");
        }
        text.push('\n');
        text.push_str(&self.promise());
        let head = ["class", "flows", "rate", "waiting", "room", "sent", "no room", "longest"];
        let rows = [head.map(String::from), self.high_rate.row("high rate"), self.low_delay.row("low delay")];
        text.push_str(&aligned(&rows));
        let joined =
            [&self.high_rate, &self.low_delay].iter().filter_map(|class| class.joined_packets).sum::<u64>();
        if joined > 0 {
            let _ = writeln!(
                text,
                "{joined} packets came joined from several, which leave as one: switch that off where they come in (ethtool -K DEVICE gro off)"
            );
        }
        text
    }

    fn promise(&self) -> String {
        let time = |micros: u64| Duration::from_micros(micros).to_string();
        match (self.delay_us, self.delay_promised_us) {
            (Some(wanted), Some(promised)) if promised > wanted => format!(
                "low-delay packets wait {} at most, more than the {} that are wanted: with these flows and packets there is no room for one in less\n",
                time(promised),
                time(wanted)
            ),
            (_, Some(promised)) => format!("low-delay packets wait {} at most\n", time(promised)),
            _ => String::new(),
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in super::super) fn report() -> Report {
        let class = ClassReport {
            flows: Some(10),
            rate_bits_per_second: Some(50_000_000),
            room_bytes: Some(38_638),
            longest_packet_bytes: Some(1_514),
            joined_packets: Some(0),
            ..ClassReport::default()
        };
        Report {
            device: "wan0".into(),
            state: State::Attached,
            note: None,
            process: 7,
            is_up: true,
            rate_bits_per_second: 100_000_000,
            ratio: 2.5,
            dscps: vec![4, 45, 46],
            is_tos_literal: false,
            delay_us: Some(10_000),
            delay_promised_us: Some(10_000),
            high_rate: class.clone(),
            low_delay: class,
        }
    }

    #[test]
    fn people_read_what_holds_and_what_does_not() {
        let text = report().text();
        for words in ["wan0: attached\n", "100 Mbit/s", "2.5 times", "DSCP 4, 45, 46", "wait 10 ms at most\n"]
        {
            assert!(text.contains(words), "{words:?} is not in {text}");
        }
        assert!(!text.contains("joined"), "{text}");
        let joined = ClassReport { joined_packets: Some(3), ..report().high_rate };
        let raised = Report { delay_promised_us: Some(14_500), high_rate: joined, ..report() }.text();
        assert!(raised.contains("14.5 ms at most, more than the 10 ms"), "{raised}");
        assert!(raised.contains("3 packets came joined"), "{raised}");
    }

    #[test]
    fn without_a_controller_it_is_said_and_what_is_not_known_too() {
        let bare = Report {
            state: State::Unattended,
            delay_us: None,
            delay_promised_us: None,
            low_delay: ClassReport::default(),
            ..report()
        };
        let text = bare.text();
        assert!(text.starts_with("wan0: attached, but its controller is not running\n"), "{text}");
        assert!(text.contains("low delay      ?"), "{text}");
        let json = serde_json::to_value(&bare).expect("JSON");
        assert_eq!(json["state"], "unattended");
        assert!(json["low_delay"]["flows"].is_null());
        assert_eq!(serde_json::from_value::<Report>(json).expect("a report"), bare);
    }
}
