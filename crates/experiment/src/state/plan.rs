//! Plan of a run of the study of network state, validated from its file.

use std::ops::RangeInclusive;
use std::path::Path;

use byway_config_types::{KeyPath, Problem, Source};
use byway_sched::{Class, Marking, Settings, Sharing};
use byway_sim::{QueueDiscipline, SchedulerSettings};
use byway_state::{Rules, target_backlog};
use byway_units::{Bytes, Duration, Probability, Rate};

use super::hosts::PACKET_BYTES;
use super::raw::{
    LinkKindSetting, PeriodSetting, PolicySetting, QueuesSetting, ReportingLinkSetting, RulesSetting,
    SenderSetting, StateSetting, StateTrafficSetting, TcpAlgorithmSetting,
};

/// Longest IP packet: a full packet of a sender, and a segment of TCP with its UDP header.
pub(crate) const PACKET: Bytes = Bytes::new(PACKET_BYTES as u64);

/// DSCP of packets for the interactive queue.
const INTERACTIVE_DSCP: u8 = 45;

/// Range of the rates of links.
const RATES: RangeInclusive<Rate> =
    Rate::from_kilobits_per_second(64)..=Rate::from_megabits_per_second(10_000);

/// Range of the time between two reports of a link.
const REPORT_INTERVALS: RangeInclusive<Duration> = Duration::from_millis(10)..=Duration::from_secs(1);

/// Longest age of a report: tables drop older entries.
const AGE_MAX: Duration = Duration::from_secs(5);

/// Range of the target backlogs that a link may name.
const TARGETS: RangeInclusive<Bytes> = Bytes::new(64)..=Bytes::new(16 << 20);

/// Longest buffer, delay of a link, jitter and run.
const BUFFER_MAX: Duration = Duration::from_secs(60);
const DELAY_MAX: Duration = Duration::from_secs(1);
const LENGTH_MAX: Duration = Duration::from_secs(86_400);

/// Most links, and most flows of a traffic.
const LINKS_MAX: u32 = 30;
const FLOWS_MAX: u32 = 1_000;

/// Range of the number of packets for each acknowledgment, of which windows allow for 16.
const ACK_PACKETS: RangeInclusive<u32> = 1..=16;

/// Validated plan of a run of the study of network state.
#[derive(Clone, Debug)]
pub(crate) struct StatePlan {
    pub(crate) length: Duration,
    /// Links in a chain: each begins at the router at which its predecessor ends.
    pub(crate) links: Vec<PlannedReporter>,
    pub(crate) traffics: Vec<StateTraffic>,
    /// Periods of measures; the first has no name.
    pub(crate) periods: Vec<Period>,
    /// Index of the link whose measures have no name of a link.
    pub(crate) observed: usize,
}

/// Link of a plan, which reports its state.
#[derive(Clone, Debug)]
pub(crate) struct PlannedReporter {
    pub(crate) name: String,
    pub(crate) rate: Rate,
    pub(crate) propagation: Duration,
    pub(crate) is_token_bucket: bool,
    /// Size of each queue's buffer, as time at the link's rate.
    pub(crate) buffer: Duration,
    pub(crate) scheduling: SchedulerSettings,
    /// Class of interactive packets.
    pub(crate) class: Class,
    pub(crate) target: Bytes,
    /// Shown rate instead of the usual one, from a time on.
    pub(crate) shown: Option<(Rate, Duration)>,
    pub(crate) policy: PolicySetting,
    pub(crate) reporting: Reporting,
}

/// Reports of a link on their path to the senders.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reporting {
    pub(crate) is_managed: bool,
    pub(crate) every: Duration,
    pub(crate) age: Duration,
    pub(crate) lost: Probability,
}

/// Flows of one kind over the same links.
#[derive(Clone, Debug)]
pub(crate) struct StateTraffic {
    pub(crate) name: String,
    /// Indices of the first link, and of the link after the last one.
    pub(crate) links: (usize, usize),
    pub(crate) count: u32,
    pub(crate) starts: Duration,
    pub(crate) apart: Duration,
    pub(crate) stops: Duration,
    pub(crate) toggles: Probability,
    pub(crate) jitter: Duration,
    pub(crate) dscp: u8,
    pub(crate) sends: SenderSetting,
}

/// Period with measures of its own.
#[derive(Clone, Debug)]
pub(crate) struct Period {
    /// Name in measures; `None` for the time after the warm-up.
    pub(crate) name: Option<String>,
    pub(crate) from: Duration,
    pub(crate) to: Duration,
    pub(crate) expected: Option<ExpectedRate>,
}

/// Rate that the first flow of a traffic should have.
#[derive(Clone, Debug)]
pub(crate) struct ExpectedRate {
    pub(crate) traffic: usize,
    pub(crate) megabits: f64,
    pub(crate) within: f64,
}

impl PlannedReporter {
    /// Returns the delay that the link reports: a full packet's time is in it if it stores and
    /// forwards.
    pub(crate) fn reported_delay(&self) -> Duration {
        if self.is_token_bucket { self.propagation } else { self.propagation + PACKET / self.rate }
    }

    /// Returns the delay of the simulated link, which stores and forwards. A token bucket lets a
    /// full packet go before its transmission instead of after it.
    pub(crate) fn simulated_delay(&self) -> Duration {
        self.reported_delay().saturating_sub(PACKET / self.rate)
    }
}

impl StatePlan {
    /// Returns the round trip of a full packet and its acknowledgment without queues.
    pub(crate) fn base_round_trip(&self, traffic: &StateTraffic) -> Duration {
        let links = &self.links[traffic.links.0..traffic.links.1];
        links.iter().map(|link| link.reported_delay() + link.propagation).sum()
    }
}

impl StatePlan {
    /// Returns the receive window of TCP: a quarter more than queues and path hold. So TCP loses
    /// packets, and always has some in a queue.
    ///
    /// With a larger window, slow start overfills a queue by as much as it holds, and
    /// retransmissions are lost, too. This TCP has neither `HyStart` nor RACK: it times out, and
    /// leaves the link idle for seconds.
    pub(crate) fn receive_window(&self, traffic: &StateTraffic) -> Bytes {
        let links = &self.links[traffic.links.0..traffic.links.1];
        let rate = links.iter().map(|link| link.rate).min().unwrap_or(Rate::from_bits_per_second(0));
        let queues: Bytes = links.iter().map(|link| link.rate * link.buffer).sum();
        let held = queues + rate * self.base_round_trip(traffic);
        Bytes::new(held.count() / 4 * 5)
    }
}

/// Returns the size of each queue's buffer, as time at the link's rate.
fn buffer(typed: &ReportingLinkSetting) -> Duration {
    typed.buffer.map_or(Duration::from_millis(250), |buffer| buffer.0)
}

impl RulesSetting {
    pub(crate) const fn rules(self) -> Rules {
        match self {
            Self::Corrected => Rules::CORRECTED,
            Self::Published => Rules::PUBLISHED,
            Self::BacklogFloor => Rules::BACKLOG_FLOOR,
            Self::PublishedBounds => Rules::PUBLISHED_BOUNDS,
        }
    }
}

/// Reads and validates the file of a plan.
///
/// # Errors
/// If something in it is invalid; the error names the key and the remedy.
pub(crate) fn read(file: &Path, text: String) -> Result<StatePlan, Problem> {
    let source = Source::new(file, text);
    let typed: StateSetting = toml::from_str(source.text()).map_err(|error| source.parse_problem(&error))?;
    StatePlanReader { source: &source }.plan(&typed)
}

struct StatePlanReader<'a> {
    source: &'a Source,
}

impl StatePlanReader<'_> {
    fn plan(&self, typed: &StateSetting) -> Result<StatePlan, Problem> {
        let length = typed.length.0;
        let settle = typed.settle.map_or(Duration::from_secs(5), |settle| settle.0);
        if length > LENGTH_MAX || settle >= length {
            let message =
                format!("{length} is out of range: more than {settle} to settle, at most {LENGTH_MAX}");
            return Err(self.source.problem(&KeyPath::of("length"), message));
        }
        let mut links = Vec::new();
        for (index, link) in typed.link.iter().enumerate() {
            let here = KeyPath::of("link").index(index);
            let (planned, count) = (self.link(link, &here)?, link.count.unwrap_or(1));
            self.check(count <= LINKS_MAX, &here.key("count"), format!("too many: at most {LINKS_MAX}"))?;
            links.extend((0..count).map(|_| planned.clone()));
        }
        self.check(!links.is_empty(), &KeyPath::of("link"), "no links: add at least one")?;
        let observed = match &typed.observe {
            Some(name) => self.link_of(name, &links, &KeyPath::of("observe"))?,
            None => 0,
        };
        let mut traffics = Vec::new();
        for (index, traffic) in typed.traffic.iter().enumerate() {
            traffics.push(self.traffic(traffic, &links, length, &KeyPath::of("traffic").index(index))?);
        }
        let mut periods = vec![Period { name: None, from: settle, to: length, expected: None }];
        for (index, period) in typed.period.iter().enumerate() {
            periods.push(self.period(period, &traffics, &KeyPath::of("period").index(index))?);
        }
        Ok(StatePlan { length, links, traffics, periods, observed })
    }

    fn check(&self, is_valid: bool, here: &KeyPath, message: impl std::fmt::Display) -> Result<(), Problem> {
        if is_valid { Ok(()) } else { Err(self.source.problem(here, message)) }
    }

    fn link(&self, typed: &ReportingLinkSetting, here: &KeyPath) -> Result<PlannedReporter, Problem> {
        let (rate, propagation) = (typed.rate.0, typed.delay.0);
        let rates = format!("out of range: {} to {}", RATES.start(), RATES.end());
        self.check(RATES.contains(&rate), &here.key("rate"), &rates)?;
        let shown = typed.shown.map(|shown| shown.0);
        self.check(shown.is_none_or(|shown| RATES.contains(&shown)), &here.key("shown"), &rates)?;
        let is_token_bucket = typed.kind == LinkKindSetting::TokenBucket;
        let least = if is_token_bucket { PACKET / rate } else { Duration::ZERO };
        let is_delay = propagation >= least && propagation <= DELAY_MAX;
        self.check(is_delay, &here.key("delay"), format!("out of range: {least} to {DELAY_MAX}"))?;
        let target = typed.target.map_or(target_backlog(rate), |target| target.0);
        let targets = format!("out of range: {} to {}", TARGETS.start(), TARGETS.end());
        self.check(TARGETS.contains(&target), &here.key("target"), targets)?;
        let shown_from = typed.shown_from.map_or(Duration::ZERO, |from| from.0);
        Ok(PlannedReporter {
            name: typed.name.clone(),
            rate,
            propagation,
            is_token_bucket,
            scheduling: self.scheduling(typed, here)?,
            buffer: buffer(typed),
            class: match typed.queues {
                QueuesSetting::One => Class::HighRate,
                QueuesSetting::ByFlows => Class::LowDelay,
            },
            target,
            shown: shown.map(|shown| (shown, shown_from)),
            policy: typed.policy,
            reporting: self.reporting(typed, here)?,
        })
    }

    fn scheduling(&self, typed: &ReportingLinkSetting, here: &KeyPath) -> Result<SchedulerSettings, Problem> {
        let (rate, key, buffer) = (typed.rate.0, here.key("buffer"), buffer(typed));
        let bytes = rate.bytes_in(buffer).unwrap_or(Bytes::MAX);
        let is_buffer = buffer <= BUFFER_MAX && bytes >= PACKET + PACKET;
        self.check(is_buffer, &key, format!("out of range: two packets to {BUFFER_MAX}"))?;
        // A class of a link that shares by ratio has at least half of the buffer.
        let settings =
            Settings::new(rate, PACKET).map(|settings| settings.with_buffers(bytes + bytes, bytes));
        let settings = settings.and_then(|settings| match typed.queues {
            QueuesSetting::One => Ok(settings),
            QueuesSetting::ByFlows => settings.with_sharing(Sharing::ByFlows { floor_milli: 0 }),
        });
        let settings = settings.map_err(|error| self.source.problem(&here.key("rate"), error))?;
        let marking = match typed.queues {
            QueuesSetting::One => Marking::NONE,
            QueuesSetting::ByFlows => Marking::NONE.with(INTERACTIVE_DSCP),
        };
        let discipline = QueueDiscipline::RateDelay(settings);
        Ok(SchedulerSettings { rate, discipline, marking, packet_bytes_max: PACKET })
    }

    fn reporting(&self, typed: &ReportingLinkSetting, here: &KeyPath) -> Result<Reporting, Problem> {
        let every = typed.every.map_or(byway_state::SAMPLE_INTERVAL, |every| every.0);
        let age = typed.age.map_or(Duration::ZERO, |age| age.0);
        let (least, most) = (*REPORT_INTERVALS.start(), *REPORT_INTERVALS.end());
        let is_interval = REPORT_INTERVALS.contains(&every);
        self.check(is_interval, &here.key("every"), format!("out of range: {least} to {most}"))?;
        self.check(age <= AGE_MAX, &here.key("age"), format!("too old: at most {AGE_MAX}"))?;
        let lost = typed.lost.map_or(Probability::ZERO, |lost| lost.0);
        Ok(Reporting { is_managed: typed.managed.unwrap_or(true), every, age, lost })
    }

    fn traffic(
        &self,
        typed: &StateTrafficSetting,
        links: &[PlannedReporter],
        length: Duration,
        here: &KeyPath,
    ) -> Result<StateTraffic, Problem> {
        let links = self.span(&typed.path, links, &here.key("path"))?;
        let count = typed.count.unwrap_or(1);
        self.check(count <= FLOWS_MAX, &here.key("count"), format!("too many: at most {FLOWS_MAX}"))?;
        let jitter = typed.jitter.map_or(Duration::ZERO, |jitter| jitter.0);
        self.check(jitter <= DELAY_MAX, &here.key("jitter"), format!("too long: at most {DELAY_MAX}"))?;
        let [starts, apart] =
            [typed.starts, typed.apart].map(|time| time.map_or(Duration::ZERO, |time| time.0));
        for (key, time) in [("starts", starts), ("apart", apart)] {
            self.check(time <= LENGTH_MAX, &here.key(key), format!("too long: at most {LENGTH_MAX}"))?;
        }
        match &typed.sends {
            SenderSetting::State { acks: Some(acks), .. } => {
                let (least, most) = (*ACK_PACKETS.start(), *ACK_PACKETS.end());
                let message =
                    format!("{acks} packets for an acknowledgment are out of range: {least} to {most}");
                self.check(ACK_PACKETS.contains(acks), &here.key("sends"), message)?;
            }
            SenderSetting::Poisson { rate } => {
                let message = format!("{} is out of range: {} to {}", rate.0, RATES.start(), RATES.end());
                self.check(RATES.contains(&rate.0), &here.key("sends"), message)?;
            }
            SenderSetting::State { .. } | SenderSetting::Tcp { .. } => {}
        }
        let is_interactive = typed.interactive.unwrap_or(matches!(typed.sends, SenderSetting::State { .. }));
        Ok(StateTraffic {
            name: typed.name.clone(),
            links,
            count,
            starts,
            apart,
            stops: typed.stops.map_or(length, |stops| stops.0.min(length)),
            toggles: typed.toggles.map_or(Probability::ZERO, |toggles| toggles.0),
            jitter,
            dscp: if is_interactive { INTERACTIVE_DSCP } else { 0 },
            sends: typed.sends.clone(),
        })
    }

    fn period(
        &self,
        typed: &PeriodSetting,
        traffics: &[StateTraffic],
        here: &KeyPath,
    ) -> Result<Period, Problem> {
        let (from, to) = (typed.from.0, typed.to.0);
        let is_span = from < to && to <= LENGTH_MAX;
        self.check(
            is_span,
            &here.key("to"),
            format!("out of range: more than {from}, at most {LENGTH_MAX}"),
        )?;
        let within = typed.within.map_or(0.1, |within| within.0.value());
        let expected = match (&typed.traffic, typed.rate) {
            (Some(name), Some(rate)) => {
                let traffic = traffics.iter().position(|traffic| traffic.name == *name);
                let traffic = traffic.ok_or_else(|| {
                    self.source.problem(&here.key("traffic"), format!("traffic {name:?} not found"))
                })?;
                Some(ExpectedRate { traffic, megabits: megabits(rate.0), within })
            }
            (None, None) => None,
            _ => {
                let message = "traffic and rate belong together: set both or none";
                return Err(self.source.problem(&here.key("rate"), message));
            }
        };
        Ok(Period { name: Some(typed.name.clone()), from, to, expected })
    }

    /// Returns the index of the first link with this name.
    fn link_of(&self, name: &str, links: &[PlannedReporter], here: &KeyPath) -> Result<usize, Problem> {
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
        links: &[PlannedReporter],
        here: &KeyPath,
    ) -> Result<(usize, usize), Problem> {
        let mut span = None;
        for name in path {
            let at = self.link_of(name, links, here)?;
            let (first, next) = span.unwrap_or((at, at));
            let message = format!("link {name:?} does not start at the end of the one before");
            self.check(at == next, here, message)?;
            span = Some((first, at + links[at..].iter().take_while(|link| link.name == *name).count()));
        }
        span.ok_or_else(|| self.source.problem(here, "no links: name at least one"))
    }
}

/// Returns a rate in Mbit/s.
pub(crate) fn megabits(rate: Rate) -> f64 {
    crate::findings::number(rate.bits_per_second()) / 1e6
}

impl TcpAlgorithmSetting {
    pub(crate) const fn algorithm(self) -> byway_sim::tcp::Algorithm {
        match self {
            Self::Cubic => byway_sim::tcp::Algorithm::Cubic,
            Self::Newreno => byway_sim::tcp::Algorithm::NewReno,
        }
    }
}
