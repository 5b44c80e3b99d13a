//! Description of a wide-area network, which the demo sends to its emulator.

use std::net::SocketAddr;

use anyhow::Context as _;
use byway_sim::{GilbertElliott, Jitter, Link, Loss, Span};
use byway_units::{Duration, Probability, Time};
use serde::{Deserialize, Serialize};

/// Emulated network: nodes by index, and the one-way links between them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Description {
    /// Random seed of the network's jitter and losses.
    pub(crate) seed: u64,
    pub(crate) nodes: Vec<NodeDescription>,
    pub(crate) links: Vec<LinkDescription>,
}

/// Program on the emulated network. It listens at its real address; others know it by its public
/// one, which is a socket of the emulator.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct NodeDescription {
    pub(crate) name: String,
    pub(crate) real: SocketAddr,
    pub(crate) public: SocketAddr,
}

/// One direction between two nodes, as indices into [`Description::nodes`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct LinkDescription {
    pub(crate) from: usize,
    pub(crate) to: usize,
    pub(crate) delay_us: u64,
    /// Longest random addition to the delay; packets stay in order.
    pub(crate) jitter_us: u64,
    /// Probability that the link loses a packet independently of other packets.
    pub(crate) loss: f64,
    pub(crate) bursts: Option<BurstDescription>,
    /// Outages of the link, in milliseconds since the start: begin, end.
    pub(crate) outages_ms: Vec<(u64, u64)>,
}

/// Losses of a link in bursts: loss rate and mean burst length, for packets sent at this interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct BurstDescription {
    pub(crate) loss: f64,
    pub(crate) mean_packets: f64,
    pub(crate) interval_us: u64,
}

impl LinkDescription {
    /// Makes a link of this delay without losses.
    pub(crate) const fn clean(from: usize, to: usize, delay_us: u64, jitter_us: u64) -> Self {
        Self { from, to, delay_us, jitter_us, loss: 0.0, bursts: None, outages_ms: Vec::new() }
    }

    /// Returns the simulated link without its losses, which the emulator uses before the start.
    pub(crate) fn lossless_link(&self) -> Link {
        Link {
            delay: Duration::from_micros(self.delay_us),
            jitter: Jitter { max: Duration::from_micros(self.jitter_us), may_reorder: false },
            ..Link::default()
        }
    }

    /// Returns the simulated link with its losses and outages.
    pub(crate) fn link(&self) -> anyhow::Result<Link> {
        let millis = |millis: u64| Time::START + Duration::from_millis(millis);
        let mut loss = vec![Loss::Independent(Probability::new(self.loss)?)];
        if let Some(bursts) = self.bursts {
            loss.push(Loss::GilbertElliott(bursts.model()?));
        }
        let outages =
            self.outages_ms.iter().map(|&(from, until)| Span { from: millis(from), until: millis(until) });
        Ok(Link { loss, outages: outages.collect(), ..self.lossless_link() })
    }
}

impl BurstDescription {
    fn model(self) -> anyhow::Result<GilbertElliott> {
        let (loss, interval) = (Probability::new(self.loss)?, Duration::from_micros(self.interval_us));
        GilbertElliott::bursts(loss, self.mean_packets, interval).context("invalid burst losses")
    }
}
