//! What is between machines.

use std::collections::BTreeSet;

use byway_sim::{GilbertElliott, MeasuredDelays, Recorded, RecordedCapacity, Stay};
use byway_typed::{Drawn, KeyPath, Problem, TypedDuration, TypedRate};
use byway_units::{Duration, Probability};

use super::names::{Names, matched};
use super::{Reader, element};
use crate::classes::{Classes, NoPromise, TypedQueue};
use crate::limits::{DELAY_MAX, LENGTH_MAX, LINKS_MAX, OUTAGES_EVERY_MIN, QUEUE_MIN};
use crate::scenario::{Capacity, LinkPlan, LinkShape, LossShape, OutageShape};
use crate::typed::{TypedDelays, TypedLink, TypedLoss, TypedOutage, TypedStay};

/// The largest of a DSCP's six bits (RFC 2474).
const DSCP_MAX: u8 = 63;

/// The ends of a table's links.
struct Ends {
    pairs: Vec<(usize, usize)>,
    is_both_ways: bool,
}

impl Reader<'_> {
    pub(super) fn links(
        &self,
        typed: &[TypedLink],
        names: &Names,
    ) -> Result<(Vec<LinkShape>, Vec<LinkPlan>), Problem> {
        let (mut shapes, mut links, mut joined) = (Vec::new(), Vec::new(), BTreeSet::new());
        for (place, link) in typed.iter().enumerate() {
            let here = element("link", place);
            let Ends { pairs, is_both_ways } = self.ends(&here, link, names)?;
            for (from, to) in &pairs {
                let is_new = joined.insert((*from, *to)) & (!is_both_ways || joined.insert((*to, *from)));
                if !is_new {
                    let (from, to) = (names.name(*from), names.name(*to));
                    let message = format!(
                        "{from} and {to} are joined by another link already: take one of the two out"
                    );
                    return Err(self.problem(&here, message));
                }
            }
            let count = u32::try_from(pairs.len()).unwrap_or(u32::MAX);
            shapes.push(self.shape(&here, link, count)?);
            let shape = shapes.len() - 1;
            let plan = |((from, to), member)| LinkPlan { from, to, is_both_ways, shape, member };
            links.extend(pairs.into_iter().zip(1..).map(plan));
            if links.len() > LINKS_MAX {
                return Err(self
                    .problem(&here, format!("there are more than {LINKS_MAX} links: join fewer machines")));
            }
        }
        Ok((shapes, links))
    }

    fn ends(&self, here: &KeyPath, link: &TypedLink, names: &Names) -> Result<Ends, Problem> {
        let (from, to, is_both_ways) = match (&link.between, &link.from, &link.to) {
            (Some([one, other]), None, None) => {
                let path = here.key("between");
                (names.members(self, &path, one)?, names.members(self, &path, other)?, true)
            }
            (None, Some(from), Some(to)) => {
                let from = names.members(self, &here.key("from"), from)?;
                (from, names.members(self, &here.key("to"), to)?, false)
            }
            _ => {
                let message = "a link has `between = [\"one\", \"other\"]` for both directions, or `from` and `to` for one";
                return Err(self.problem(here, message));
            }
        };
        let path = if is_both_ways { here.key("between") } else { here.key("to") };
        let pairs = matched(from, to).map_err(|message| self.problem(&path, message))?;
        if pairs.iter().any(|(one, other)| one == other) {
            return Err(self.problem(&path, "this joins a machine with itself: name another one"));
        }
        Ok(Ends { pairs, is_both_ways })
    }

    fn shape(&self, here: &KeyPath, link: &TypedLink, count: u32) -> Result<LinkShape, Problem> {
        let nothing = || Drawn::Fixed(TypedDuration(Duration::ZERO));
        for (key, time) in [("delay", &link.delay), ("jitter", &link.jitter)] {
            let times = time.iter().flat_map(Drawn::extremes);
            self.no_longer_than(&here.key(key), times.map(|time| time.0), DELAY_MAX)?;
        }
        self.no_longer_than(&here.key("detour"), link.detour.map(|time| time.0), DELAY_MAX)?;
        if link.detours.is_some() != link.detour.is_some() {
            return Err(
                self.problem(here, "`detours` (which share) and `detour` (how much longer) go together")
            );
        }
        let losses = link.loss.iter().enumerate();
        let losses = losses.map(|(place, loss)| self.loss(&here.key("loss").place(place), loss));
        let outages = link.outage.iter().enumerate();
        let outages =
            outages.map(|(place, outage)| self.outage(&here.key("outage").place(place), outage, count));
        let share = |share: Option<byway_typed::TypedShare>| share.map_or(Probability::ZERO, |share| share.0);
        Ok(LinkShape {
            name: link.name.clone(),
            delay: link.delay.clone().unwrap_or_else(nothing),
            jitter: link.jitter.clone().unwrap_or_else(nothing),
            reorders: link.reorders.unwrap_or(false),
            detours: share(link.detours),
            detour: link.detour.map_or(Duration::ZERO, |detour| detour.0),
            measured: link.delays.as_ref().map(|delays| self.delays(here, link, delays)).transpose()?,
            capacity: self.capacity(here, link)?,
            queue: link.queue.map(|queue| queue.0),
            classes: self.classes(here, link)?,
            loss: losses.collect::<Result<_, _>>()?,
            outages: outages.collect::<Result<_, _>>()?,
            mtu: link.mtu.map(|mtu| mtu.0),
            duplication: share(link.duplication),
            corruption: share(link.corruption),
            bleaches_ecn: link.bleaches_ecn.unwrap_or(false),
        })
    }

    fn capacity(&self, here: &KeyPath, link: &TypedLink) -> Result<Capacity, Problem> {
        if let Some(queue) = link.queue.filter(|queue| queue.0 < QUEUE_MIN) {
            let message = format!("{} holds no whole packet: at least {QUEUE_MIN}", queue.0);
            return Err(self.problem(&here.key("queue"), message));
        }
        let has_none = |rate: &Drawn<TypedRate>| rate.extremes().iter().any(|rate| rate.0.is_zero());
        match (&link.rate, &link.capacity) {
            (Some(_), Some(_)) => Err(self.problem(&here.key("capacity"), "says all: leave `rate` out")),
            (Some(rate), None) if has_none(rate) => {
                Err(self.problem(&here.key("rate"), "is 0: give more, or an outage"))
            }
            (Some(rate), None) => Ok(Capacity::Rate(rate.clone())),
            (None, Some(file)) => {
                self.trace(&here.key("capacity"), file, RecordedCapacity::parse).map(Capacity::Recorded)
            }
            (None, None) if link.queue.is_some() => {
                let message = "nothing waits before a link without `rate` or `capacity`: give one";
                Err(self.problem(&here.key("queue"), message))
            }
            (None, None) => Ok(Capacity::Unlimited),
        }
    }

    fn classes(&self, here: &KeyPath, link: &TypedLink) -> Result<Option<Classes>, Problem> {
        let Some(typed) = &link.classes else {
            return Ok(None);
        };
        let path = here.key("classes");
        let Some(rate) = &link.rate else {
            let message = "only a `rate` has classes: give one, in the place of a recorded `capacity`";
            return Err(self.problem(&path, message));
        };
        if let Some(key) = typed.key_of_rate_delay().filter(|_| typed.kind != TypedQueue::RateDelay) {
            let message =
                "only `rate-delay` promises anything: leave it out, or have `kind = \"rate-delay\"`";
            return Err(self.problem(&path.key(key), message));
        }
        for (key, dscps) in [("dscp", &typed.dscp), ("average_dscp", &typed.average_dscp)] {
            if let Some(dscp) = dscps.iter().flatten().find(|dscp| **dscp > DSCP_MAX) {
                let message =
                    format!("{dscp} is no DSCP: they are 0 to {DSCP_MAX}, a TOS byte divided by four");
                return Err(self.problem(&path.key(key), message));
            }
        }
        if let Some(key) = typed.key_of_third_class() {
            let message =
                "there is no third class without `average_dscp`: leave it out, or say whose class it is";
            return Err(self.problem(&path.key(key), message));
        }
        if let Some(dscp) = typed.dscp_of_two_classes() {
            let message = format!("{dscp} means low delay, too: a DSCP means one class");
            return Err(self.problem(&path.key("average_dscp"), message));
        }
        let classes = typed.meaning();
        for rate in rate.extremes() {
            let queue = link.queue.map(|queue| queue.0);
            classes.scheduling(rate.0, queue).map_err(|NoPromise { key, error }| {
                let path = if key == "rate" { here.key(key) } else { path.key(key) };
                self.problem(&path, error)
            })?;
        }
        Ok(Some(classes))
    }

    fn delays(
        &self,
        here: &KeyPath,
        link: &TypedLink,
        delays: &TypedDelays,
    ) -> Result<MeasuredDelays, Problem> {
        let path = here.key("delays");
        if link.delay.is_some() {
            return Err(self.problem(&path, "says all: leave `delay` out"));
        }
        let (every, late) = (delays.every.map(|every| every.0), delays.late.map(|late| late.0));
        let parse = |text: &str| MeasuredDelays::parse(text, every, late);
        self.trace(&path.key("trace"), &delays.trace, parse)
    }

    pub(super) fn loss(&self, here: &KeyPath, loss: &TypedLoss) -> Result<LossShape, Problem> {
        if loss.first.is_some() || loss.next.is_some() {
            return self.chain(here, loss);
        }
        if let (Some(good), Some(bad)) = (loss.good, loss.bad) {
            if loss.share.is_some() || loss.burst.is_some() || loss.every.is_some() || loss.trace.is_some() {
                return Err(self.problem(here, "{ good, bad } say all: leave the rest out"));
            }
            let stay = |stay: TypedStay| Stay { mean: stay.length.0, loss: stay.share.0 };
            return GilbertElliott::new(stay(good), stay(bad))
                .map(LossShape::GilbertElliott)
                .map_err(|error| self.problem(here, error));
        }
        match (&loss.share, loss.burst, loss.every, &loss.trace) {
            _ if loss.good.is_some() || loss.bad.is_some() => {
                Err(self.problem(here, "a path has two states: give `good` and `bad`"))
            }
            (Some(share), None, None, None) => Ok(LossShape::Independent(share.clone())),
            (Some(share), Some(burst), Some(every), None) => {
                for share in share.extremes().into_iter().filter(|share| share.0 > Probability::ZERO) {
                    GilbertElliott::bursts(share.0, burst, every.0)
                        .map_err(|error| self.problem(&here.key("burst"), error))?;
                }
                Ok(LossShape::Bursts { share: share.clone(), burst, every: every.0 })
            }
            (None, None, Some(every), Some(trace)) => {
                let parse = |text: &str| Recorded::parse(every.0, text);
                self.trace(&here.key("trace"), trace, parse).map(LossShape::Recorded)
            }
            _ => Err(self.problem(
                here,
                "a loss is one of { share }, { share, burst, every }, { first, next } and { trace, every }",
            )),
        }
    }

    /// Losses whose memory lasts from one packet to the next.
    fn chain(&self, here: &KeyPath, loss: &TypedLoss) -> Result<LossShape, Problem> {
        let others = [
            loss.share.is_some(),
            loss.burst.is_some(),
            loss.every.is_some(),
            loss.trace.is_some(),
            loss.good.is_some(),
            loss.bad.is_some(),
        ];
        match (loss.first, loss.next) {
            _ if others.contains(&true) => {
                Err(self.problem(here, "{ first, next } say all: leave the rest out"))
            }
            (Some(first), Some(next)) => Ok(LossShape::Chain { first: first.0, next: next.0 }),
            _ => Err(self.problem(here, "bursts begin and go on: give `first` and `next`")),
        }
    }

    fn outage(&self, here: &KeyPath, outage: &TypedOutage, count: u32) -> Result<OutageShape, Problem> {
        if outage.link.is_some_and(|nth| !(1..=count).contains(&nth)) {
            let message = format!("there are {count} links here: name one from 1 to {count}");
            return Err(self.problem(&here.key("link"), message));
        }
        for (key, time) in [("at", &outage.at), ("for", &outage.length)] {
            self.no_longer_than(&here.key(key), time.extremes().into_iter().map(|time| time.0), LENGTH_MAX)?;
        }
        if outage.every.is_some_and(|every| every.0 < OUTAGES_EVERY_MIN) {
            let message = format!("is too often: at least {OUTAGES_EVERY_MIN}");
            return Err(self.problem(&here.key("every"), message));
        }
        Ok(OutageShape {
            at: outage.at.clone(),
            length: outage.length.clone(),
            member: outage.link,
            on: outage.on.map_or(Probability::ONE, |share| share.0),
            every: outage.every.map(|every| every.0),
        })
    }
}
