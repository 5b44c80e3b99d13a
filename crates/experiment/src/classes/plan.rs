//! Links with classes as meant.

use std::ops::RangeInclusive;
use std::path::Path;

use byway_scenario::classes::{NoPromise, QueuePlan, ThirdClass};
use byway_sched::{Class, Marking};
use byway_sim::Scheduling;
use byway_typed::{Drawn, KeyPath, Problem, Source, TypedDuration};
use byway_units::{Bytes, Duration, Rate};

use super::typed::{TypedClass, TypedClasses, TypedDirection, TypedLink, TypedSends, TypedTcp, TypedTraffic};

/// The longest IP packet here: a segment of 1,000 bytes with its headers.
pub(crate) const PACKET: Bytes = Bytes::new(1_048);

/// The DSCPs of low-delay packets, and of those whose delay is low on average.
const LOW_DELAY_DSCP: u8 = 45;
const LOW_AVERAGE_DSCP: u8 = 34;

/// The shortest and the longest IP packets that sources send: a stamp and headers, and what links here are made for.
const PACKETS: RangeInclusive<u64> = 40..=PACKET.count();

/// How often something may happen in a second.
const FREQUENCIES: RangeInclusive<f64> = 1e-3..=1e5;

/// The longest way over a link, and the longest run.
const DELAY_MAX: Duration = Duration::from_secs(10);
const LENGTH_MAX: Duration = Duration::from_secs(86_400);

/// Most links, and most flows that begin at the beginning.
const LINKS_MAX: u32 = 100;
const FLOWS_MAX: u32 = 10_000;

/// What is run.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) length: Duration,
    pub(crate) settle: Duration,
    /// In a row: each begins where the one before ends.
    pub(crate) links: Vec<PlannedLink>,
    pub(crate) traffics: Vec<Traffic>,
    /// The link at which classes are measured.
    pub(crate) observed: usize,
}

/// A link, in both directions.
#[derive(Clone, Debug)]
pub(crate) struct PlannedLink {
    /// Of several in a row, that of all.
    pub(crate) name: String,
    pub(crate) delay: Duration,
    pub(crate) scheduling: Scheduling,
}

/// Flows that are alike.
#[derive(Clone, Debug)]
pub(crate) struct Traffic {
    pub(crate) name: String,
    pub(crate) class: Class,
    pub(crate) access: Rate,
    /// The mean time from the beginning of one to that of the next.
    pub(crate) starts_every: Duration,
    pub(crate) sends: TypedSends,
    pub(crate) tcp: TypedTcp,
    pub(crate) flows: Vec<PlannedFlow>,
    round_trip: Option<Drawn<TypedDuration>>,
}

/// A flow, or a source of short ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PlannedFlow {
    /// Its first link and the one behind its last.
    pub(crate) links: (usize, usize),
    pub(crate) is_back: bool,
}

impl Traffic {
    /// The DSCP of its packets.
    pub(crate) const fn dscp(&self) -> u8 {
        match self.class {
            Class::HighRate => 0,
            Class::LowDelay => LOW_DELAY_DSCP,
            Class::LowAverage => LOW_AVERAGE_DSCP,
        }
    }

    /// The way from the sender to the first link, and from the last link to the receiver: what is left of half the round trip.
    pub(crate) fn access_delay(&self, fraction: f64, links: Duration) -> Duration {
        let round_trip = self.round_trip.as_ref().map_or(Duration::ZERO, |drawn| drawn.at(fraction).0);
        (round_trip / 2).saturating_sub(links) / 2
    }
}

/// Understands a file, whose text is of this table.
///
/// # Errors
/// If something in it is wrong; the error names the key and the remedy.
pub(crate) fn read(file: &Path, text: String) -> Result<Plan, Problem> {
    let source = Source::new(file, text);
    let typed: TypedClasses = toml::from_str(source.text()).map_err(|error| source.parse_problem(&error))?;
    Reader { source: &source }.plan(&typed)
}

struct Reader<'a> {
    source: &'a Source,
}

impl Reader<'_> {
    fn plan(&self, typed: &TypedClasses) -> Result<Plan, Problem> {
        let mut links = Vec::new();
        for (place, link) in typed.link.iter().enumerate() {
            let here = KeyPath::of("link").place(place);
            let planned = self.link(link, &here)?;
            let count = link.count.unwrap_or(1);
            if count > LINKS_MAX {
                let message = format!("{count} links are more than {LINKS_MAX}: have fewer");
                return Err(self.source.problem(&here.key("count"), message));
            }
            links.extend((0..count).map(|_| planned.clone()));
        }
        if links.is_empty() {
            return Err(self.source.problem(&KeyPath::of("link"), "there is none: give at least one"));
        }
        let observed = match &typed.observe {
            Some(name) => self.link_of(name, &links, &KeyPath::of("observe"))?,
            None => 0,
        };
        let traffics = typed.traffic.iter().enumerate();
        let traffics = traffics
            .map(|(place, traffic)| self.traffic(traffic, &links, &KeyPath::of("traffic").place(place)));
        if typed.length.0 > LENGTH_MAX {
            let message = format!("{} is too long: have {LENGTH_MAX} at most", typed.length.0);
            return Err(self.source.problem(&KeyPath::of("length"), message));
        }
        let settle = typed.settle.map_or(Duration::from_secs(5), |settle| settle.0);
        if settle >= typed.length.0 {
            let message = format!("{settle} is the whole length: have less");
            return Err(self.source.problem(&KeyPath::of("settle"), message));
        }
        let traffics = traffics.collect::<Result<_, _>>()?;
        Ok(Plan { length: typed.length.0, settle, traffics, links, observed })
    }

    fn link(&self, typed: &TypedLink, here: &KeyPath) -> Result<PlannedLink, Problem> {
        let rate = typed.rate.0;
        if typed.delay.0 > DELAY_MAX {
            let message = format!("{} is too long: have {DELAY_MAX} at most", typed.delay.0);
            return Err(self.source.problem(&here.key("delay"), message));
        }
        if rate.is_zero() {
            return Err(self.source.problem(&here.key("rate"), "0 bit/s carry nothing: give a rate"));
        }
        let buffer = typed.buffer.map_or(Duration::from_millis(250), |buffer| buffer.0);
        let room = rate.bytes_in(buffer).unwrap_or(Bytes::MAX);
        if room < PACKET + PACKET {
            let message = format!("{buffer} of {rate} is no room for two packets of {PACKET}: have more");
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
        };
        let broken = |NoPromise { key, error }| self.source.problem(&here.key(key), error);
        let queueing = plan.queueing(rate, PACKET, room).map_err(broken)?;
        let marking = Marking::default();
        let marking = if typed.average { marking.with_low_average(LOW_AVERAGE_DSCP) } else { marking };
        let scheduling = Scheduling { rate, queueing, marking, packet: PACKET };
        Ok(PlannedLink { name: typed.name.clone(), delay: typed.delay.0, scheduling })
    }

    fn traffic(
        &self,
        typed: &TypedTraffic,
        links: &[PlannedLink],
        here: &KeyPath,
    ) -> Result<Traffic, Problem> {
        let span = self.span(&typed.path, links, &here.key("path"))?;
        let spans =
            if typed.each { (span.0..span.1).map(|link| (link, link + 1)).collect() } else { vec![span] };
        let count = typed.count.unwrap_or(1);
        if count > FLOWS_MAX {
            let message = format!("{count} flows are more than {FLOWS_MAX}: have fewer");
            return Err(self.source.problem(&here.key("count"), message));
        }
        let directions: &[bool] = match typed.direction {
            TypedDirection::Forth => &[false],
            TypedDirection::Back => &[true],
            TypedDirection::Both => &[false, true],
        };
        let mut flows = Vec::new();
        for links in spans {
            for is_back in directions {
                flows.extend((0..count).map(|_| PlannedFlow { links, is_back: *is_back }));
            }
        }
        let starts = typed.starts.unwrap_or(100.0);
        let per_second = match &typed.sends {
            TypedSends::Short { per_second, .. } | TypedSends::Dummies { per_second, .. } => *per_second,
            TypedSends::Bulk {} | TypedSends::Constant { .. } | TypedSends::Voice {} => 1.0,
        };
        for (key, frequency) in [("starts", starts), ("sends", per_second)] {
            if !FREQUENCIES.contains(&frequency) {
                let message =
                    format!("{frequency} in a second are hardly any or too many: have 0.001 to 100000");
                return Err(self.source.problem(&here.key(key), message));
            }
        }
        self.check_sends(typed, here)?;
        Ok(Traffic {
            name: typed.name.clone(),
            class: match typed.class {
                TypedClass::HighRate => Class::HighRate,
                TypedClass::LowDelay => Class::LowDelay,
                TypedClass::LowAverage => Class::LowAverage,
            },
            access: typed.access.map_or(Rate::from_megabits_per_second(200), |access| access.0),
            starts_every: interval(starts),
            sends: typed.sends.clone(),
            tcp: typed.tcp,
            flows,
            round_trip: typed.round_trip.clone(),
        })
    }

    /// That what is sent is possible.
    fn check_sends(&self, typed: &TypedTraffic, here: &KeyPath) -> Result<(), Problem> {
        let refused = |key: &'static str, message: String| Err(self.source.problem(&here.key(key), message));
        let packet = match &typed.sends {
            TypedSends::Constant { packet, .. } | TypedSends::Dummies { packet, .. } => *packet,
            TypedSends::Bulk {} | TypedSends::Short { .. } | TypedSends::Voice {} => None,
        };
        if let Some(packet) = packet.filter(|packet| !PACKETS.contains(&packet.0.count())) {
            let (least, most) = (Bytes::new(*PACKETS.start()), Bytes::new(*PACKETS.end()));
            return refused(
                "sends",
                format!("packets of {} are none that are sent here: {least} to {most}", packet.0),
            );
        }
        if let TypedSends::Constant { rate, packet } = &typed.sends {
            let bytes = packet.map_or(Bytes::new(1_000), |packet| packet.0);
            let every = rate.0.time_for(bytes).unwrap_or(Duration::MAX);
            if every < Duration::from_micros(1) || every > DELAY_MAX {
                return refused(
                    "sends",
                    format!("{} is a packet each {every}: have one each 1 us to {DELAY_MAX}", rate.0),
                );
            }
        }
        if let TypedSends::Short { shape: Some(shape), .. } = typed.sends
            && (shape.is_nan() || shape <= 1.0)
        {
            return refused("sends", format!("a shape of {shape} has no mean: have more than 1"));
        }
        if let Some(window) = typed.tcp.initial_window.filter(|window| !(1..=1_000).contains(window)) {
            return refused("tcp", format!("{window} segments are no initial window: have 1 to 1000"));
        }
        let round_trips = typed.round_trip.iter().flat_map(Drawn::extremes);
        if let Some(long) = round_trips.map(|time| time.0).find(|time| *time > DELAY_MAX) {
            return refused("round_trip", format!("{long} is too long: have {DELAY_MAX} at most"));
        }
        if typed.access.is_some_and(|access| access.0.is_zero()) {
            return refused("access", "0 bit/s carry nothing: give a rate".to_owned());
        }
        Ok(())
    }

    /// The first link of a name.
    fn link_of(&self, name: &str, links: &[PlannedLink], here: &KeyPath) -> Result<usize, Problem> {
        links.iter().position(|link| link.name == name).ok_or_else(|| {
            let mut names: Vec<&str> = links.iter().map(|link| link.name.as_str()).collect();
            names.dedup();
            let message = format!("no link is called {name:?}: there are {}", names.join(", "));
            self.source.problem(here, message)
        })
    }

    /// Which links a path takes.
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
                    "the link {name:?} does not begin where the one before ends: links stand in a row"
                );
                return Err(self.source.problem(here, message));
            }
            first.get_or_insert(at);
            next = at + links[at..].iter().take_while(is_named).count();
        }
        match first {
            Some(first) => Ok((first, next)),
            None => Err(self.source.problem(here, "it takes no link: name at least one")),
        }
    }
}

/// The mean time between what happens so often in a second.
pub(crate) fn interval(per_second: f64) -> Duration {
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "it is between a microsecond and what saturates"
    )]
    Duration::from_nanos((1e9 / per_second) as u64)
}
