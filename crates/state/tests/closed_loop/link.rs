//! Simulated link with two queues, which reports its counters.

use std::collections::{BTreeMap, VecDeque};

use byway_state::{FlowCounts, LinkId, LinkSample, Policy, QueueObservation, target_backlog};
use byway_units::{Bytes, Duration, Rate, Time};

use crate::world::Packet;

/// Class of a packet: its queue.
pub(crate) const INTERACTIVE: usize = 0;
pub(crate) const OTHER: usize = 1;

/// Kind of a link, by the time at which packets leave it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A packet arrives after its transmission: switches and network cards.
    StoreAndForward,
    /// A packet leaves at once, and the next one waits for tokens: HTB.
    TokenBucket,
}

/// Settings of a link.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LinkSetup {
    pub(crate) kind: Kind,
    pub(crate) rate: Rate,
    pub(crate) propagation: Duration,
    /// Most bytes of each queue.
    pub(crate) buffer: Bytes,
    /// Target backlog that the link names.
    pub(crate) target: Bytes,
    /// True if the link is part of the table.
    pub(crate) is_managed: bool,
    /// Lost packets in a thousand.
    pub(crate) lost_permille: u64,
}

impl LinkSetup {
    pub(crate) fn new(megabits: u64, propagation_ms: u64) -> Self {
        Self {
            kind: Kind::StoreAndForward,
            rate: Rate::from_megabits_per_second(megabits),
            propagation: Duration::from_millis(propagation_ms),
            buffer: Bytes::new(1 << 30),
            target: Bytes::new(1_500),
            is_managed: true,
            lost_permille: 0,
        }
    }

    /// Names the target backlog of fast links.
    pub(crate) fn with_scaled_target(self) -> Self {
        Self { target: target_backlog(self.rate), ..self }
    }

    /// Leaves the link out of the table.
    pub(crate) fn unmanaged(self) -> Self {
        Self { is_managed: false, ..self }
    }

    /// Delay that the link reports: a full packet's time is in it if it stores and forwards.
    pub(crate) fn reported_delay(&self) -> Duration {
        match self.kind {
            Kind::StoreAndForward => self.propagation + Bytes::new(1_500) / self.rate,
            Kind::TokenBucket => self.propagation,
        }
    }
}

/// Simulated link.
pub(crate) struct TestLink {
    pub(crate) id: LinkId,
    pub(crate) setup: LinkSetup,
    pub(crate) queues: [VecDeque<Packet>; 2],
    pub(crate) backlog: [u64; 2],
    pub(crate) sent: [u64; 2],
    /// Rate that is shown to senders.
    pub(crate) shown: Rate,
    pub(crate) policy: Option<Policy>,
    /// Change of what the link reports, if it is faulty.
    pub(crate) misreport: Option<fn(&mut LinkSample)>,
    pub(crate) is_busy: bool,
    /// True if one queue holds the packets of both classes.
    pub(crate) has_one_queue: bool,
    weights: [f64; 2],
    served: [f64; 2],
    seen: BTreeMap<usize, (usize, Time)>,
    samples: u64,
    /// Time and backlog of both queues at each sample.
    pub(crate) trace: Vec<(Time, u64)>,
}

impl TestLink {
    pub(crate) fn new(id: LinkId, setup: LinkSetup) -> Self {
        Self {
            id,
            setup,
            queues: [VecDeque::new(), VecDeque::new()],
            backlog: [0; 2],
            sent: [0; 2],
            shown: setup.rate,
            policy: None,
            misreport: None,
            is_busy: false,
            has_one_queue: false,
            weights: [1.0; 2],
            served: [0.0; 2],
            seen: BTreeMap::new(),
            samples: 0,
            trace: Vec::new(),
        }
    }

    /// Queues a packet. Returns it if there is no space.
    pub(crate) fn enqueue(&mut self, packet: Packet, now: Time) -> Option<Packet> {
        self.seen.insert(packet.flow, (packet.class, now));
        let queue = if self.has_one_queue { INTERACTIVE } else { packet.class };
        if self.backlog[queue] + packet.bytes > self.setup.buffer.count() {
            return Some(packet);
        }
        if self.queues[queue].is_empty() {
            // Weighted fair queueing: an idle queue gains no claim.
            self.served[queue] = self.served[queue].max(self.served[1 - queue]);
        }
        self.backlog[queue] += packet.bytes;
        self.queues[queue].push_back(packet);
        None
    }

    /// Returns the next packet, and the time that its transmission takes.
    pub(crate) fn dequeue(&mut self) -> Option<(Packet, Duration)> {
        let first = match self.queues.each_ref().map(|queue| !queue.is_empty()) {
            [false, false] => return None,
            [true, true] => usize::from(self.served[0] > self.served[1]),
            [true, false] => INTERACTIVE,
            [false, true] => OTHER,
        };
        let packet = self.queues[first].pop_front()?;
        self.backlog[first] -= packet.bytes;
        self.served[first] += packet.bytes as f64 / self.weights[first];
        let time = Bytes::new(packet.bytes) / self.setup.rate;
        Some((packet, time))
    }

    pub(crate) fn count_sent(&mut self, packet: &Packet) {
        self.sent[packet.class] += packet.bytes;
    }

    fn flows(&mut self, now: Time) -> FlowCounts {
        self.seen.retain(|_, (_, at)| now.saturating_since(*at) <= Duration::from_secs(1));
        let count = |of: usize| self.seen.values().filter(|(class, _)| *class == of).count() as u32;
        FlowCounts { interactive: count(INTERACTIVE), other: count(OTHER) }
    }

    /// Runs the policy and takes a sample of the counters.
    pub(crate) fn sample(&mut self, now: Time) -> LinkSample {
        let flows = self.flows(now);
        if let Some(policy) = &mut self.policy {
            let observation = QueueObservation {
                flows,
                other_backlog: Bytes::new(self.backlog[OTHER]),
                other_sent: Bytes::new(self.sent[OTHER]),
            };
            let rates = policy.update(observation, now);
            self.shown = rates.shown;
            let guaranteed = rates.guaranteed.bits_per_second() as f64;
            self.weights = [guaranteed, self.setup.rate.bits_per_second() as f64 - guaranteed];
        }
        self.samples += 1;
        self.trace.push((now, self.backlog[INTERACTIVE]));
        let mut sample = LinkSample {
            incarnation: 1,
            number: self.samples,
            clock: now,
            sent: Bytes::new(if self.has_one_queue {
                self.sent.iter().sum()
            } else {
                self.sent[INTERACTIVE]
            }),
            backlog: Bytes::new(self.backlog[INTERACTIVE]),
            shown: self.shown,
            guaranteed: self.policy.map_or(self.setup.rate, |policy| policy.rates().guaranteed),
            delay: self.setup.reported_delay(),
            target: self.setup.target,
            flows,
        };
        if let Some(misreport) = self.misreport {
            misreport(&mut sample);
        }
        sample
    }
}
