//! Status report of a link, for people and programs.

use std::fmt::Write as _;

use byway_net::ClassCounters;
use byway_units::{Bytes, Duration, Rate};
use serde::{Deserialize, Serialize};

use super::link_config::ShareRule;
use super::record::AttachRecord;
use super::report_status::ReportStatus;
use crate::table::aligned;

/// Status report of a link, which its controller or `byway link status` makes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct LinkReport {
    /// Name of the device.
    pub(super) device: String,
    /// State of Byway's installation at the device.
    pub(super) state: LinkState,
    /// Description of a problem, for people; `None` without one.
    pub(super) note: Option<String>,
    /// Process of the link's controller, even if it has ended.
    pub(super) process: u32,
    /// True if the link's device is administratively up.
    pub(super) is_up: bool,
    /// Rate of the link.
    pub(super) rate_bits_per_second: u64,
    /// Ratio between the rates of a high-rate flow and of a low-delay flow, if the link shares by
    /// ratio.
    pub(super) ratio: f64,
    /// Shares by flows; `None` if the link shares by ratio.
    #[serde(default)]
    pub(super) by_flows: Option<FlowShares>,
    /// Packets with low delay.
    #[serde(flatten)]
    pub(super) marks: MarksReport,
    /// Requested bound of the low-delay sojourn time, in microseconds.
    pub(super) delay_us: Option<u64>,
    /// Bound of the low-delay sojourn time with the present flows and packets, in microseconds.
    pub(super) delay_promised_us: Option<u64>,
    /// Reports to a controller of network state; `None` without one.
    #[serde(default)]
    pub(super) network_state: Option<ReportStatus>,
    /// Status of the high-rate class.
    pub(super) high_rate: ClassReport,
    /// Status of the low-delay class.
    pub(super) low_delay: ClassReport,
}

/// Packets that a link serves with low delay.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct MarksReport {
    /// DSCPs of low-delay packets.
    pub(super) dscps: Vec<u8>,
    /// True if the traffic class byte 0x12, as a whole, marks low-delay packets.
    pub(super) is_tos_literal: bool,
    /// True if registered flows are low-delay, too.
    #[serde(default)]
    pub(super) accepts_registrations: bool,
}

/// Shares of a link by the numbers of flows. Rates are `None` without a controller.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct FlowShares {
    /// Least share of the rate for low-delay flows, in percent.
    pub(super) floor_percent: f64,
    /// Rate of the low-delay class while both classes are backlogged (`R_L`).
    pub(super) guaranteed_bits_per_second: Option<u64>,
    /// Rate that senders of low-delay flows may count on (`R_S`).
    pub(super) shown_bits_per_second: Option<u64>,
}

/// State of Byway's installation at a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum LinkState {
    /// All parts are in place, and a controller adapts the classes.
    Attached,
    /// Another program has removed or replaced a part.
    Displaced,
    /// No controller adapts the classes, because it has ended.
    Unattended,
}

/// Status of one class of a link. Without a controller, the values that only it knows are `None`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ClassReport {
    /// Approximate number of flows in the class.
    pub(super) flows: Option<u32>,
    /// Rate of the class while both classes are backlogged.
    pub(super) rate_bits_per_second: Option<u64>,
    /// Longest queue of the class, in bytes.
    pub(super) buffer_bytes: Option<u64>,
    /// Bytes in the class's queue.
    pub(super) backlog_bytes: u64,
    /// Bytes that the class has sent.
    pub(super) sent_bytes: u64,
    /// Packets that the class has sent, modulo 2^32.
    pub(super) sent_packets: u32,
    /// Packets that the class dropped at its full queue, modulo 2^32.
    pub(super) dropped_full_packets: u32,
    /// Longest recent packet of the class, in bytes.
    pub(super) max_packet_bytes: Option<u32>,
    /// Packets of the class that the kernel had joined from several (GSO).
    pub(super) gso_packets: Option<u64>,
}

impl ClassReport {
    /// Returns the status of a class that the kernel's counters show. Other values are `None`.
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
            or_unknown(self.buffer_bytes.map(Bytes::new)),
            Bytes::new(self.sent_bytes).to_string(),
            self.dropped_full_packets.to_string(),
            or_unknown(self.max_packet_bytes.map(|bytes| Bytes::new(bytes.into()))),
        ]
    }
}

impl LinkReport {
    /// Returns the status of a link without a controller, from its record and the status of its
    /// classes.
    pub(super) fn of_record(record: &AttachRecord, high_rate: ClassReport, low_delay: ClassReport) -> Self {
        Self {
            device: record.device.clone(),
            state: LinkState::Unattended,
            note: None,
            process: record.process,
            is_up: false,
            rate_bits_per_second: record.terms.rate().bits_per_second(),
            ratio: f64::from(record.terms.ratio().0) / 1_000.0,
            by_flows: (record.terms.share() == ShareRule::Flows).then(|| FlowShares {
                floor_percent: record.terms.floor_percent(),
                guaranteed_bits_per_second: None,
                shown_bits_per_second: None,
            }),
            marks: MarksReport::default(),
            delay_us: None,
            delay_promised_us: None,
            network_state: None,
            high_rate,
            low_delay,
        }
    }

    /// Formats the status of the link for people.
    pub(super) fn text(&self) -> String {
        let mut text = format!("{}: ", self.device);
        text.push_str(match self.state {
            LinkState::Attached if self.is_up => "attached",
            LinkState::Attached => "attached; the device is down",
            LinkState::Displaced => "attached, but displaced",
            LinkState::Unattended => "attached, but its controller is not running",
        });
        if let Some(note) = &self.note {
            let _ = write!(text, ": {note}");
        }
        let rate = Rate::from_bits_per_second(self.rate_bits_per_second);
        let marks: Vec<String> = self.marks.dscps.iter().map(u8::to_string).collect();
        let _ = match &self.by_flows {
            None => {
                write!(
                    text,
                    "\n{rate}; a high-rate flow gets {} times the rate of a low-delay one",
                    self.ratio
                )
            }
            Some(shares) => write!(
                text,
                "\n{rate}, shared by flows; low-delay flows get at least {} %",
                shares.floor_percent
            ),
        };
        if !marks.is_empty() {
            let _ = write!(text, "; DSCP {}", marks.join(", "));
        }
        if self.marks.is_tos_literal {
            text.push_str("; TOS 0x12");
        }
        if self.marks.accepts_registrations {
            text.push_str("; registered flows");
        }
        text.push('\n');
        text.push_str(&self.promise());
        let head = ["class", "flows", "rate", "backlog", "buffer", "sent", "dropped", "max packet"];
        let rows = [head.map(String::from), self.high_rate.row("high rate"), self.low_delay.row("low delay")];
        text.push_str(&aligned(&rows));
        let joined =
            [&self.high_rate, &self.low_delay].iter().filter_map(|class| class.gso_packets).sum::<u64>();
        if joined > 0 {
            let _ = writeln!(
                text,
                "{joined} packets arrived joined, and leave as one: switch this off at the ingress \
                 device (ethtool -K DEVICE gro off)"
            );
        }
        if let Some(reports) = &self.network_state {
            let _ = writeln!(text, "{reports}");
        }
        text
    }

    fn promise(&self) -> String {
        if let Some(shares) = &self.by_flows {
            let rates = shares.guaranteed_bits_per_second.zip(shares.shown_bits_per_second);
            return rates.map_or_else(String::new, |(guaranteed, shown)| {
                let [guaranteed, shown] = [guaranteed, shown].map(Rate::from_bits_per_second);
                format!("low-delay flows: {guaranteed} guaranteed, {shown} shown to senders\n")
            });
        }
        let time = |micros: u64| Duration::from_micros(micros).to_string();
        match (self.delay_us, self.delay_promised_us) {
            (Some(wanted), Some(promised)) if promised > wanted => format!(
                "low-delay sojourn time at most {}, above the requested {}: these flows and packet \
                 sizes do not permit less\n",
                time(promised),
                time(wanted)
            ),
            (_, Some(promised)) => format!("low-delay sojourn time at most {}\n", time(promised)),
            _ => String::new(),
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in super::super) fn report() -> LinkReport {
        let class = ClassReport {
            flows: Some(10),
            rate_bits_per_second: Some(50_000_000),
            buffer_bytes: Some(38_638),
            max_packet_bytes: Some(1_514),
            gso_packets: Some(0),
            ..ClassReport::default()
        };
        LinkReport {
            device: "wan0".into(),
            state: LinkState::Attached,
            note: None,
            process: 7,
            is_up: true,
            rate_bits_per_second: 100_000_000,
            ratio: 2.5,
            by_flows: None,
            marks: MarksReport { dscps: vec![4, 45, 46], ..MarksReport::default() },
            delay_us: Some(10_000),
            delay_promised_us: Some(10_000),
            network_state: None,
            high_rate: class.clone(),
            low_delay: class,
        }
    }

    #[test]
    fn people_read_what_holds_and_what_does_not() {
        let text = report().text();
        for words in
            ["wan0: attached\n", "100 Mbit/s", "2.5 times", "DSCP 4, 45, 46", "sojourn time at most 10 ms\n"]
        {
            assert!(text.contains(words), "{words:?} is not in {text}");
        }
        assert!(!text.contains("joined"), "{text}");
        let joined = ClassReport { gso_packets: Some(3), ..report().high_rate };
        let raised = LinkReport { delay_promised_us: Some(14_500), high_rate: joined, ..report() }.text();
        assert!(raised.contains("at most 14.5 ms, above the requested 10 ms"), "{raised}");
        assert!(raised.contains("3 packets arrived joined"), "{raised}");
    }

    #[test]
    fn of_shares_by_flows_the_guaranteed_and_the_shown_rate_are_reported() {
        let by_flows = FlowShares {
            floor_percent: 20.5,
            guaranteed_bits_per_second: Some(2_500_000),
            shown_bits_per_second: Some(4_900_000),
        };
        let shared = LinkReport {
            by_flows: Some(by_flows),
            marks: MarksReport { accepts_registrations: true, ..report().marks },
            delay_us: None,
            delay_promised_us: None,
            ..report()
        };
        let text = shared.text();
        for words in [
            "100 Mbit/s, shared by flows; low-delay flows get at least 20.5 %; DSCP 4, 45, 46; registered flows\n",
            "low-delay flows: 2.5 Mbit/s guaranteed, 4.9 Mbit/s shown to senders\n",
        ] {
            assert!(text.contains(words), "{words:?} is not in {text}");
        }
        assert!(!text.contains("sojourn"), "{text}");
        let json = serde_json::to_value(&shared).expect("JSON");
        assert_eq!(json["by_flows"]["shown_bits_per_second"], 4_900_000);
        let reporting = LinkReport { network_state: Some(ReportStatus::new("core-1")), ..shared };
        assert!(reporting.text().contains("\nnetwork state of core-1: connecting; 0 samples sent"));
        // A controller of a version without such shares does not report them.
        let mut before = serde_json::to_value(report()).expect("JSON");
        for field in ["by_flows", "network_state"] {
            before.as_object_mut().and_then(|report| report.remove(field)).expect("it is null");
        }
        assert_eq!(serde_json::from_value::<LinkReport>(before).expect("a report"), report());
    }

    #[test]
    fn without_a_controller_it_is_said_and_what_is_not_known_too() {
        let bare = LinkReport {
            state: LinkState::Unattended,
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
        assert_eq!(serde_json::from_value::<LinkReport>(json).expect("a report"), bare);
    }
}
