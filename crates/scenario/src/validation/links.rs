//! Validation of links between machines.

use std::collections::BTreeSet;

use byway_config_types::{DurationSetting, KeyPath, Problem, RateSetting, Sampled};
use byway_sim::{CapacityTrace, ChannelState, DelayTrace, GilbertElliott, LossTrace};
use byway_units::{Duration, Probability};

use super::names::{Names, matched};
use super::{Reader, element};
use crate::classes::{Classes, QueuePlanError, QueueSetting};
use crate::limits::{DELAY_MAX, LENGTH_MAX, LINKS_MAX, OUTAGES_EVERY_MIN, QUEUE_MIN};
use crate::raw::{ChannelStateSetting, DelaysSetting, LinkSetting, LossSetting, OutageSetting};
use crate::scenario::{Capacity, LinkPlan, LinkShape, LossShape, OutageShape};

/// Largest DSCP, which has six bits (RFC 2474).
const DSCP_MAX: u8 = 63;

/// Ends of the links that one table of the scenario describes.
struct LinkEnds {
    pairs: Vec<(usize, usize)>,
    is_bidirectional: bool,
}

impl Reader<'_> {
    pub(super) fn links(
        &self,
        typed: &[LinkSetting],
        names: &Names,
    ) -> Result<(Vec<LinkShape>, Vec<LinkPlan>), Problem> {
        let (mut shapes, mut links, mut joined) = (Vec::new(), Vec::new(), BTreeSet::new());
        for (index, link) in typed.iter().enumerate() {
            let here = element("link", index);
            let LinkEnds { pairs, is_bidirectional: is_both_ways } = self.ends(&here, link, names)?;
            for (from, to) in &pairs {
                let is_new = joined.insert((*from, *to)) & (!is_both_ways || joined.insert((*to, *from)));
                if !is_new {
                    let (from, to) = (names.name(*from), names.name(*to));
                    let message = format!("duplicate link between {from} and {to}: remove one of the two");
                    return Err(self.problem(&here, message));
                }
            }
            let count = u32::try_from(pairs.len()).unwrap_or(u32::MAX);
            shapes.push(self.shape(&here, link, count)?);
            let shape = shapes.len() - 1;
            let plan =
                |((from, to), member)| LinkPlan { from, to, is_bidirectional: is_both_ways, shape, member };
            links.extend(pairs.into_iter().zip(1..).map(plan));
            if links.len() > LINKS_MAX {
                return Err(self.problem(&here, format!("too many links: at most {LINKS_MAX}")));
            }
        }
        Ok((shapes, links))
    }

    fn ends(&self, here: &KeyPath, link: &LinkSetting, names: &Names) -> Result<LinkEnds, Problem> {
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
                let message = "ends missing or ambiguous: set `between = [\"one\", \"other\"]` for \
                               both directions, or `from` and `to` for one";
                return Err(self.problem(here, message));
            }
        };
        let path = if is_both_ways { here.key("between") } else { here.key("to") };
        let pairs = matched(from, to).map_err(|message| self.problem(&path, message))?;
        if pairs.iter().any(|(one, other)| one == other) {
            return Err(self.problem(&path, "link of a machine with itself: name another machine"));
        }
        Ok(LinkEnds { pairs, is_bidirectional: is_both_ways })
    }

    fn shape(&self, here: &KeyPath, link: &LinkSetting, count: u32) -> Result<LinkShape, Problem> {
        let nothing = || Sampled::Fixed(DurationSetting(Duration::ZERO));
        for (key, time) in [("delay", &link.delay), ("jitter", &link.jitter)] {
            let times = time.iter().flat_map(Sampled::extremes);
            self.no_longer_than(&here.key(key), times.map(|time| time.0), DELAY_MAX)?;
        }
        self.no_longer_than(&here.key("detour"), link.detour.map(|time| time.0), DELAY_MAX)?;
        if link.detours.is_some() != link.detour.is_some() {
            return Err(self
                .problem(here, "incomplete detour: set both `detours` (share) and `detour` (extra delay)"));
        }
        let losses = link.loss.iter().enumerate();
        let losses = losses.map(|(index, loss)| self.loss(&here.key("loss").index(index), loss));
        let outages = link.outage.iter().enumerate();
        let outages =
            outages.map(|(index, outage)| self.outage(&here.key("outage").index(index), outage, count));
        let share = |share: Option<byway_config_types::ShareSetting>| {
            share.map_or(Probability::ZERO, |share| share.0)
        };
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

    fn capacity(&self, here: &KeyPath, link: &LinkSetting) -> Result<Capacity, Problem> {
        if let Some(queue) = link.queue.filter(|queue| queue.0 < QUEUE_MIN) {
            let message = format!("{} is less than one packet: at least {QUEUE_MIN}", queue.0);
            return Err(self.problem(&here.key("queue"), message));
        }
        let has_none = |rate: &Sampled<RateSetting>| rate.extremes().iter().any(|rate| rate.0.is_zero());
        match (&link.rate, &link.capacity) {
            (Some(_), Some(_)) => {
                Err(self.problem(&here.key("capacity"), "conflicts with `rate`: omit one of them"))
            }
            (Some(rate), None) if has_none(rate) => {
                Err(self.problem(&here.key("rate"), "is 0: set more, or an outage"))
            }
            (Some(rate), None) => Ok(Capacity::Rate(rate.clone())),
            (None, Some(file)) => {
                self.trace(&here.key("capacity"), file, CapacityTrace::parse).map(Capacity::Recorded)
            }
            (None, None) if link.queue.is_some() => {
                let message = "a link without `rate` or `capacity` has no queue: set one of them";
                Err(self.problem(&here.key("queue"), message))
            }
            (None, None) => Ok(Capacity::Unlimited),
        }
    }

    fn classes(&self, here: &KeyPath, link: &LinkSetting) -> Result<Option<Classes>, Problem> {
        let Some(typed) = &link.classes else {
            return Ok(None);
        };
        let path = here.key("classes");
        let Some(rate) = &link.rate else {
            let message = "classes need a `rate`: set one instead of a recorded `capacity`";
            return Err(self.problem(&path, message));
        };
        if let Some(key) = typed.key_of_rate_delay().filter(|_| typed.kind != QueueSetting::RateDelay) {
            let message = "only allowed for `rate-delay`: omit it, or set `kind = \"rate-delay\"`";
            return Err(self.problem(&path.key(key), message));
        }
        if let Some(key) = typed.key_of_other_sharing() {
            let message = "no effect with this `share`: omit the key, or set the other `share`";
            return Err(self.problem(&path.key(key), message));
        }
        for (key, dscps) in [("dscp", &typed.dscp), ("average_dscp", &typed.average_dscp)] {
            if let Some(dscp) = dscps.iter().flatten().find(|dscp| **dscp > DSCP_MAX) {
                let message = format!("invalid DSCP {dscp}: use 0 to {DSCP_MAX}, a TOS byte divided by four");
                return Err(self.problem(&path.key(key), message));
            }
        }
        if let Some(key) = typed.key_of_third_class() {
            let message = "third class without `average_dscp`: omit this key, or set the DSCP of the class";
            return Err(self.problem(&path.key(key), message));
        }
        if let Some(dscp) = typed.dscp_of_two_classes() {
            let message = format!("DSCP {dscp} is already in the low-delay class: use each DSCP once");
            return Err(self.problem(&path.key("average_dscp"), message));
        }
        let classes = typed.validate();
        for rate in rate.extremes() {
            let queue = link.queue.map(|queue| queue.0);
            classes.scheduling(rate.0, queue).map_err(|QueuePlanError { key, error }| {
                let path = if key == "rate" { here.key(key) } else { path.key(key) };
                self.problem(&path, error)
            })?;
        }
        Ok(Some(classes))
    }

    fn delays(
        &self,
        here: &KeyPath,
        link: &LinkSetting,
        delays: &DelaysSetting,
    ) -> Result<DelayTrace, Problem> {
        let path = here.key("delays");
        if link.delay.is_some() {
            return Err(self.problem(&path, "conflicts with `delay`: omit one of them"));
        }
        let (every, late) = (delays.every.map(|every| every.0), delays.late.map(|late| late.0));
        let parse = |text: &str| DelayTrace::parse(text, every, late);
        self.trace(&path.key("trace"), &delays.trace, parse)
    }

    pub(super) fn loss(&self, here: &KeyPath, loss: &LossSetting) -> Result<LossShape, Problem> {
        if loss.first.is_some() || loss.next.is_some() {
            return self.chain(here, loss);
        }
        if let (Some(good), Some(bad)) = (loss.good, loss.bad) {
            if loss.share.is_some() || loss.burst.is_some() || loss.every.is_some() || loss.trace.is_some() {
                return Err(self.problem(here, "{ good, bad } conflicts with other keys: omit these"));
            }
            let stay = |stay: ChannelStateSetting| ChannelState { mean: stay.length.0, loss: stay.share.0 };
            return GilbertElliott::new(stay(good), stay(bad))
                .map(LossShape::GilbertElliott)
                .map_err(|error| self.problem(here, error));
        }
        match (&loss.share, loss.burst, loss.every, &loss.trace) {
            _ if loss.good.is_some() || loss.bad.is_some() => {
                Err(self.problem(here, "incomplete loss of two states: set both `good` and `bad`"))
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
                let parse = |text: &str| LossTrace::parse(every.0, text);
                self.trace(&here.key("trace"), trace, parse).map(LossShape::Trace)
            }
            _ => Err(self.problem(
                here,
                "invalid loss: use one of { share }, { share, burst, every }, { first, next } and { \
                 trace, every }",
            )),
        }
    }

    /// Validates losses whose state changes from packet to packet.
    fn chain(&self, here: &KeyPath, loss: &LossSetting) -> Result<LossShape, Problem> {
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
                Err(self.problem(here, "{ first, next } conflicts with other keys: omit these"))
            }
            (Some(first), Some(next)) => Ok(LossShape::Gilbert { first: first.0, next: next.0 }),
            _ => Err(self.problem(here, "incomplete burst loss: set both `first` and `next`")),
        }
    }

    fn outage(&self, here: &KeyPath, outage: &OutageSetting, count: u32) -> Result<OutageShape, Problem> {
        if outage.link.is_some_and(|nth| !(1..=count).contains(&nth)) {
            let message = format!("out of range: there are {count} links here, so 1 to {count}");
            return Err(self.problem(&here.key("link"), message));
        }
        for (key, time) in [("at", &outage.at), ("for", &outage.length)] {
            self.no_longer_than(&here.key(key), time.extremes().into_iter().map(|time| time.0), LENGTH_MAX)?;
        }
        if outage.every.is_some_and(|every| every.0 < OUTAGES_EVERY_MIN) {
            let message = format!("is too short: at least {OUTAGES_EVERY_MIN}");
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
