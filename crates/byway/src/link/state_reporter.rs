//! Reports of a link to a controller: samples of its low-delay class, each 50 ms. In return, the
//! controller names registered flows.
//!
//! The link's loop never waits for the controller. It replaces the latest sample, and a task sends
//! the newest one whenever the connection has space. Samples have counters, so lost ones are
//! merged.

use std::path::PathBuf;
use std::sync::Arc;

use byway_api::{Role, SampleBatch, SampledLink};
use byway_config_types::DurationSetting;
use byway_net::LinkDevice;
use byway_state::{LINK_DELAY_MAX, LINK_RATE_MIN, target_backlog};
use byway_units::Duration;
use clap::Args;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::flow_follower::FlowFollower;
use super::ip_counters::{ClassSample, IpCounters};
use super::limits::PENDING_LINES_MAX;
use super::registration::FlowRegistration;
use super::report_status::{ReportState, ReportStatus};
use super::sample_sender::SampleSender;
use crate::exit::{Cause, Failure};
use crate::membership::{FirewallMark, MembershipSettings, NodeKey, random};
use crate::token::Token;

/// Flags for the reports of a link to a controller.
#[derive(Clone, Debug, Args)]
pub(super) struct ReportFlags {
    /// Report the link's state to the controller of this token, of role link.
    ///
    /// It needs --share flows. The first start needs the token. Later ones use the stored
    /// membership if the token is the same.
    #[arg(long, value_name = "TOKEN", requires = "link")]
    controller: Option<Token>,
    /// Name of the link and of its node in the controller's settings.
    #[arg(long, value_name = "NAME", requires = "controller")]
    link: Option<String>,
    /// Propagation delay of the link, one way [default: 0 s].
    #[arg(long, value_name = "TIME", requires = "controller")]
    propagation: Option<DurationSetting>,
    /// Folder of the link's key and membership [default: /var/lib/byway-link/NAME].
    #[arg(long, value_name = "FOLDER", requires = "controller")]
    membership: Option<PathBuf>,
}

/// Checked settings of the reports of a link.
pub(super) struct ReportSettings {
    link: String,
    propagation: Duration,
    membership: MembershipSettings,
    key: NodeKey,
}

impl ReportFlags {
    /// Returns the settings of the reports; `None` without a controller.
    ///
    /// # Errors
    /// If a setting is invalid, the link does not share by flows, or its key is not readable.
    pub(super) fn settings(&self, shares_by_flows: bool) -> Result<Option<ReportSettings>, Failure> {
        let (Some(token), Some(link)) = (&self.controller, &self.link) else { return Ok(None) };
        if !shares_by_flows {
            let message =
                "--controller has no effect with --share ratio: attach the device with --share flows";
            return Err(Failure::new(Cause::Settings, message));
        }
        let invalid = |message: String| Failure::new(Cause::Settings, message);
        byway_api::checked_name(link).map_err(|error| invalid(format!("--link: {error}")))?;
        let propagation = self.propagation.map_or(Duration::ZERO, |propagation| propagation.0);
        if propagation > LINK_DELAY_MAX {
            return Err(invalid(format!("--propagation {propagation}: give at most {LINK_DELAY_MAX}")));
        }
        let state =
            self.membership.clone().unwrap_or_else(|| PathBuf::from("/var/lib/byway-link").join(link));
        let key = NodeKey::load_or_create(&state.join("key"))?;
        let membership = MembershipSettings {
            state,
            token: Some(token.clone()),
            role: Role::Link,
            name: link.clone(),
            addresses: Vec::new(),
            shards: 1,
            relay: None,
            mark: FirewallMark::default(),
        };
        Ok(Some(ReportSettings { link: link.clone(), propagation, membership, key }))
    }
}

/// Reports of a link, as its loop sees them. If it is dropped, they end.
pub(super) struct StateReporter {
    link: String,
    propagation: Duration,
    counters: IpCounters,
    incarnation: u64,
    number: u64,
    started_at: Instant,
    /// Newest sample; `None` while there are none.
    newest: watch::Sender<Option<SampleBatch>>,
    status: Arc<watch::Sender<ReportStatus>>,
    /// Registered flows that the controller names; none if the link serves no registered flows.
    registrations: mpsc::Receiver<Vec<FlowRegistration>>,
    _tasks: JoinSet<()>,
}

impl StateReporter {
    /// Starts the task that joins the network, reports, and follows the registered flows if the
    /// link `accepts_registrations`. It retries until the link ends.
    pub(super) fn start(settings: ReportSettings, device: &LinkDevice, accepts_registrations: bool) -> Self {
        let ReportSettings { link, propagation, membership, key } = settings;
        let (newest, samples) = watch::channel(None);
        let status = Arc::new(watch::Sender::new(ReportStatus::new(&link)));
        let (sender, registrations) = mpsc::channel(PENDING_LINES_MAX);
        let follower = accepts_registrations.then(|| FlowFollower::new(sender, Arc::clone(&status)));
        let mut samples = SampleSender::new(samples, Arc::clone(&status));
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let client = samples.join(&membership, &key).await;
            match follower {
                None => samples.run(client).await,
                Some(follower) => {
                    let other = client.another();
                    tokio::join!(samples.run(client), follower.run(other));
                }
            }
        });
        Self {
            link,
            propagation,
            counters: IpCounters::new(device.is_ethernet, device.mtu),
            incarnation: u64::from_ne_bytes(random::bytes()),
            number: 0,
            started_at: Instant::now(),
            newest,
            status,
            registrations,
            _tasks: tasks,
        }
    }

    /// Replaces the newest sample. It never waits.
    pub(super) fn publish(&mut self, sample: &ClassSample) {
        self.counters.count(&sample.counters);
        self.number += 1;
        let clock_us = u64::try_from(self.started_at.elapsed().as_micros()).unwrap_or(u64::MAX);
        let batch = SampleBatch {
            incarnation: self.incarnation,
            number: self.number,
            clock_us,
            transit_us: 0,
            links: vec![sampled_link(&self.link, self.propagation, &self.counters, sample)],
        };
        self.newest.send_replace(Some(batch));
    }

    /// Ends the reports at once, until the next sample: another program has displaced the classes.
    pub(super) fn pause(&self) {
        if self.newest.borrow().is_some() {
            self.newest.send_replace(None);
            self.status.send_modify(|status| status.state = ReportState::Paused);
        }
    }

    /// Waits for registered flows that the controller names. It is cancel-safe.
    pub(super) async fn registrations(&mut self) -> Vec<FlowRegistration> {
        match self.registrations.recv().await {
            Some(registrations) => registrations,
            // The link serves no registered flows.
            None => std::future::pending().await,
        }
    }

    /// Returns the status of the reports.
    pub(super) fn status(&self) -> ReportStatus {
        self.status.borrow().clone()
    }
}

/// Returns a sample of IP packets, from a sample of frames.
fn sampled_link(
    link: &str,
    propagation: Duration,
    counters: &IpCounters,
    sample: &ClassSample,
) -> SampledLink {
    // The class has more than its guaranteed rate if that is below the least one of any link.
    let rate = |bits_per_second: u64| counters.ip_part(bits_per_second).max(LINK_RATE_MIN.bits_per_second());
    let [other, interactive] = sample.flows;
    SampledLink {
        link: link.to_owned(),
        sent_bytes: counters.sent().count(),
        backlog_bytes: counters.ip_part(sample.counters.backlog.count()),
        shown_bits_per_second: rate(sample.rates.shown.bits_per_second()),
        guaranteed_bits_per_second: rate(sample.rates.guaranteed.bits_per_second()),
        delay_us: propagation.as_micros(),
        target_bytes: target_backlog(sample.capacity).count(),
        flows: [interactive, other],
    }
}

#[cfg(test)]
mod tests {
    use byway_net::ClassCounters;
    use byway_state::InteractiveRates;
    use byway_units::{Bytes, Rate};

    use super::*;

    fn sample(sent_packets: u32) -> ClassSample {
        let counters = ClassCounters {
            sent: Bytes::new(1_514 * u64::from(sent_packets)),
            sent_packets,
            backlog: Bytes::new(3_028),
            ..ClassCounters::default()
        };
        let rates = InteractiveRates {
            guaranteed: Rate::from_kilobits_per_second(1_514),
            shown: Rate::from_kilobits_per_second(3_028),
        };
        ClassSample { counters, rates, flows: [3, 1], capacity: Rate::from_megabits_per_second(50) }
    }

    #[test]
    fn a_sample_has_bytes_and_rates_of_ip_packets_and_interactive_flows_first() {
        let mut counters = IpCounters::new(true, 1_500);
        counters.count(&sample(10).counters);
        let expected = SampledLink {
            link: "core-1".to_owned(),
            sent_bytes: 15_000,
            backlog_bytes: 3_000,
            shown_bits_per_second: 3_000_000,
            guaranteed_bits_per_second: 1_500_000,
            delay_us: 7_000,
            // 1 ms at 50 Mbit/s.
            target_bytes: 6_250,
            flows: [1, 3],
        };
        let found = sampled_link("core-1", Duration::from_millis(7), &counters, &sample(10));
        assert_eq!(found, expected);
    }

    #[test]
    fn no_rate_is_below_the_least_one_that_a_controller_accepts() {
        let mut slow = sample(1);
        slow.rates.guaranteed = Rate::from_bits_per_second(1);
        let found = sampled_link("a", Duration::ZERO, &IpCounters::new(true, 1_500), &slow);
        assert_eq!(found.guaranteed_bits_per_second, 8_000);
    }

    fn flags(words: &[&str]) -> Result<ReportFlags, clap::Error> {
        #[derive(clap::Parser)]
        struct Command {
            #[command(flatten)]
            flags: ReportFlags,
        }
        let words = ["link"].iter().chain(words);
        <Command as clap::Parser>::try_parse_from(words).map(|command| command.flags)
    }

    #[test]
    fn a_controller_needs_a_valid_name_of_the_link_and_shares_by_flows() {
        let token = Token::new(vec!["127.0.0.1:4443".to_owned()], [1; 32], [2; 32]).expect("a token");
        let text = token.to_text();
        let token = text.as_str();
        assert!(flags(&["--controller", token]).is_err(), "no name");
        assert!(flags(&["--link", "core-1"]).is_err() && flags(&["--propagation", "1 ms"]).is_err());
        assert!(flags(&["--controller", "byway1.x", "--link", "core-1"]).is_err(), "no token");
        assert!(flags(&[]).expect("none is needed").settings(false).expect("valid").is_none());
        let folder = tempfile::tempdir().expect("a folder");
        let place = folder.path().to_str().expect("text");
        let settings = |link: &str, more: &[&str], shares_by_flows: bool| {
            let words = [&["--controller", token, "--link", link, "--membership", place], more].concat();
            let settings = flags(&words).expect("valid words").settings(shares_by_flows);
            settings.map(|settings| settings.map(|settings| settings.link)).map_err(|error| error.to_string())
        };
        assert_eq!(settings("core-1", &["--propagation", "7 ms"], true), Ok(Some("core-1".to_owned())));
        assert!(settings("core-1", &[], false).is_err_and(|message| message.contains("--share flows")));
        assert!(settings("core 1", &[], true).is_err_and(|message| message.contains("--link")));
        let slow = settings("core-1", &["--propagation", "11 s"], true);
        assert!(slow.is_err_and(|message| message.contains("at most 10 s")));
    }
}
