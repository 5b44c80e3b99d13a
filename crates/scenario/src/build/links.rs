//! Conversion of link settings to the links of a world.

use byway_config_types::{Quantity, Sampled};
use byway_sim::{Bottleneck, CapacityTrace, GilbertElliott, Jitter, Link, Loss, Reordering, Seed, Span};
use byway_units::{Bytes, Duration, Probability, Rate, Time};

use crate::limits::QUEUE_MIN;
use crate::scenario::{Capacity, LinkChange, LinkPlan, LinkShape, LossShape, OutageShape};

/// Direction of a link: from its first machine to its second, or in reverse.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    Forth,
    Back,
}

impl Direction {
    const fn name(self) -> &'static str {
        match self {
            Self::Forth => "forth",
            Self::Back => "back",
        }
    }
}

/// One direction of a link between machines: its current properties, and its settings.
#[derive(Debug)]
pub(crate) struct ResolvedLink<'a> {
    pub(crate) link: Link,
    shape: &'a LinkShape,
}

impl<'a> ResolvedLink<'a> {
    /// Creates one direction of a link from a shape whose random values are drawn.
    pub(super) fn new(
        link: &Link,
        shape: &'a LinkShape,
        plan: &LinkPlan,
        direction: Direction,
        seed: Seed,
    ) -> Self {
        Self { link: shifted(link, shape, plan, direction, seed), shape }
    }

    /// Applies a scenario step's change of delay, rate or loss.
    pub(super) fn change(&mut self, change: &LinkChange, own: Seed) {
        let link = &mut self.link;
        if let Some(delay) = change.delay {
            (link.delay, link.measured) = (delay, None);
        }
        if let Some(rate) = change.rate {
            set_rate(link, self.shape, rate);
        }
        if let Some(losses) = &change.loss {
            let losses = losses.iter().zip(0..);
            link.loss = losses.filter_map(|(loss, nth)| sampled_loss(loss, own.numbered(nth))).collect();
        }
    }
}

/// Returns the link whose random values a seed draws from a shape.
pub(super) fn sampled_link(shape: &LinkShape, plan: &LinkPlan, length: Duration, own: Seed) -> Link {
    let losses = shape.loss.iter().zip(0..);
    let outages = shape.outages.iter().zip(0_u64..);
    let outages = outages.filter(|(outage, _)| outage.member.is_none_or(|member| member == plan.member));
    let mut link = Link {
        scheduling: None,
        bottleneck: None,
        // The median of measured delays represents them in the comparison of paths.
        delay: match &shape.measured {
            Some(measured) => measured.median(),
            None => sampled(&shape.delay, own, "delay").0,
        },
        measured: shape.measured.clone(),
        jitter: Jitter { max: sampled(&shape.jitter, own, "jitter").0, may_reorder: shape.reorders },
        reordering: Reordering { probability: shape.detours, detour: shape.detour },
        loss: losses.filter_map(|(loss, nth)| sampled_loss(loss, own.named("loss").numbered(nth))).collect(),
        outages: outages
            .flat_map(|(outage, nth)| sampled_outages(outage, length, own.named("outage").numbered(nth)))
            .collect(),
        ip_bytes_max: shape.mtu,
        duplication: shape.duplication,
        corruption: shape.corruption,
        bleaches_ecn: shape.bleaches_ecn,
        marks_congestion: false,
    };
    match &shape.capacity {
        Capacity::Unlimited => {}
        Capacity::Rate(rate) => set_rate(&mut link, shape, sampled(rate, own, "rate").0),
        Capacity::Recorded(capacity) => link.bottleneck = Some(recorded(capacity, shape.queue)),
    }
    link
}

/// Returns the outages that a seed draws for a link, in a scenario of this length.
fn sampled_outages(outage: &OutageShape, length: Duration, own: Seed) -> Vec<Span> {
    if own.named("on").sequence().fraction() >= outage.on.value() {
        return Vec::new();
    }
    let outage_length = |nth: u64| sampled(&outage.length, own.numbered(nth), "for").0;
    let mut spans = vec![Span::new(Time::START + sampled(&outage.at, own, "at").0, outage_length(0))];
    let mut pauses = own.named("every").sequence();
    while let (Some(every), Some(last)) = (outage.every, spans.last()) {
        let next = last.until.saturating_add(pauses.exponential(every));
        if next >= Time::START + length {
            break;
        }
        spans.push(Span::new(next, outage_length(spans.len() as u64)));
    }
    spans
}

/// Sets the rate of a link, with the queue of its shape.
fn set_rate(link: &mut Link, shape: &LinkShape, rate: Rate) {
    match &shape.classes {
        None => link.bottleneck = Some(bottleneck(rate, shape.queue)),
        Some(classes) => {
            let scheduling = classes.scheduling(rate, shape.queue);
            link.scheduling =
                Some(scheduling.expect("classes were checked with each rate when the file was read"));
        }
    }
}

/// Creates a bottleneck with a validated rate and a queue.
fn bottleneck(rate: Rate, queue: Option<Bytes>) -> Bottleneck {
    let queue = queue.unwrap_or_else(|| default_queue(rate));
    Bottleneck::new(rate, queue).expect("rates were checked when the file was read")
}

fn recorded(capacity: &CapacityTrace, queue: Option<Bytes>) -> Bottleneck {
    Bottleneck::recorded(capacity.clone(), queue.unwrap_or_else(|| default_queue(capacity.mean_rate())))
}

/// Returns the default queue of a bottleneck: 100 ms of its rate, or a packet.
fn default_queue(rate: Rate) -> Bytes {
    rate.bytes_in(Duration::from_millis(100)).unwrap_or_default().max(QUEUE_MIN)
}

/// Returns the link with an offset into its recordings, because paths with the same recording must
/// differ. The first link of a table replays capacities and delays from their beginning, in the
/// forward direction.
fn shifted(link: &Link, shape: &LinkShape, plan: &LinkPlan, direction: Direction, seed: Seed) -> Link {
    let own = seed.named(direction.name()).numbered(plan.shape as u64).numbered(plan.member.into());
    let mut link = link.clone();
    let is_first = plan.member == 1 && direction == Direction::Forth;
    let begin = |name| if is_first { 0 } else { own.named(name).sequence().bits() };
    if let Capacity::Recorded(capacity) = &shape.capacity {
        link.bottleneck = Some(recorded(&capacity.begun_at(begin("capacity")), shape.queue));
    }
    link.measured = link.measured.map(|measured| measured.begun_at(begin("delays")));
    for (loss, nth) in link.loss.iter_mut().zip(0..) {
        if let Loss::Trace(trace) = loss {
            *trace = trace.begun_at(own.numbered(nth).sequence().bits());
        }
    }
    link
}

fn sampled_loss(loss: &LossShape, seed: Seed) -> Option<Loss> {
    match loss {
        LossShape::Independent(share) => Some(Loss::Independent(sampled(share, seed, "share").0)),
        LossShape::Trace(trace) => Some(Loss::Trace(trace.clone())),
        LossShape::Gilbert { first, next } => Some(Loss::Gilbert { first: *first, next: *next }),
        LossShape::GilbertElliott(model) => Some(Loss::GilbertElliott(*model)),
        LossShape::Bursts { share, burst, every } => {
            let share = sampled(share, seed, "share").0;
            // A loss rate of zero has no bursts.
            (share > Probability::ZERO).then(|| {
                let bursts = GilbertElliott::bursts(share, *burst, *every);
                Loss::GilbertElliott(bursts.expect("bursts were checked when the file was read"))
            })
        }
    }
}

fn sampled<T: Quantity>(value: &Sampled<T>, seed: Seed, name: &str) -> T {
    value.at(seed.named(name).sequence().fraction())
}
