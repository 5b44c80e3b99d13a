//! Configuration of a link: flags of the commands, and the validated promise.

use std::str::FromStr;

use byway_config_types::{DurationSetting, RateSetting, ShareSetting};
use byway_net::LinkDevice;
use byway_sched::{Settings, SettingsError, Sharing, UPDATE_INTERVAL};
use byway_state::SAMPLE_INTERVAL;
use byway_units::{Bytes, Duration, Rate};
use clap::{Args, ValueEnum};
use serde::{Deserialize, Serialize};

use super::limits::{ETHERNET_HEADER_BYTES, PACKET_MAX, RATE_MAX};
use crate::exit::{Cause, Failure};

/// Default ratio between the rate of a high-rate flow and that of a low-delay flow.
const RATIO: Ratio = Ratio(2_000);

/// Rule by which the classes of a link share its rate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "snake_case")]
pub(super) enum ShareRule {
    /// By the ratio of a flow's rates, with a bound on the delay.
    #[default]
    Ratio,
    /// By the numbers of flows: for low-delay flows that follow network state.
    Flows,
}

/// Promise of a link, as typed.
#[derive(Clone, Copy, Debug, Args)]
pub(super) struct PromiseFlags {
    /// Rate of the link, a little below the bottleneck's, as in "95 Mbit/s".
    ///
    /// Packets then queue here, and not there.
    #[arg(long, value_name = "RATE")]
    pub(super) rate: RateSetting,
    /// Longest sojourn time of a low-delay packet, up to a minute [default: 10 ms].
    ///
    /// If two packets take longer than 10 ms, the default is their time.
    #[arg(long, value_name = "TIME")]
    pub(super) delay: Option<DurationSetting>,
    /// Rate of a high-rate flow, as a multiple of a low-delay flow's: more than 1 [default: 2].
    #[arg(long, value_name = "NUMBER")]
    pub(super) ratio: Option<Ratio>,
    /// Use the least possible delay if it exceeds --delay, instead of an error.
    #[arg(long)]
    pub(super) raise: bool,
    /// Rule by which the classes share the rate.
    #[arg(long, value_name = "RULE", value_enum, default_value_t)]
    pub(super) share: ShareRule,
    /// Least share of the rate for low-delay flows, with --share flows [default: 0 %].
    #[arg(long, value_name = "SHARE")]
    pub(super) floor: Option<ShareSetting>,
}

/// Change of a link's promise, as typed.
#[derive(Clone, Copy, Debug, Default, Args)]
#[group(required = true, multiple = true)]
pub(super) struct ChangedFlags {
    /// New rate of the link.
    #[arg(long, value_name = "RATE")]
    rate: Option<RateSetting>,
    /// New bound on the sojourn time of a low-delay packet.
    #[arg(long, value_name = "TIME")]
    delay: Option<DurationSetting>,
    /// New rate of a high-rate flow, as a multiple of a low-delay flow's: more than 1.
    #[arg(long, value_name = "NUMBER")]
    ratio: Option<Ratio>,
    /// Use the least possible delay if it exceeds the requested one, instead of an error.
    ///
    /// It applies until a --delay without this flag.
    #[arg(long)]
    raise: bool,
    /// New least share of the rate for low-delay flows, if the link shares by flows.
    #[arg(long, value_name = "SHARE")]
    floor: Option<ShareSetting>,
}

/// Requested promise of a link, in the form that a command sends to the controller. Missing values
/// stay as they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ConfigRequest {
    rate_bits_per_second: Option<u64>,
    delay_ns: Option<u64>,
    ratio: Option<Ratio>,
    raise: bool,
    #[serde(default)]
    share: Option<ShareRule>,
    /// Least share of low-delay flows, in thousandths.
    #[serde(default)]
    floor_milli: Option<u32>,
}

impl ConfigRequest {
    /// Checks that the rule by which the link shares its rate has all requested values.
    ///
    /// # Errors
    /// If one has no effect; the error names its flag.
    fn check(&self, share: ShareRule, device: &str) -> Result<(), Failure> {
        let of_flows = [("--floor", self.floor_milli.is_some())];
        let of_ratio = [
            ("--delay", self.delay_ns.is_some()),
            ("--ratio", self.ratio.is_some()),
            ("--raise", self.raise),
        ];
        let (flags, rule, other) = match share {
            ShareRule::Ratio => (&of_flows[..], "ratio", "flows"),
            ShareRule::Flows => (&of_ratio[..], "flows", "ratio"),
        };
        let Some((flag, _)) = flags.iter().find(|(_, is_present)| *is_present) else {
            return Ok(());
        };
        let message = format!(
            "{device}: {flag} has no effect with --share {rule}: omit it, or attach the device with \
             --share {other}"
        );
        Err(Failure::new(Cause::Settings, message))
    }
}

impl From<&PromiseFlags> for ConfigRequest {
    fn from(&PromiseFlags { rate, delay, ratio, raise, share, floor }: &PromiseFlags) -> Self {
        let request = Self::from(&ChangedFlags { rate: Some(rate), delay, ratio, raise, floor });
        Self { share: Some(share), ..request }
    }
}

impl From<&ChangedFlags> for ConfigRequest {
    fn from(flags: &ChangedFlags) -> Self {
        Self {
            rate_bits_per_second: flags.rate.map(|rate| rate.0.bits_per_second()),
            delay_ns: flags.delay.map(|delay| delay.0.as_nanos()),
            ratio: flags.ratio,
            raise: flags.raise,
            share: None,
            floor_milli: flags.floor.map(|floor| milli(floor.0.value())),
        }
    }
}

/// Returns a share in thousandths, rounded to the nearest.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a share is 0 to 1")]
fn milli(share: f64) -> u32 {
    (share * 1_000.0).round() as u32
}

/// Ratio between the rates of a high-rate flow and of a low-delay flow, in thousandths.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Ratio(pub(super) u32);

impl FromStr for Ratio {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (whole, part) = text.split_once('.').unwrap_or((text, ""));
        let is_plain = !whole.is_empty()
            && part.len() <= 3
            && (whole.bytes().chain(part.bytes())).all(|byte| byte.is_ascii_digit());
        let milli = format!("{whole}{part:0<3}").parse().ok().filter(|_| is_plain);
        milli.map(Self).ok_or_else(|| {
            format!("invalid ratio {text:?}: write a number with up to three decimals, as in 2.5")
        })
    }
}

/// Promise of a link: its rate, and either its delay bound and the ratio of the flows' rates, or
/// shares by flows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct LinkConfig {
    rate_bits_per_second: u64,
    /// Requested bound of the low-delay sojourn time, in nanoseconds. `None` for 10 ms, or for the
    /// least possible one if that is more.
    delay_ns: Option<u64>,
    ratio: Ratio,
    raises: bool,
    #[serde(default)]
    share: ShareRule,
    /// Least share of low-delay flows if the link shares by flows, in thousandths of the rate.
    #[serde(default)]
    floor_milli: u32,
}

impl LinkConfig {
    /// Returns the configuration that a request asks for. Missing values stay as in `before`, or
    /// have their defaults.
    pub(super) fn new(request: &ConfigRequest, before: Option<&Self>) -> Self {
        Self {
            // A new link needs a rate. Without one, its rate of 0 bit/s is refused.
            rate_bits_per_second: (request.rate_bits_per_second)
                .or_else(|| before.map(|before| before.rate_bits_per_second))
                .unwrap_or(0),
            delay_ns: request.delay_ns.or_else(|| before.and_then(|before| before.delay_ns)),
            ratio: request.ratio.or_else(|| before.map(|before| before.ratio)).unwrap_or(RATIO),
            // An explicit bound applies as typed.
            raises: request.raise || request.delay_ns.is_none() && before.is_some_and(|before| before.raises),
            share: request.share.or_else(|| before.map(|before| before.share)).unwrap_or_default(),
            floor_milli: (request.floor_milli)
                .or_else(|| before.map(|before| before.floor_milli))
                .unwrap_or(0),
        }
    }

    /// Returns the configuration of a new link.
    ///
    /// # Errors
    /// If a requested value has no effect with the link's rule of sharing.
    pub(super) fn attached(request: &ConfigRequest, device: &LinkDevice) -> Result<Self, Failure> {
        let config = Self::new(request, None);
        request.check(config.share, &device.name)?;
        Ok(config)
    }

    /// Returns a placeholder for the configuration of a link whose record is missing.
    pub(super) const fn unknown() -> Self {
        Self {
            rate_bits_per_second: 0,
            delay_ns: None,
            ratio: RATIO,
            raises: false,
            share: ShareRule::Ratio,
            floor_milli: 0,
        }
    }

    /// Returns the rate of the link.
    pub(super) const fn rate(&self) -> Rate {
        Rate::from_bits_per_second(self.rate_bits_per_second)
    }

    /// Returns the ratio between the rates of high-rate and of low-delay flows.
    pub(super) const fn ratio(&self) -> Ratio {
        self.ratio
    }

    /// Returns the rule by which the classes share the link.
    pub(super) const fn share(&self) -> ShareRule {
        self.share
    }

    /// Returns the least share of low-delay flows, in percent of the rate, if the link shares by
    /// flows.
    pub(super) fn floor_percent(&self) -> f64 {
        f64::from(self.floor_milli) / 10.0
    }

    /// Returns the requested bound of the low-delay sojourn time; `None` for the default.
    pub(super) fn delay(&self) -> Option<Duration> {
        self.delay_ns.map(Duration::from_nanos)
    }

    /// Returns the scheduler's settings for a device whose packets have at most `longest` bytes, or
    /// the length of its frames if that is more.
    ///
    /// # Errors
    /// If the link cannot keep the promise.
    pub(super) fn settings(&self, device: &LinkDevice, longest: Bytes) -> Result<Settings, SettingsError> {
        let settings = Settings::new(self.rate(), frame(device).max(longest).min(PACKET_MAX))?;
        if self.share == ShareRule::Flows {
            return settings.with_sharing(Sharing::ByFlows { floor_milli: self.floor_milli });
        }
        let settings = settings.with_ratio_milli(self.ratio.0)?;
        let Some(delay) = self.delay() else {
            return Ok(settings);
        };
        match settings.with_delay(delay) {
            Err(SettingsError::Delay { least, .. }) if self.raises => settings.with_delay(least),
            settings => settings,
        }
    }

    /// Returns settings like [`Self::settings`], with the delay raised as far as necessary. It is
    /// for packets that are longer than the operator could know.
    ///
    /// # Errors
    /// If the link cannot keep any promise.
    pub(super) fn settings_raised(
        &self,
        device: &LinkDevice,
        longest: Bytes,
    ) -> Result<Settings, SettingsError> {
        Self { raises: true, ..*self }.settings(device, longest)
    }

    /// Returns the configuration after a request, if it is valid. If the request concerns neither
    /// rate nor delay, the link keeps both, even if longer packets have raised the delay.
    ///
    /// # Errors
    /// If the link cannot keep the promise.
    pub(super) fn changed(
        request: &ConfigRequest,
        before: &Self,
        device: &LinkDevice,
    ) -> Result<Self, Failure> {
        request.check(before.share, &device.name)?;
        let config = Self::new(request, Some(before));
        if request.rate_bits_per_second.is_some() || request.delay_ns.is_some() {
            config.checked(device)?;
        } else {
            let settings = config.settings_raised(device, Bytes::ZERO);
            settings.map_err(|error| settings_failure(&device.name, &error))?;
        }
        Ok(config)
    }

    /// Returns settings like [`Self::settings`], after a check that both classes work at this rate.
    ///
    /// # Errors
    /// If the link cannot keep the promise, or the rate is invalid.
    pub(super) fn checked(&self, device: &LinkDevice) -> Result<Settings, Failure> {
        let name = &device.name;
        if device.is_loopback {
            let message = format!("{name} is a loopback device without a queue: name the device of a link");
            return Err(Failure::new(Cause::Settings, message));
        }
        if self.rate() > RATE_MAX {
            let message = format!(
                "{name}: rate {} above the maximum of the kernel's queues: give at most {RATE_MAX}",
                self.rate()
            );
            return Err(Failure::new(Cause::Settings, message));
        }
        let settings = self.settings(device, Bytes::ZERO).map_err(|error| settings_failure(name, &error))?;
        let of_class = least_rate(frame(device), settings.sharing());
        let least = of_class.saturating_add(of_class);
        if settings.capacity() < least {
            let interval = update_interval(settings.sharing());
            let message = format!(
                "{name}: at {}, two classes cannot send a packet of {} each within {interval}: \
                 give at least {least}, or a smaller MTU",
                settings.capacity(),
                frame(device),
            );
            return Err(Failure::new(Cause::Settings, message));
        }
        Ok(settings)
    }
}

/// Returns the length of a device's longest frame in bytes, with the header of its link layer.
pub(super) fn frame(device: &LinkDevice) -> Bytes {
    let header = if device.is_ethernet { ETHERNET_HEADER_BYTES } else { 0 };
    Bytes::new(u64::from(device.mtu) + header)
}

fn settings_failure(device: &str, error: &SettingsError) -> Failure {
    let remedy = match error {
        SettingsError::Delay { .. } => ", or --raise",
        _ => "",
    };
    Failure::new(Cause::Settings, format!("{device}: {error}{remedy}"))
}

/// Returns the interval at which the rates of the classes change.
const fn update_interval(sharing: Sharing) -> Duration {
    match sharing {
        Sharing::ByRatio => UPDATE_INTERVAL,
        Sharing::ByFlows { .. } => SAMPLE_INTERVAL,
    }
}

/// Returns the least rate of a class: one frame in each interval at which rates change. A slower
/// class waits longer for its next transmission, and would notice a higher rate too late.
pub(super) fn least_rate(frame: Bytes, sharing: Sharing) -> Rate {
    let bits = frame.bits() * 1_000_000_000;
    let rate = bits.div_ceil(u128::from(update_interval(sharing).as_nanos()));
    Rate::from_bits_per_second(u64::try_from(rate).unwrap_or(u64::MAX))
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in super::super) fn device(mtu: u32) -> LinkDevice {
        LinkDevice {
            index: 3,
            name: "wan0".into(),
            mtu,
            segments_max: Some(65_535),
            is_ethernet: true,
            is_loopback: false,
            is_up: true,
        }
    }

    fn terms(rate: &str, delay: Option<&str>, raise: bool) -> LinkConfig {
        let flags = PromiseFlags {
            rate: rate.parse().expect("a rate"),
            delay: delay.map(|delay| delay.parse().expect("a time")),
            ratio: None,
            raise,
            share: ShareRule::Ratio,
            floor: None,
        };
        LinkConfig::new(&ConfigRequest::from(&flags), None)
    }

    fn refusal(rate: &str, delay: Option<&str>) -> String {
        terms(rate, delay, false).checked(&device(1_500)).expect_err("it cannot be").to_string()
    }

    #[test]
    fn what_a_link_cannot_promise_is_refused_with_its_bound_or_raised() {
        let usual = terms("100 Mbit/s", None, false).checked(&device(1_500)).expect("a usual link");
        assert_eq!((usual.delay(), usual.ratio_milli()), (Duration::from_millis(10), 2_000));
        let message = refusal("1 Mbit/s", Some("10 ms"));
        // Twice 1,518 bytes.
        assert!(message.contains("24.288 ms") && message.ends_with("or --raise"), "{message}");
        let raised = terms("1 Mbit/s", Some("10 ms"), true).checked(&device(1_500)).expect("it is raised");
        assert_eq!(raised.delay(), Duration::from_micros(24_288));
        let message = refusal("60 kbit/s", None);
        assert!(message.contains("give at least 60.72 kbit/s"), "{message}");
        assert!(refusal("0 bit/s", None).contains("is 0 bit/s"));
        assert!(refusal("101 Gbit/s", None).contains("give at most 100 Gbit/s"));
        let loopback = LinkDevice { is_loopback: true, ..device(65_536) };
        let message = terms("1 Gbit/s", None, false).checked(&loopback).expect_err("no link").to_string();
        assert!(message.contains("is a loopback device"), "{message}");
    }

    #[test]
    fn what_is_not_typed_again_stays() {
        let before = terms("100 Mbit/s", Some("20 ms"), true);
        let flags = |delay: Option<&str>| ChangedFlags {
            rate: None,
            delay: delay.map(|delay| delay.parse().expect("a time")),
            ratio: Some(Ratio(3_000)),
            raise: false,
            floor: None,
        };
        let after = LinkConfig::new(&ConfigRequest::from(&flags(None)), Some(&before))
            .checked(&device(1_500))
            .expect("a link");
        assert_eq!((after.delay(), after.ratio_milli()), (Duration::from_millis(20), 3_000));
        let after = LinkConfig::new(&ConfigRequest::from(&flags(Some("5 ms"))), Some(&before))
            .checked(&device(1_500))
            .expect("a link");
        assert_eq!(after.delay(), Duration::from_millis(5));
        assert_eq!(after.capacity(), Rate::from_megabits_per_second(100));
        let slower = ChangedFlags { rate: "50 Mbit/s".parse().ok(), ..ChangedFlags::default() };
        let after = LinkConfig::new(&ConfigRequest::from(&slower), Some(&before))
            .checked(&device(1_500))
            .expect("a link");
        assert_eq!(
            (after.capacity(), after.delay()),
            (Rate::from_megabits_per_second(50), Duration::from_millis(20))
        );
    }

    #[test]
    fn a_delay_that_is_typed_is_meant_as_it_is_typed() {
        let before = terms("100 Mbit/s", Some("20 ms"), true);
        let strict = ChangedFlags { delay: "20 us".parse().ok(), ..ChangedFlags::default() };
        let message = LinkConfig::changed(&ConfigRequest::from(&strict), &before, &device(1_500))
            .expect_err("too little");
        assert!(message.to_string().ends_with("or --raise"), "{message}");
        let raised = ChangedFlags { raise: true, ..strict };
        assert!(LinkConfig::changed(&ConfigRequest::from(&raised), &before, &device(1_500)).is_ok());
    }

    #[test]
    fn what_longer_packets_have_raised_is_no_reason_to_refuse_another_change() {
        let before = terms("100 Mbit/s", Some("1 ms"), false);
        let long = device(9_000);
        let ratio = ChangedFlags { ratio: Some(Ratio(3_000)), ..ChangedFlags::default() };
        let after =
            LinkConfig::changed(&ConfigRequest::from(&ratio), &before, &long).expect("the delay was raised");
        assert_eq!((after.ratio(), after.delay()), (Ratio(3_000), before.delay()));
        let rate = ChangedFlags { rate: "90 Mbit/s".parse().ok(), ..ChangedFlags::default() };
        assert!(LinkConfig::changed(&ConfigRequest::from(&rate), &before, &long).is_err());
        let wrong = ChangedFlags { ratio: Some(Ratio(1_000)), ..ChangedFlags::default() };
        assert!(LinkConfig::changed(&ConfigRequest::from(&wrong), &before, &long).is_err());
    }

    #[test]
    fn longer_packets_raise_what_was_promised() {
        let strict = terms("100 Mbit/s", Some("1 ms"), false);
        assert!(strict.settings(&device(9_000), Bytes::ZERO).is_err());
        let raised = strict.settings_raised(&device(9_000), Bytes::ZERO).expect("it is raised");
        assert_eq!(raised.delay(), Duration::from_nanos(1_442_880));
        let joined = strict.settings_raised(&device(1_500), Bytes::new(90_000)).expect("it is raised");
        assert_eq!(joined.packet(), PACKET_MAX);
    }

    fn by_flows(rate: &str, floor: Option<&str>) -> PromiseFlags {
        PromiseFlags {
            rate: rate.parse().expect("a rate"),
            delay: None,
            ratio: None,
            raise: false,
            share: ShareRule::Flows,
            floor: floor.map(|floor| floor.parse().expect("a share")),
        }
    }

    #[test]
    fn a_link_that_shares_by_flows_has_a_floor_and_no_promise_of_delay() {
        let flags = by_flows("5 Mbit/s", Some("20.5%"));
        let config = LinkConfig::attached(&ConfigRequest::from(&flags), &device(1_500)).expect("a link");
        let settings = config.checked(&device(1_500)).expect("fast enough");
        assert_eq!(settings.sharing(), Sharing::ByFlows { floor_milli: 205 });
        assert!((config.floor_percent() - 20.5).abs() < 1e-9);
        let refused = |flags: PromiseFlags| {
            let refused = LinkConfig::attached(&ConfigRequest::from(&flags), &device(1_500));
            refused.expect_err("no effect").to_string()
        };
        let delay = "10 ms".parse().ok();
        for (flags, flag) in [
            (PromiseFlags { delay, ..flags }, "--delay has no effect with --share flows"),
            (PromiseFlags { ratio: Some(Ratio(2_000)), ..flags }, "--ratio has no effect"),
            (PromiseFlags { raise: true, ..flags }, "--raise has no effect"),
            (PromiseFlags { share: ShareRule::Ratio, ..flags }, "--floor has no effect with --share ratio"),
        ] {
            let message = refused(flags);
            assert!(message.contains(flag), "{message}");
        }
        // A change keeps the rule, and may set the floor.
        let floor = ChangedFlags { floor: "30 %".parse().ok(), ..ChangedFlags::default() };
        let changed = LinkConfig::changed(&ConfigRequest::from(&floor), &config, &device(1_500));
        assert_eq!(
            changed.map(|config| (config.share, config.floor_milli)).ok(),
            Some((ShareRule::Flows, 300))
        );
        let strict = ChangedFlags { delay, ..ChangedFlags::default() };
        assert!(LinkConfig::changed(&ConfigRequest::from(&strict), &config, &device(1_500)).is_err());
    }

    #[test]
    fn a_class_that_changes_every_50_ms_needs_a_packet_in_that_time() {
        let config = |rate| LinkConfig::new(&ConfigRequest::from(&by_flows(rate, None)), None);
        // 1,518 bytes in 50 ms are 242.88 kbit/s, for each of two classes.
        let refused = config("485 kbit/s").checked(&device(1_500)).expect_err("too slow").to_string();
        assert!(refused.contains("within 50 ms: give at least 485.76 kbit/s"), "{refused}");
        assert!(config("486 kbit/s").checked(&device(1_500)).is_ok());
        let refused = LinkConfig::new(&ConfigRequest::from(&by_flows("5 Mbit/s", Some("95 %"))), None);
        let refused = refused.checked(&device(1_500)).expect_err("others need a tenth").to_string();
        assert!(refused.contains("give at most 90 %"), "{refused}");
    }

    #[test]
    fn records_and_requests_of_versions_without_shares_by_flows_are_read() {
        let before = r#"{"rate_bits_per_second":1000000,"delay_ns":null,"ratio":2000,"raises":false}"#;
        let config: LinkConfig = serde_json::from_str(before).expect("a record");
        assert_eq!((config.share, config.floor_milli), (ShareRule::Ratio, 0));
        let before = r#"{"rate_bits_per_second":1000000,"delay_ns":null,"ratio":null,"raise":false}"#;
        let request: ConfigRequest = serde_json::from_str(before).expect("a request");
        assert_eq!((request.share, request.floor_milli), (None, None));
    }

    #[test]
    fn ratios_have_up_to_three_decimals() {
        let parsed = ["2", "2.5", "1.001", "10"].map(|text| text.parse().map(|Ratio(milli)| milli));
        assert_eq!(parsed, [Ok(2_000), Ok(2_500), Ok(1_001), Ok(10_000)]);
        for wrong in ["", ".", "x", "2.5555", "-2", "1e3", "99999999999"] {
            assert!(wrong.parse::<Ratio>().is_err(), "{wrong}");
        }
    }
}
