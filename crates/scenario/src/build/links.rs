//! From what a file says of links to the links of a world.

use byway_sim::{Bottleneck, GilbertElliott, Jitter, Link, Loss, RecordedCapacity, Reordering, Seed, Span};
use byway_typed::{Drawn, Quantity};
use byway_units::{Bytes, Duration, Probability, Rate, Time};

use crate::limits::QUEUE_MIN;
use crate::scenario::{Capacity, LinkChange, LinkPlan, LinkShape, LossShape, OutageShape};

/// A direction of a link.
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

/// A link as it is now, and what its file says of it.
#[derive(Debug)]
pub(crate) struct Laid<'a> {
    pub(crate) link: Link,
    shape: &'a LinkShape,
}

impl<'a> Laid<'a> {
    /// One direction of what a seed made of a shape.
    pub(super) fn new(
        link: &Link,
        shape: &'a LinkShape,
        plan: &LinkPlan,
        direction: Direction,
        seed: Seed,
    ) -> Self {
        Self { link: shifted(link, shape, plan, direction, seed), shape }
    }

    /// What a step changes about it is so from now on.
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
            link.loss = losses.filter_map(|(loss, nth)| drawn_loss(loss, own.numbered(nth))).collect();
        }
    }
}

/// The link that a seed makes of a shape.
pub(super) fn drawn_link(shape: &LinkShape, plan: &LinkPlan, length: Duration, own: Seed) -> Link {
    let losses = shape.loss.iter().zip(0..);
    let outages = shape.outages.iter().zip(0_u64..);
    let outages = outages.filter(|(outage, _)| outage.member.is_none_or(|member| member == plan.member));
    let mut link = Link {
        scheduling: None,
        bottleneck: None,
        // Of measured delays, the median stands for all where ways are compared.
        delay: match &shape.measured {
            Some(measured) => measured.median(),
            None => drawn(&shape.delay, own, "delay").0,
        },
        measured: shape.measured.clone(),
        jitter: Jitter { max: drawn(&shape.jitter, own, "jitter").0, may_reorder: shape.reorders },
        reordering: Reordering { probability: shape.detours, detour: shape.detour },
        loss: losses.filter_map(|(loss, nth)| drawn_loss(loss, own.named("loss").numbered(nth))).collect(),
        outages: outages
            .flat_map(|(outage, nth)| drawn_outages(outage, length, own.named("outage").numbered(nth)))
            .collect(),
        ip_bytes_max: shape.mtu,
        duplication: shape.duplication,
        corruption: shape.corruption,
        bleaches_ecn: shape.bleaches_ecn,
        marks_congestion: false,
    };
    match &shape.capacity {
        Capacity::Unlimited => {}
        Capacity::Rate(rate) => set_rate(&mut link, shape, drawn(rate, own, "rate").0),
        Capacity::Recorded(capacity) => link.bottleneck = Some(recorded(capacity, shape.queue)),
    }
    link
}

/// When a link is dark in a scenario of this length.
fn drawn_outages(outage: &OutageShape, length: Duration, own: Seed) -> Vec<Span> {
    if own.named("on").sequence().fraction() >= outage.on.value() {
        return Vec::new();
    }
    let dark = |nth: u64| drawn(&outage.length, own.numbered(nth), "for").0;
    let mut spans = vec![Span::new(Time::START + drawn(&outage.at, own, "at").0, dark(0))];
    let mut pauses = own.named("every").sequence();
    while let (Some(every), Some(last)) = (outage.every, spans.last()) {
        let next = last.until.saturating_add(pauses.exponential(every));
        if next >= Time::START + length {
            break;
        }
        spans.push(Span::new(next, dark(spans.len() as u64)));
    }
    spans
}

/// Has a link carry this at most, behind the queue that its shape has.
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

/// A rate that was checked, and what waits before it.
fn bottleneck(rate: Rate, queue: Option<Bytes>) -> Bottleneck {
    let queue = queue.unwrap_or_else(|| usual_queue(rate));
    Bottleneck::new(rate, queue).expect("rates were checked when the file was read")
}

fn recorded(capacity: &RecordedCapacity, queue: Option<Bytes>) -> Bottleneck {
    Bottleneck::recorded(capacity.clone(), queue.unwrap_or_else(|| usual_queue(capacity.mean_rate())))
}

/// What waits before a bottleneck, if nobody says otherwise: 100 ms of its rate, or a packet.
fn usual_queue(rate: Rate) -> Bytes {
    rate.bytes_in(Duration::from_millis(100)).unwrap_or_default().max(QUEUE_MIN)
}

/// The link with what was recorded from another place on: paths of one recording are not alike. Capacities and delays of the
/// first link of a table begin at their beginning, forth.
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
        if let Loss::Recorded(trace) = loss {
            *trace = trace.begun_at(own.numbered(nth).sequence().bits());
        }
    }
    link
}

fn drawn_loss(loss: &LossShape, seed: Seed) -> Option<Loss> {
    match loss {
        LossShape::Independent(share) => Some(Loss::Independent(drawn(share, seed, "share").0)),
        LossShape::Recorded(trace) => Some(Loss::Recorded(trace.clone())),
        LossShape::Chain { first, next } => Some(Loss::Chain { first: *first, next: *next }),
        LossShape::GilbertElliott(model) => Some(Loss::GilbertElliott(*model)),
        LossShape::Bursts { share, burst, every } => {
            let share = drawn(share, seed, "share").0;
            // No loss at all has no bursts.
            (share > Probability::ZERO).then(|| {
                let bursts = GilbertElliott::bursts(share, *burst, *every);
                Loss::GilbertElliott(bursts.expect("bursts were checked when the file was read"))
            })
        }
    }
}

fn drawn<T: Quantity>(value: &Drawn<T>, seed: Seed, name: &str) -> T {
    value.at(seed.named(name).sequence().fraction())
}
