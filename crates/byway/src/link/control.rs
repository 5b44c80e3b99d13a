//! Counts flows, and has the kernel share the link accordingly.

use byway_net::{LinkDevice, LinkError, TrafficControl};
use byway_sched::{Marking, Settings};
use byway_units::Bytes;

use super::classifier::{Classifier, Seen};
use super::installed::{apply, missing, of_device};
use super::limits::PACKET_MAX;
use super::longest::Longest;
use super::record::{Record, Records};
use super::report::{ClassReport, Report, State};
use super::sharing::{CLASSES, Shares, Step, Steps, steps};
use super::terms::{Terms, Wish, frame};
use crate::exit::{Cause, Failure};

/// How long a low-delay packet is to wait at most where nothing else is typed.
const DELAY: byway_units::Duration = byway_units::Duration::from_millis(10);

/// The controller of one device.
pub(super) struct Controller {
    pub(super) control: TrafficControl,
    classifier: Classifier,
    records: Records,
    pub(super) record: Record,
    marking: Marking,
    device: LinkDevice,
    settings: Settings,
    shares: Shares,
    /// What of it is to be told later.
    later: Vec<Step>,
    flows: [u32; 2],
    longest: Longest,
    joined: [u64; 2],
    /// What is not as it should be.
    trouble: Option<String>,
}

/// What a controller begins with.
pub(super) struct Beginning {
    pub(super) control: TrafficControl,
    pub(super) classifier: Classifier,
    pub(super) records: Records,
    pub(super) record: Record,
    pub(super) marking: Marking,
    pub(super) device: LinkDevice,
    pub(super) settings: Settings,
}

/// How a link is shared before anything is known of what passes: as if low-delay packets were as long as can be, so that the first one finds room.
pub(super) fn first_shares(device: &LinkDevice, settings: &Settings) -> Shares {
    Shares::of(settings, frame(device), [0; 2], frame(device))
}

impl Controller {
    /// Of a device where everything has just been put.
    pub(super) fn new(beginning: Beginning) -> Self {
        let Beginning { control, classifier, records, record, marking, device, settings } = beginning;
        let shares = first_shares(&device, &settings);
        Self {
            control,
            classifier,
            records,
            record,
            marking,
            device,
            settings,
            shares,
            later: Vec::new(),
            flows: [0; 2],
            longest: Longest::default(),
            joined: [0; 2],
            trouble: None,
        }
    }

    /// Looks at the device and counts what passed. Returns for how long the rest is to wait, if there is a rest: then call
    /// [`Self::do_later`].
    ///
    /// # Errors
    /// If the device has gone, or the kernel does not say what it has noted.
    pub(super) fn round(&mut self) -> Result<Option<byway_units::Duration>, Failure> {
        self.do_later();
        self.look()?;
        self.flows = self.classifier.flows()?;
        let seen = self.classifier.take_seen()?;
        self.joined = seen.map(|seen: Seen| seen.joined);
        self.longest.note(seen, self.flows[1]);
        Ok(self.share())
    }

    /// Looks at the device: it may have gone, and somebody may have changed it.
    fn look(&mut self) -> Result<(), Failure> {
        self.device = match self.control.device_at(self.record.index) {
            Ok(device) => device,
            Err(LinkError::NoDevice) => return Err(gone(&self.record.device)),
            Err(error) => return Err(of_device(&self.record.device, &error)),
        };
        self.note_trouble();
        Ok(())
    }

    /// Somebody may have changed what is at the device.
    fn note_trouble(&mut self) {
        let trouble =
            missing(&mut self.control, &self.record).unwrap_or_else(|error| Some(error.to_string()));
        if trouble == self.trouble {
            return;
        }
        let device = &self.device.name;
        if let Some(trouble) = &trouble {
            tracing::error!(
                device,
                "the link is not shared any more: {trouble}: detach it, and attach it again"
            );
        } else {
            tracing::info!(device, "the link is shared again");
        }
        self.trouble = trouble;
    }

    /// Has the kernel share the link as it should be now.
    fn share(&mut self) -> Option<byway_units::Duration> {
        if self.trouble.is_some() {
            return None;
        }
        let shares = self.shares_now()?;
        let Steps { now, later, after } = steps(&self.shares, &shares);
        self.shares = shares;
        self.tell(&now);
        self.later = later;
        (!self.later.is_empty()).then_some(after)
    }

    /// How the link is to be shared; `None` if it can promise nothing.
    fn shares_now(&mut self) -> Option<Shares> {
        self.settings = self.settings_now()?;
        let frame = frame(&self.device);
        let low_delay = self.longest.low_delay().unwrap_or(frame).min(PACKET_MAX);
        Some(Shares::of(&self.settings, frame, self.flows, low_delay))
    }

    /// What the link promises, with high-rate packets as long as they are of late.
    fn settings_now(&self) -> Option<Settings> {
        let longest = self.longest.high_rate().unwrap_or(Bytes::ZERO);
        // The link could promise something when it was attached, and only packets can have become longer.
        self.record.terms.settings_raised(&self.device, longest).ok()
    }

    /// Tells the kernel the rest, when what waited on an earlier promise has left.
    pub(super) fn do_later(&mut self) {
        let later = std::mem::take(&mut self.later);
        self.tell(&later);
    }

    fn tell(&mut self, steps: &[Step]) {
        if let Err(error) = apply(&mut self.control, self.record.index, steps) {
            tracing::warn!(device = self.device.name, %error, "the link is not shared as it should be");
            // Whatever was changed by another hand, the next round tells all.
            self.shares = Shares::unknown(&self.shares);
        }
    }

    /// Promises something else from now on, and says what.
    ///
    /// # Errors
    /// If that cannot be promised, the link is displaced, or the kernel refuses: then all stays as it is.
    pub(super) fn change(&mut self, wish: &Wish) -> Result<Vec<String>, Failure> {
        self.look()?;
        let terms = Terms::changed(wish, &self.record.terms, &self.device)?;
        self.untroubled()?;
        let record = self.record.clone().with_terms(terms);
        let before = std::mem::replace(&mut self.record, record);
        if let Err(failure) = self.share_at_once().and_then(|()| self.records.write(&self.record)) {
            self.record = before;
            self.share();
            self.do_later();
            return Err(failure);
        }
        Ok(vec![self.promise()])
    }

    /// A step that would wait is told now: the operator has changed the link itself.
    fn share_at_once(&mut self) -> Result<(), Failure> {
        self.do_later();
        let Some(shares) = self.shares_now() else {
            return Ok(());
        };
        let Steps { now, later, .. } = steps(&self.shares, &shares);
        let told = apply(&mut self.control, self.record.index, &[now, later].concat());
        self.shares = if told.is_ok() { shares } else { Shares::unknown(&self.shares) };
        told.map_err(|error| of_device(&self.device.name, &error))
    }

    /// What the link promises, in a line.
    fn promise(&self) -> String {
        let terms = &self.record.terms;
        let (wanted, promised) = (self.wanted_delay(), self.shares.delay);
        let more = if promised.as_micros() > wanted.as_micros() {
            format!(", more than the {wanted} that are wanted")
        } else {
            String::new()
        };
        format!(
            "{}: {}; a high-rate flow gets {} times the rate of a low-delay one; low-delay packets wait {} at most{more}",
            self.device.name,
            terms.rate(),
            f64::from(terms.ratio().0) / 1_000.0,
            byway_units::Duration::from_micros(promised.as_micros()),
        )
    }

    /// Says so, if the link cannot keep low-delay packets from waiting for longer than was asked for.
    pub(super) fn warn_if_raised(&self) {
        let (asked, promised) = (self.record.terms.delay().unwrap_or(DELAY), self.shares.delay);
        if promised.as_micros() > asked.as_micros() {
            let device = &self.device.name;
            tracing::warn!(device, %asked, %promised, "low-delay packets wait longer than was asked for: two packets of the link take longer");
        }
    }

    /// If nobody has put something else in the place of what was attached.
    fn untroubled(&self) -> Result<(), Failure> {
        let Some(trouble) = &self.trouble else {
            return Ok(());
        };
        let name = &self.device.name;
        let message = format!("{name} is not shared: {trouble}: detach it, and attach it again");
        Err(Failure::new(Cause::Machine, message))
    }

    /// How the link is.
    ///
    /// # Errors
    /// If the kernel does not say.
    pub(super) fn report(&mut self) -> Result<Report, Failure> {
        let counters = match self.control.classes(self.record.index) {
            Err(error) if self.trouble.is_none() => return Err(of_device(&self.device.name, &error)),
            counters => counters.unwrap_or_default(),
        };
        let longest = [self.longest.high_rate(), self.longest.low_delay()];
        let class = |place: usize| ClassReport {
            flows: Some(self.flows[place]),
            rate_bits_per_second: Some(self.shares.rates[place].bits_per_second()),
            room_bytes: Some(self.shares.room[place].count()),
            longest_packet_bytes: longest[place].and_then(|longest| u32::try_from(longest.count()).ok()),
            joined_packets: Some(self.joined[place]),
            ..ClassReport::counted(&counters, CLASSES[place])
        };
        let is_low = |dscp: &u8| self.marking.low_delay_dscps() >> dscp & 1 == 1;
        Ok(Report {
            state: if self.trouble.is_none() { State::Attached } else { State::Displaced },
            note: self.trouble.clone(),
            is_up: self.device.is_up,
            dscps: (0..64).filter(is_low).collect(),
            is_tos_literal: self.marking.is_literal(),
            delay_us: Some(self.wanted_delay().as_micros()),
            delay_promised_us: Some(self.shares.delay.as_micros()),
            ..Report::of_record(&self.record, class(0), class(1))
        })
    }

    fn wanted_delay(&self) -> byway_units::Duration {
        self.record.terms.delay().unwrap_or(DELAY).min(self.settings.delay())
    }
}

fn gone(name: &str) -> Failure {
    Failure::machine(format!("the network device {name} has gone, and with it what was put there"))
}
