//! What a wide-area network is made of, as the demo tells its emulator.

use std::net::SocketAddr;

use anyhow::Context as _;
use byway_sim::{GilbertElliott, Jitter, Link, Loss, Span};
use byway_units::{Duration, Probability, Time};
use serde::{Deserialize, Serialize};

/// A network: nodes by their place, and the one-way links between them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Description {
    /// From which all chance follows.
    pub(crate) seed: u64,
    pub(crate) nodes: Vec<NodeDescription>,
    pub(crate) links: Vec<LinkDescription>,
}

/// A program on the network. It listens on its real address; others know it by its public one, which is the
/// emulator's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct NodeDescription {
    pub(crate) name: String,
    pub(crate) real: SocketAddr,
    pub(crate) public: SocketAddr,
}

/// One direction between two nodes, which are named by their place in [`Description::nodes`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct LinkDescription {
    pub(crate) from: usize,
    pub(crate) to: usize,
    pub(crate) delay_us: u64,
    /// The longest addition to the delay; packets keep their order.
    pub(crate) jitter_us: u64,
    /// The share of packets that is lost independently of others.
    pub(crate) loss: f64,
    pub(crate) bursts: Option<BurstDescription>,
    /// When the link is dark, in milliseconds since the start: from, until.
    pub(crate) outages_ms: Vec<(u64, u64)>,
}

/// Losses in bursts: so many packets of those sent at this interval, in bursts of this mean length.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct BurstDescription {
    pub(crate) loss: f64,
    pub(crate) mean_packets: f64,
    pub(crate) interval_us: u64,
}

impl LinkDescription {
    /// A link of this delay that does no harm.
    pub(crate) const fn clean(from: usize, to: usize, delay_us: u64, jitter_us: u64) -> Self {
        Self { from, to, delay_us, jitter_us, loss: 0.0, bursts: None, outages_ms: Vec::new() }
    }

    /// The simulated link without its losses: what there is before the start.
    pub(crate) fn lossless_link(&self) -> Link {
        Link {
            delay: Duration::from_micros(self.delay_us),
            jitter: Jitter { max: Duration::from_micros(self.jitter_us), may_reorder: false },
            ..Link::default()
        }
    }

    /// The simulated link.
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
        GilbertElliott::bursts(loss, self.mean_packets, interval).context("losses in bursts")
    }
}
