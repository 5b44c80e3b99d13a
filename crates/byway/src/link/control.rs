//! Controller of a link's device: counts flows, and sets the classes' shares in the kernel.

use byway_net::{LinkDevice, LinkError, TrafficControl};
use byway_sched::{Marking, Settings};
use byway_units::{Bytes, Time};
use tokio::time::Instant;

use super::classifier::{Classifier, PacketStats};
use super::flow_policy::FlowPolicy;
use super::ip_counters::ClassSample;
use super::limits::PACKET_MAX;
use super::link_config::{ConfigRequest, LinkConfig, ShareRule, frame};
use super::max_packet_size::MaxPacketSizes;
use super::qdisc_setup::{apply, device_failure, missing};
use super::record::{AttachRecord, Records};
use super::registration::FlowRegistration;
use super::report::{ClassReport, FlowShares, LinkReport, LinkState, MarksReport};
use super::sharing::{CLASSES, KernelUpdate, KernelUpdates, LinkShares, kernel_updates};
use crate::exit::{Cause, Failure};

/// Default bound of a low-delay packet's sojourn time.
const DELAY_DEFAULT: byway_units::Duration = byway_units::Duration::from_millis(10);

/// Controller of the link at one device: it counts the classes' flows, and sets their shares in the
/// kernel.
pub(super) struct LinkController {
    pub(super) control: TrafficControl,
    classifier: Classifier,
    records: Records,
    pub(super) record: AttachRecord,
    marking: Marking,
    device: LinkDevice,
    settings: Settings,
    /// Policy that sets the shares; `None` if the link shares by ratio.
    policy: Option<FlowPolicy>,
    started_at: Instant,
    shares: LinkShares,
    /// Kernel updates that wait until packets accepted under an earlier promise have left.
    deferred: Vec<KernelUpdate>,
    flows: [u32; 2],
    max_packet_sizes: MaxPacketSizes,
    gso_packets: [u64; 2],
    /// Description of what another program has changed in the installed classes and filters; `None`
    /// if nothing.
    problem: Option<String>,
}

/// Parts from which a controller is created, after the classes are installed.
pub(super) struct ControllerParts {
    pub(super) control: TrafficControl,
    pub(super) classifier: Classifier,
    pub(super) records: Records,
    pub(super) record: AttachRecord,
    pub(super) marking: Marking,
    pub(super) device: LinkDevice,
    pub(super) settings: Settings,
}

/// Returns the shares of a link before its first packet. With shares by ratio, they assume
/// low-delay packets of the device's longest frame, because the first packet then fits into the
/// queue.
pub(super) fn first_shares(device: &LinkDevice, settings: &Settings) -> LinkShares {
    LinkShares::of(settings, frame(device), [0; 2], frame(device))
}

impl LinkController {
    /// Creates the controller of a device whose classes and filters have just been installed.
    pub(super) fn new(parts: ControllerParts) -> Self {
        let ControllerParts { control, classifier, records, record, marking, device, settings } = parts;
        let shares = first_shares(&device, &settings);
        let policy = settings.policy().map(FlowPolicy::new);
        Self {
            control,
            classifier,
            records,
            record,
            marking,
            device,
            settings,
            policy,
            started_at: Instant::now(),
            shares,
            deferred: Vec::new(),
            flows: [0; 2],
            max_packet_sizes: MaxPacketSizes::default(),
            gso_packets: [0; 2],
            problem: None,
        }
    }

    /// Checks the device, counts its flows and packets, and updates the classes' shares. Returns
    /// the time after which the caller has to call [`Self::apply_deferred`]; `None` if no update
    /// waits.
    ///
    /// # Errors
    /// If the device has disappeared, or the maps are not readable.
    pub(super) fn run_round(&mut self) -> Result<Option<byway_units::Duration>, Failure> {
        self.apply_deferred();
        self.check_device()?;
        self.flows = self.classifier.flows()?;
        let stats = self.classifier.read_stats()?;
        self.gso_packets = stats.map(|stats: PacketStats| stats.gso_packets);
        self.max_packet_sizes.note(stats, self.flows[1]);
        Ok(self.update_shares())
    }

    /// True if the link shares by flows: then the caller calls [`Self::step_policy`] every 50 ms.
    pub(super) const fn shares_by_flows(&self) -> bool {
        self.policy.is_some()
    }

    /// True if another program has displaced the classes or filters.
    pub(super) const fn is_displaced(&self) -> bool {
        self.problem.is_some()
    }

    /// Lets the policy of a link that shares by flows make a step, and sets the classes' rates in
    /// the kernel. Returns the state of the low-delay class. Does nothing if another program has
    /// displaced the classes.
    pub(super) fn step_policy(&mut self) -> Option<ClassSample> {
        let policy = self.policy.as_mut().filter(|_| self.problem.is_none())?;
        let counters = match self.control.classes(self.record.index) {
            Ok(counters) => counters,
            // The next round reports a device that has disappeared.
            Err(error) => {
                tracing::debug!(device = self.device.name, %error, "cannot read the class counters");
                return None;
            }
        };
        let elapsed = u64::try_from(self.started_at.elapsed().as_nanos()).unwrap_or(u64::MAX);
        policy.step(self.flows, &counters, Time::from_nanos(elapsed));
        let rates = policy.rates();
        // After a failed update, the next round tries again, and not each step: each failure is
        // logged.
        if self.shares.is_known() {
            self.update_shares();
        }
        // Another program may have removed the class since the latest round.
        let class = counters.iter().find(|counters| counters.id == CLASSES[1])?;
        Some(ClassSample { counters: *class, rates, flows: self.flows, capacity: self.record.terms.rate() })
    }

    /// Returns the device, as the latest round found it.
    pub(super) const fn device(&self) -> &LinkDevice {
        &self.device
    }

    /// Updates the device's state, and checks whether another program has changed its classes or
    /// filters. Fails if the device no longer exists.
    fn check_device(&mut self) -> Result<(), Failure> {
        self.device = match self.control.device_at(self.record.index) {
            Ok(device) => device,
            Err(LinkError::NoDevice) => return Err(device_removed(&self.record.device)),
            Err(error) => return Err(device_failure(&self.record.device, &error)),
        };
        self.check_installed();
        Ok(())
    }

    /// Checks whether another program has changed the classes or filters at the device. Records and
    /// logs the result, if it is new.
    fn check_installed(&mut self) {
        let deviation =
            missing(&mut self.control, &self.record).unwrap_or_else(|error| Some(error.to_string()));
        if deviation == self.problem {
            return;
        }
        let device = &self.device.name;
        if let Some(deviation) = &deviation {
            tracing::error!(
                device,
                "Byway no longer controls the link: {deviation}; detach it, and attach it again"
            );
        } else {
            tracing::info!(device, "Byway controls the link again");
        }
        self.problem = deviation;
    }

    /// Computes new shares of the classes, and applies those kernel updates that need not wait.
    /// Returns the time for which the others wait; `None` without others, or while the link is
    /// displaced.
    fn update_shares(&mut self) -> Option<byway_units::Duration> {
        if self.problem.is_some() {
            return None;
        }
        let shares = self.shares_now()?;
        let KernelUpdates { now, later, after } = kernel_updates(&self.shares, &shares);
        self.shares = shares;
        self.apply_updates(&now);
        self.deferred = later;
        (!self.deferred.is_empty()).then_some(after)
    }

    /// Returns the shares for the present flows and packet sizes; `None` if the link cannot keep
    /// any promise.
    fn shares_now(&mut self) -> Option<LinkShares> {
        self.settings = self.settings_now()?;
        let frame = frame(&self.device);
        if let (Some(policy), Some(settings)) = (&mut self.policy, self.settings.policy()) {
            policy.set_settings(settings);
            return Some(LinkShares::at_rate(&self.settings, frame, policy.rates().guaranteed));
        }
        let low_delay = self.max_packet_sizes.low_delay().unwrap_or(frame).min(PACKET_MAX);
        Some(LinkShares::of(&self.settings, frame, self.flows, low_delay))
    }

    /// Returns the link's settings, with the delay raised if recent high-rate packets are longer
    /// than the device's frames. `None` if the link cannot keep any promise.
    fn settings_now(&self) -> Option<Settings> {
        let longest = self.max_packet_sizes.high_rate().unwrap_or(Bytes::ZERO);
        // The link could keep a promise when it was attached. Since then, only packets can have
        // become longer.
        self.record.terms.settings_raised(&self.device, longest).ok()
    }

    /// Applies the deferred kernel updates. They are due once the packets have left that were
    /// accepted under an earlier promise.
    pub(super) fn apply_deferred(&mut self) {
        let later = std::mem::take(&mut self.deferred);
        self.apply_updates(&later);
    }

    fn apply_updates(&mut self, steps: &[KernelUpdate]) {
        if let Err(error) = apply(&mut self.control, self.record.index, steps) {
            tracing::warn!(device = self.device.name, %error, "cannot update the class rates");
            // After a failed update, the next round sends the whole state again, whatever another
            // program changed.
            self.shares = LinkShares::unknown(&self.shares);
        }
    }

    /// Changes the link's promise: rate, delay, ratio or floor. Returns a description of the new
    /// promise.
    ///
    /// # Errors
    /// If the link cannot keep that promise, another program has displaced the classes, or the
    /// kernel refuses. The former promise then stays in force.
    pub(super) fn change(&mut self, request: &ConfigRequest) -> Result<Vec<String>, Failure> {
        self.check_device()?;
        let config = LinkConfig::changed(request, &self.record.terms, &self.device)?;
        self.check_not_displaced()?;
        let record = self.record.clone().with_terms(config);
        let before = std::mem::replace(&mut self.record, record);
        if let Err(failure) = self.share_at_once().and_then(|()| self.records.write(&self.record)) {
            self.record = before;
            self.update_shares();
            self.apply_deferred();
            return Err(failure);
        }
        Ok(vec![self.promise()])
    }

    /// Applies all updates of the classes' shares without delay, because the operator has changed
    /// the link.
    fn share_at_once(&mut self) -> Result<(), Failure> {
        self.apply_deferred();
        let Some(shares) = self.shares_now() else {
            return Ok(());
        };
        let KernelUpdates { now, later, .. } = kernel_updates(&self.shares, &shares);
        let applied = apply(&mut self.control, self.record.index, &[now, later].concat());
        self.shares = if applied.is_ok() { shares } else { LinkShares::unknown(&self.shares) };
        applied.map_err(|error| device_failure(&self.device.name, &error))
    }

    /// Registers a flow as low-delay for a while, whatever its DSCP. Returns a description.
    ///
    /// # Errors
    /// If the device was attached without registered flows, or the registration is invalid.
    pub(super) fn register(&mut self, registration: &FlowRegistration) -> Result<Vec<String>, Failure> {
        let name = &self.device.name;
        if !self.classifier.accepts_registrations() {
            let message = format!(
                "cannot register a flow at {name}: attached without --registered; detach the device, and \
                 attach it with that"
            );
            return Err(Failure::new(Cause::Settings, message));
        }
        let (flow, lease) = (registration.flow()?, registration.lease()?);
        self.classifier.register(&flow, lease)?;
        Ok(vec![format!("{name}: flow registered for {lease}")])
    }

    /// Registers flows that the controller of network state names. Ignores invalid ones, which a
    /// controller of another version may name.
    pub(super) fn register_all(&mut self, registrations: &[FlowRegistration]) {
        for registration in registrations {
            if let Err(error) = self.register(registration) {
                tracing::debug!(device = self.device.name, %error, "a registered flow is ignored");
            }
        }
    }

    /// True if single flows may be registered.
    pub(super) const fn accepts_registrations(&self) -> bool {
        self.classifier.accepts_registrations()
    }

    /// Returns a description of the link's promise in one line, for people.
    fn promise(&self) -> String {
        let config = &self.record.terms;
        if config.share() == ShareRule::Flows {
            return format!(
                "{}: {}, shared by flows; low-delay flows get at least {} %",
                self.device.name,
                config.rate(),
                config.floor_percent(),
            );
        }
        let (wanted, promised) = (self.wanted_delay(), self.shares.delay);
        let excess_note = if promised.as_micros() > wanted.as_micros() {
            format!(", above the requested {wanted}")
        } else {
            String::new()
        };
        format!(
            "{}: {}; a high-rate flow gets {} times the rate of a low-delay one; low-delay sojourn \
             time at most {}{excess_note}",
            self.device.name,
            config.rate(),
            f64::from(config.ratio().0) / 1_000.0,
            byway_units::Duration::from_micros(promised.as_micros()),
        )
    }

    /// Logs a warning if low-delay packets may wait longer than the requested delay.
    pub(super) fn warn_if_raised(&self) {
        let (requested, promised) = (self.record.terms.delay().unwrap_or(DELAY_DEFAULT), self.shares.delay);
        if !self.shares.promises_delay {
            return;
        }
        if promised.as_micros() > requested.as_micros() {
            let device = &self.device.name;
            tracing::warn!(device, %requested, %promised, "low-delay sojourn time above the requested \
                                                       delay: two packets of the link take longer");
        }
    }

    /// Fails if another program has displaced the attached classes or filters.
    fn check_not_displaced(&self) -> Result<(), Failure> {
        let Some(deviation) = &self.problem else {
            return Ok(());
        };
        let name = &self.device.name;
        let message = format!("Byway no longer controls {name}: {deviation}; detach it, and attach it again");
        Err(Failure::new(Cause::Machine, message))
    }

    /// Returns the status of the link, for `byway link status`.
    ///
    /// # Errors
    /// If the kernel does not report its counters.
    pub(super) fn report(&mut self) -> Result<LinkReport, Failure> {
        let counters = match self.control.classes(self.record.index) {
            Err(error) if self.problem.is_none() => return Err(device_failure(&self.device.name, &error)),
            counters => counters.unwrap_or_default(),
        };
        let longest = [self.max_packet_sizes.high_rate(), self.max_packet_sizes.low_delay()];
        let class = |index: usize| ClassReport {
            flows: Some(self.flows[index]),
            rate_bits_per_second: Some(self.shares.rates[index].bits_per_second()),
            buffer_bytes: Some(self.shares.queue_limits[index].count()),
            max_packet_bytes: longest[index].and_then(|longest| u32::try_from(longest.count()).ok()),
            gso_packets: Some(self.gso_packets[index]),
            ..ClassReport::counted(&counters, CLASSES[index])
        };
        let is_low = |dscp: &u8| self.marking.low_delay_dscps() >> dscp & 1 == 1;
        let promises_delay = self.shares.promises_delay;
        let report = LinkReport::of_record(&self.record, class(0), class(1));
        Ok(LinkReport {
            state: if self.problem.is_none() { LinkState::Attached } else { LinkState::Displaced },
            note: self.problem.clone(),
            is_up: self.device.is_up,
            marks: MarksReport {
                dscps: (0..64).filter(is_low).collect(),
                is_tos_literal: self.marking.is_literal(),
                accepts_registrations: self.classifier.accepts_registrations(),
            },
            delay_us: promises_delay.then(|| self.wanted_delay().as_micros()),
            delay_promised_us: promises_delay.then(|| self.shares.delay.as_micros()),
            by_flows: self.flow_shares(report.by_flows),
            ..report
        })
    }

    /// Returns the shares of the link's record with the present rates of the policy.
    fn flow_shares(&self, of_record: Option<FlowShares>) -> Option<FlowShares> {
        let rates = self.policy.as_ref()?.rates();
        Some(FlowShares {
            guaranteed_bits_per_second: Some(rates.guaranteed.bits_per_second()),
            shown_bits_per_second: Some(rates.shown.bits_per_second()),
            ..of_record?
        })
    }

    fn wanted_delay(&self) -> byway_units::Duration {
        self.record.terms.delay().unwrap_or(DELAY_DEFAULT).min(self.settings.delay())
    }
}

fn device_removed(name: &str) -> Failure {
    Failure::machine(format!("network device {name} was removed, together with its qdiscs"))
}
