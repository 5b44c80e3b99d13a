//! Plan of a run with classes, validated from its file.

use std::ops::RangeInclusive;
use std::path::Path;

use byway_config_types::{DurationSetting, KeyPath, Problem, Sampled, Source};
use byway_scenario::classes::{QueuePlan, QueuePlanError, ThirdClass};
use byway_sched::{Class, Marking, Sharing};
use byway_sim::SchedulerSettings;
use byway_units::{Bytes, Duration, Rate};

use super::raw::{
    ClassSetting, ClassesSetting, DirectionSetting, LinkSetting, SendsSetting, TcpSetting, TrafficSetting,
};

/// Longest IP packet of the study of classes: a segment of 1,000 bytes with its headers.
pub(crate) const PACKET: Bytes = Bytes::new(1_048);

/// DSCPs of low-delay packets, and of packets with a low average delay.
const LOW_DELAY_DSCP: u8 = 45;
const LOW_AVERAGE_DSCP: u8 = 34;

/// Range of the length of a source's IP packets in bytes: from headers with a timestamp to the
/// longest packet of the links.
const PACKETS: RangeInclusive<u64> = 40..=PACKET.count();

/// Range of the rates at which flows or transfers start, per second.
const FREQUENCIES: RangeInclusive<f64> = 1e-3..=1e5;

/// Longest delay of a link or of a round trip, and longest run.
const DELAY_MAX: Duration = Duration::from_secs(10);
const LENGTH_MAX: Duration = Duration::from_secs(86_400);

/// Most links, and most flows from the start.
const LINKS_MAX: u32 = 100;
const FLOWS_MAX: u32 = 10_000;

/// Validated plan of a run of the study of classes: its links and their traffic.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) length: Duration,
    pub(crate) settle: Duration,
    /// Links in a chain, in order: each begins at the router at which its predecessor ends.
    pub(crate) links: Vec<PlannedLink>,
    pub(crate) traffics: Vec<Traffic>,
    /// Index of the link at which classes are measured.
    pub(crate) observed: usize,
}

/// Link of a plan, with the same properties in both directions.
#[derive(Clone, Debug)]
pub(crate) struct PlannedLink {
    /// Name of the link; all links of one table with a `count` share it.
    pub(crate) name: String,
    pub(crate) delay: Duration,
    pub(crate) scheduling: SchedulerSettings,
}

/// Flows of one kind over the same links: their class, senders and number.
#[derive(Clone, Debug)]
pub(crate) struct Traffic {
    pub(crate) name: String,
    pub(crate) class: Class,
    pub(crate) access: Rate,
    /// Mean time between the starts of two flows of this traffic.
    pub(crate) starts_every: Duration,
    pub(crate) sends: SendsSetting,
    pub(crate) tcp: TcpSetting,
    pub(crate) flows: Vec<PlannedFlow>,
    round_trip: Option<Sampled<DurationSetting>>,
}

/// Flow of a traffic, or its source of short transfers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PlannedFlow {
    /// Indices of the flow's first link, and of the link after its last one.
    pub(crate) links: (usize, usize),
    pub(crate) is_back: bool,
}

impl Traffic {
    /// Returns the DSCP of this traffic's packets, which selects their class.
    pub(crate) const fn dscp(&self) -> u8 {
        match self.class {
            Class::HighRate => 0,
            Class::LowDelay => LOW_DELAY_DSCP,
            Class::LowAverage => LOW_AVERAGE_DSCP,
        }
    }

    /// Returns the delay of each of a flow's two access links: half of its one-way delay minus that
    /// of the shared links. `fraction` selects the round trip from its distribution.
    pub(crate) fn access_delay(&self, fraction: f64, links: Duration) -> Duration {
        let round_trip = self.round_trip.as_ref().map_or(Duration::ZERO, |drawn| drawn.at(fraction).0);
        (round_trip / 2).saturating_sub(links) / 2
    }
}

/// Reads and validates the file of a plan.
///
/// # Errors
/// If something in it is invalid; the error names the key and the remedy.
pub(crate) fn read(file: &Path, text: String) -> Result<Plan, Problem> {
    let source = Source::new(file, text);
    let typed: ClassesSetting =
        toml::from_str(source.text()).map_err(|error| source.parse_problem(&error))?;
    PlanReader { source: &source }.plan(&typed)
}

struct PlanReader<'a> {
    source: &'a Source,
}

impl PlanReader<'_> {
    fn plan(&self, typed: &ClassesSetting) -> Result<Plan, Problem> {
        let mut links = Vec::new();
        for (index, link) in typed.link.iter().enumerate() {
            let here = KeyPath::of("link").index(index);
            let planned = self.link(link, &here)?;
            let count = link.count.unwrap_or(1);
            if count > LINKS_MAX {
                let message = format!("too many links, {count}: at most {LINKS_MAX}");
                return Err(self.source.problem(&here.key("count"), message));
            }
            links.extend((0..count).map(|_| planned.clone()));
        }
        if links.is_empty() {
            return Err(self.source.problem(&KeyPath::of("link"), "no links: add at least one"));
        }
        let observed = match &typed.observe {
            Some(name) => self.link_of(name, &links, &KeyPath::of("observe"))?,
            None => 0,
        };
        let traffics = typed.traffic.iter().enumerate();
        let traffics = traffics
            .map(|(index, traffic)| self.traffic(traffic, &links, &KeyPath::of("traffic").index(index)));
        if typed.length.0 > LENGTH_MAX {
            let message = format!("{} is too long: at most {LENGTH_MAX}", typed.length.0);
            return Err(self.source.problem(&KeyPath::of("length"), message));
        }
        let settle = typed.settle.map_or(Duration::from_secs(5), |settle| settle.0);
        if settle >= typed.length.0 {
            let message = format!("{settle} is the whole length: set a shorter time");
            return Err(self.source.problem(&KeyPath::of("settle"), message));
        }
        let traffics = traffics.collect::<Result<_, _>>()?;
        Ok(Plan { length: typed.length.0, settle, traffics, links, observed })
    }

    fn link(&self, typed: &LinkSetting, here: &KeyPath) -> Result<PlannedLink, Problem> {
        let rate = typed.rate.0;
        if typed.delay.0 > DELAY_MAX {
            let message = format!("{} is too long: at most {DELAY_MAX}", typed.delay.0);
            return Err(self.source.problem(&here.key("delay"), message));
        }
        if rate.is_zero() {
            return Err(self.source.problem(&here.key("rate"), "is 0 bit/s: set a rate"));
        }
        let buffer = typed.buffer.map_or(Duration::from_millis(250), |buffer| buffer.0);
        let buffer_bytes = rate.bytes_in(buffer).unwrap_or(Bytes::MAX);
        if buffer_bytes < PACKET + PACKET {
            let message =
                format!("buffer {buffer} of {rate} is smaller than two packets of {PACKET}: set more");
            return Err(self.source.problem(&here.key("buffer"), message));
        }
        let plan = QueuePlan {
            kind: typed.queue,
            bound: typed.bound.map(|bound| bound.0),
            ratio: typed.ratio,
            third: ThirdClass::of(typed.average, typed.spike),
            discards: typed.discards,
            guard: typed.guard,
            marks: typed.ecn,
            sharing: Sharing::ByRatio,
        };
        let broken = |QueuePlanError { key, error }| self.source.problem(&here.key(key), error);
        let queueing = plan.discipline(rate, PACKET, buffer_bytes).map_err(broken)?;
        let marking = Marking::default();
        let marking = if typed.average { marking.with_low_average(LOW_AVERAGE_DSCP) } else { marking };
        let scheduling = SchedulerSettings { rate, discipline: queueing, marking, packet_bytes_max: PACKET };
        Ok(PlannedLink { name: typed.name.clone(), delay: typed.delay.0, scheduling })
    }

    fn traffic(
        &self,
        typed: &TrafficSetting,
        links: &[PlannedLink],
        here: &KeyPath,
    ) -> Result<Traffic, Problem> {
        let span = self.span(&typed.path, links, &here.key("path"))?;
        let spans =
            if typed.each { (span.0..span.1).map(|link| (link, link + 1)).collect() } else { vec![span] };
        let count = typed.count.unwrap_or(1);
        if count > FLOWS_MAX {
            let message = format!("too many flows, {count}: at most {FLOWS_MAX}");
            return Err(self.source.problem(&here.key("count"), message));
        }
        let directions: &[bool] = match typed.direction {
            DirectionSetting::Forth => &[false],
            DirectionSetting::Back => &[true],
            DirectionSetting::Both => &[false, true],
        };
        let mut flows = Vec::new();
        for links in spans {
            for is_back in directions {
                flows.extend((0..count).map(|_| PlannedFlow { links, is_back: *is_back }));
            }
        }
        let starts = typed.starts.unwrap_or(100.0);
        let per_second = match &typed.sends {
            SendsSetting::Short { per_second, .. } | SendsSetting::Dummies { per_second, .. } => *per_second,
            SendsSetting::Bulk {} | SendsSetting::Constant { .. } | SendsSetting::Voice {} => 1.0,
        };
        for (key, frequency) in [("starts", starts), ("sends", per_second)] {
            if !FREQUENCIES.contains(&frequency) {
                let message = format!("{frequency} per second is out of range: 0.001 to 100000");
                return Err(self.source.problem(&here.key(key), message));
            }
        }
        self.check_sends(typed, here)?;
        Ok(Traffic {
            name: typed.name.clone(),
            class: match typed.class {
                ClassSetting::HighRate => Class::HighRate,
                ClassSetting::LowDelay => Class::LowDelay,
                ClassSetting::LowAverage => Class::LowAverage,
            },
            access: typed.access.map_or(Rate::from_megabits_per_second(200), |access| access.0),
            starts_every: interval(starts),
            sends: typed.sends.clone(),
            tcp: typed.tcp,
            flows,
            round_trip: typed.round_trip.clone(),
        })
    }

    /// Checks that the settings of a traffic's packets, TCP and access links are in range.
    fn check_sends(&self, typed: &TrafficSetting, here: &KeyPath) -> Result<(), Problem> {
        let refuse = |key: &'static str, message: String| Err(self.source.problem(&here.key(key), message));
        let packet = match &typed.sends {
            SendsSetting::Constant { packet, .. } | SendsSetting::Dummies { packet, .. } => *packet,
            SendsSetting::Bulk {} | SendsSetting::Short { .. } | SendsSetting::Voice {} => None,
        };
        if let Some(packet) = packet.filter(|packet| !PACKETS.contains(&packet.0.count())) {
            let (least, most) = (Bytes::new(*PACKETS.start()), Bytes::new(*PACKETS.end()));
            return refuse("sends", format!("packet size {} is out of range: {least} to {most}", packet.0));
        }
        if let SendsSetting::Constant { rate, packet } = &typed.sends {
            let bytes = packet.map_or(Bytes::new(1_000), |packet| packet.0);
            let every = rate.0.time_for(bytes).unwrap_or(Duration::MAX);
            if every < Duration::from_micros(1) || every > DELAY_MAX {
                return refuse(
                    "sends",
                    format!(
                        "{} is one packet every {every}: set a rate with one every 1 us to {DELAY_MAX}",
                        rate.0
                    ),
                );
            }
        }
        if let SendsSetting::Short { shape: Some(shape), .. } = typed.sends
            && (shape.is_nan() || shape <= 1.0)
        {
            return refuse("sends", format!("shape {shape} has no mean: set more than 1"));
        }
        if let Some(window) = typed.tcp.initial_window.filter(|window| !(1..=1_000).contains(window)) {
            return refuse("tcp", format!("initial window of {window} segments is out of range: 1 to 1000"));
        }
        let round_trips = typed.round_trip.iter().flat_map(Sampled::extremes);
        if let Some(long) = round_trips.map(|time| time.0).find(|time| *time > DELAY_MAX) {
            return refuse("round_trip", format!("{long} is too long: at most {DELAY_MAX}"));
        }
        if typed.access.is_some_and(|access| access.0.is_zero()) {
            return refuse("access", "is 0 bit/s: set a rate".to_owned());
        }
        Ok(())
    }

    /// Returns the index of the first link with this name.
    fn link_of(&self, name: &str, links: &[PlannedLink], here: &KeyPath) -> Result<usize, Problem> {
        links.iter().position(|link| link.name == name).ok_or_else(|| {
            let mut names: Vec<&str> = links.iter().map(|link| link.name.as_str()).collect();
            names.dedup();
            let message = format!("link {name:?} not found: name one of {}", names.join(", "));
            self.source.problem(here, message)
        })
    }

    /// Returns the links of a path as indices: of the first link, and of the one after the last.
    fn span(
        &self,
        path: &[String],
        links: &[PlannedLink],
        here: &KeyPath,
    ) -> Result<(usize, usize), Problem> {
        let (mut first, mut next) = (None, 0);
        for name in path {
            let is_named = |link: &&PlannedLink| link.name == *name;
            let at = self.link_of(name, links, here)?;
            if first.is_some() && at != next {
                let message = format!(
                    "link {name:?} does not start at the end of the one before: name links in sequence"
                );
                return Err(self.source.problem(here, message));
            }
            first.get_or_insert(at);
            next = at + links[at..].iter().take_while(is_named).count();
        }
        match first {
            Some(first) => Ok((first, next)),
            None => Err(self.source.problem(here, "no links: name at least one")),
        }
    }
}

/// Returns the mean interval of events that happen `per_second` times a second.
pub(crate) fn interval(per_second: f64) -> Duration {
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "it is between a microsecond and what saturates"
    )]
    Duration::from_nanos((1e9 / per_second) as u64)
}
