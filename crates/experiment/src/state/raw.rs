//! Settings of links that report their state and of their traffic, as in the file. The doc comments
//! here are the reference of the format.

use byway_config_types::{BytesSetting, DurationSetting, RateSetting, ShareSetting};
use schemars::JsonSchema;
use serde::Deserialize;

/// Links that report their state, and senders that use it.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct StateSetting {
    /// Subject, in one line: for readers of the file.
    #[serde(rename = "title")]
    _title: String,
    /// Purpose, and sources of the numbers: for readers of the file.
    #[serde(default, rename = "description")]
    _description: String,
    /// Length of the run.
    pub(crate) length: DurationSetting,
    /// Time before measuring begins; periods of their own may begin earlier. Default: `"5 s"`.
    pub(crate) settle: Option<DurationSetting>,
    /// The link whose measures have no name of a link. Default: the first.
    pub(crate) observe: Option<String>,
    /// Links in a chain: each begins at the end of the one before.
    pub(crate) link: Vec<ReportingLinkSetting>,
    /// Traffic over the links.
    pub(crate) traffic: Vec<StateTrafficSetting>,
    /// Periods with measures of their own, which end in `@` and the period's name.
    #[serde(default)]
    pub(crate) period: Vec<PeriodSetting>,
}

/// Link, which reports the state of one direction. The other direction has no queue.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ReportingLinkSetting {
    /// Name in paths and measures.
    pub(crate) name: String,
    /// Rate of the link.
    pub(crate) rate: RateSetting,
    /// Propagation delay of one direction.
    pub(crate) delay: DurationSetting,
    /// Time at which packets leave the link. Default: `"store-and-forward"`.
    #[serde(default)]
    pub(crate) kind: LinkKindSetting,
    /// Queues of the link. Default: `"one"`.
    #[serde(default)]
    pub(crate) queues: QueuesSetting,
    /// Size of each queue's buffer, as time at the link's rate, at most a minute.
    /// Default: `"250 ms"`.
    pub(crate) buffer: Option<DurationSetting>,
    /// True if senders get the state of the link. Default: `true`.
    pub(crate) managed: Option<bool>,
    /// Bytes of each flow that are to wait (S). Default: 1,500 bytes, or 1 ms at the link's rate if
    /// that is more.
    pub(crate) target: Option<BytesSetting>,
    /// Rate that the link shows, instead of its own or that of the policy.
    pub(crate) shown: Option<RateSetting>,
    /// Begin of the time in which it shows that rate. Default: `"0 s"`.
    pub(crate) shown_from: Option<DurationSetting>,
    /// For queues by flows: rule for the shown rate. Default: `"corrected"`.
    #[serde(default)]
    pub(crate) policy: PolicySetting,
    /// Time between two reports, 10 ms to 1 s. Default: `"50 ms"`.
    pub(crate) every: Option<DurationSetting>,
    /// Time that a report takes to the senders, at most 5 s. Default: `"0 s"`.
    pub(crate) age: Option<DurationSetting>,
    /// Share of lost reports. Default: `"0 %"`.
    pub(crate) lost: Option<ShareSetting>,
    /// Number of such links in a row. Default: 1.
    pub(crate) count: Option<u32>,
}

/// Time at which packets leave a link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum LinkKindSetting {
    /// After their transmission, as at switches and network cards.
    #[default]
    StoreAndForward,
    /// At once, and the next packet waits for tokens, as with HTB.
    TokenBucket,
}

/// Queues of a link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum QueuesSetting {
    /// One queue for all packets.
    #[default]
    One,
    /// One queue for interactive flows and one for others, which share the link by their numbers of
    /// flows.
    ByFlows,
}

/// Rule for the rate that a link with queues by flows shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum PolicySetting {
    /// Byway's: the published one, and never more than the measured rate of the other queue leaves.
    #[default]
    Corrected,
    /// The published one (Equation 10): all but the margin while the other queue is empty.
    Published,
}

/// Flows of one kind.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct StateTrafficSetting {
    /// Name in measures.
    pub(crate) name: String,
    /// Links of its path, in order.
    pub(crate) path: Vec<String>,
    /// Number of flows. Default: 1.
    pub(crate) count: Option<u32>,
    /// Start of the first flow. Default: `"0 s"`.
    pub(crate) starts: Option<DurationSetting>,
    /// Time from the start of one flow to that of the next. If it is not zero, each start is up to
    /// 20 ms later, by the seed. Default: `"0 s"`.
    pub(crate) apart: Option<DurationSetting>,
    /// Time at which all its flows end. Default: that of the run.
    pub(crate) stops: Option<DurationSetting>,
    /// Probability that a flow with state pauses or continues, at each quarter of a second.
    /// Default: `"0 %"`.
    pub(crate) toggles: Option<ShareSetting>,
    /// Longest additional delay of a packet behind the last link, uniformly random and in order.
    /// Default: `"0 s"`.
    pub(crate) jitter: Option<DurationSetting>,
    /// True for the interactive queue. Default: `true` for senders with state, `false` for others.
    pub(crate) interactive: Option<bool>,
    /// Sender of a flow.
    pub(crate) sends: SenderSetting,
}

/// Sender of a flow.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", tag = "kind")]
pub(crate) enum SenderSetting {
    /// Full packets, with a window from network state.
    State {
        /// Rules of the window. Default: `"corrected"`.
        #[serde(default)]
        rules: RulesSetting,
        /// Packets for each acknowledgment, 1 to 16. Default: 2.
        acks: Option<u32>,
        /// Begins with the history of the links. Default: `true`.
        history: Option<bool>,
    },
    /// TCP at its full rate.
    Tcp {
        /// Congestion control. Default: `"cubic"`.
        #[serde(default)]
        algorithm: TcpAlgorithmSetting,
    },
    /// Full packets at random times, without congestion control.
    Poisson {
        /// Mean rate of IP packets.
        rate: RateSetting,
    },
}

/// Rules of a window from network state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum RulesSetting {
    /// Byway's.
    #[default]
    Corrected,
    /// Equations 1 to 8 of the paper.
    Published,
    /// Equations 1 to 8, with 11 and 12 for old state.
    BacklogFloor,
    /// Equations 1 to 8, with 13 and 14 for old state.
    PublishedBounds,
}

/// Congestion control of TCP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum TcpAlgorithmSetting {
    /// CUBIC (RFC 9438).
    #[default]
    Cubic,
    /// `NewReno` (RFC 5681, 6582).
    Newreno,
}

/// Period with measures of its own.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct PeriodSetting {
    /// Name in measures.
    pub(crate) name: String,
    /// Begin of the period.
    pub(crate) from: DurationSetting,
    /// End of the period. What is later than the end of the run is not measured.
    pub(crate) to: DurationSetting,
    /// Traffic whose first flow is compared with `rate`.
    pub(crate) traffic: Option<String>,
    /// Rate that the flow should have.
    pub(crate) rate: Option<RateSetting>,
    /// Deviation within which the rate counts as reached. Default: `"10 %"`.
    pub(crate) within: Option<ShareSetting>,
}
