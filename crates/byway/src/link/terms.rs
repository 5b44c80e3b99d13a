//! What an operator wants of a link, as typed and as meant.

use std::str::FromStr;

use byway_net::LinkDevice;
use byway_sched::{Marking, Settings, SettingsError, UPDATE_INTERVAL};
use byway_typed::{TypedDuration, TypedRate};
use byway_units::{Bytes, Duration, Rate};
use clap::Args;
use serde::{Deserialize, Serialize};

use super::limits::{ETHERNET_HEADER_BYTES, PACKET_MAX, RATE_MAX};
use crate::exit::{Cause, Failure};

/// The promise of a link when nothing else is typed.
const RATIO: Ratio = Ratio(2_000);

/// The promise of a link as typed.
#[derive(Clone, Copy, Debug, Args)]
pub(super) struct PromiseFlags {
    /// The rate of the link: a little less than its narrowest place, as in "95 Mbit/s". Packets then wait here, and not there.
    #[arg(long, value_name = "RATE")]
    pub(super) rate: TypedRate,
    /// The longest wait of a low-delay packet: up to a minute. 10 ms by default, or as long as two packets take if that is more.
    #[arg(long, value_name = "TIME")]
    pub(super) delay: Option<TypedDuration>,
    /// The rate of a high-rate flow, as a multiple of a low-delay flow's: more than 1. 2 by default.
    #[arg(long, value_name = "NUMBER")]
    pub(super) ratio: Option<Ratio>,
    /// Takes the least delay that is possible if that is more than --delay, instead of refusing.
    #[arg(long)]
    pub(super) raise: bool,
}

/// Another promise of a link as typed.
#[derive(Clone, Copy, Debug, Default, Args)]
#[group(required = true, multiple = true)]
pub(super) struct ChangedFlags {
    /// The rate of the link from now on.
    #[arg(long, value_name = "RATE")]
    rate: Option<TypedRate>,
    /// The longest wait of a low-delay packet from now on.
    #[arg(long, value_name = "TIME")]
    delay: Option<TypedDuration>,
    /// The rate of a high-rate flow from now on, as a multiple of a low-delay flow's: more than 1.
    #[arg(long, value_name = "NUMBER")]
    ratio: Option<Ratio>,
    /// Takes the least delay that is possible if that is more than was asked for, instead of refusing; until a --delay is typed without it.
    #[arg(long)]
    raise: bool,
}

/// The promise of a link as typed, for a controller in another process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Wish {
    rate_bits_per_second: Option<u64>,
    delay_ns: Option<u64>,
    ratio: Option<Ratio>,
    raise: bool,
}

impl From<&PromiseFlags> for Wish {
    fn from(&PromiseFlags { rate, delay, ratio, raise }: &PromiseFlags) -> Self {
        Self::from(&ChangedFlags { rate: Some(rate), delay, ratio, raise })
    }
}

impl From<&ChangedFlags> for Wish {
    fn from(flags: &ChangedFlags) -> Self {
        Self {
            rate_bits_per_second: flags.rate.map(|rate| rate.0.bits_per_second()),
            delay_ns: flags.delay.map(|delay| delay.0.as_nanos()),
            ratio: flags.ratio,
            raise: flags.raise,
        }
    }
}

/// Marks of low-delay packets as typed.
#[derive(Clone, Debug, Args)]
pub(super) struct MarkFlags {
    /// The DSCPs that mean low delay, 0 to 63: by default 4, what the paper's mark leaves beside ECN, 45, NQB, and 46, EF.
    #[arg(long, value_name = "DSCP", value_delimiter = ',', value_parser = clap::value_parser!(u8).range(0..=63))]
    dscp: Vec<u8>,
    /// A whole byte that means low delay, ECN bits and all: 0x12, the paper's. Without --dscp, nothing else does then.
    #[arg(long, value_name = "BYTE")]
    tos: Option<Tos>,
}

impl MarkFlags {
    /// Returns the meaning.
    pub(super) fn marking(&self) -> Marking {
        let marked = self.dscp.iter().fold(Marking::NONE, |marking, dscp| marking.with(*dscp));
        match (self.dscp.is_empty(), self.tos) {
            (true, None) => Marking::default(),
            (_, None) => marked,
            (_, Some(Tos)) => marked.with_literal(),
        }
    }
}

/// The paper's byte.
#[derive(Clone, Copy, Debug)]
struct Tos;

impl FromStr for Tos {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "0x12" | "18" => Ok(Self),
            _ => Err(
                "only 0x12 is meant as a whole byte: name the DSCP with --dscp (the byte, divided by four)"
                    .into(),
            ),
        }
    }
}

/// A ratio of rates, in thousandths.
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
            format!("{text:?} is no ratio: write a number with up to three decimals, as in 2.5")
        })
    }
}

/// What a link is to promise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Terms {
    rate_bits_per_second: u64,
    /// `None`: 10 ms, or as little as is possible.
    delay_ns: Option<u64>,
    ratio: Ratio,
    raises: bool,
}

impl Terms {
    /// What is wished for, where that is said; what was before, where it is not.
    pub(super) fn new(wish: &Wish, before: Option<&Self>) -> Self {
        Self {
            // A link that is to promise something for the first time has its rate; without, it is refused as one of 0 bit/s.
            rate_bits_per_second: (wish.rate_bits_per_second)
                .or_else(|| before.map(|before| before.rate_bits_per_second))
                .unwrap_or(0),
            delay_ns: wish.delay_ns.or_else(|| before.and_then(|before| before.delay_ns)),
            ratio: wish.ratio.or_else(|| before.map(|before| before.ratio)).unwrap_or(RATIO),
            // A bound that is typed is meant as it is typed.
            raises: wish.raise || wish.delay_ns.is_none() && before.is_some_and(|before| before.raises),
        }
    }

    /// Those of a link of which nothing is known any more.
    pub(super) const fn unknown() -> Self {
        Self { rate_bits_per_second: 0, delay_ns: None, ratio: RATIO, raises: false }
    }

    /// What the link carries.
    pub(super) const fn rate(&self) -> Rate {
        Rate::from_bits_per_second(self.rate_bits_per_second)
    }

    /// The ratio of the rates of flows.
    pub(super) const fn ratio(&self) -> Ratio {
        self.ratio
    }

    /// The delay that was typed.
    pub(super) fn delay(&self) -> Option<Duration> {
        self.delay_ns.map(Duration::from_nanos)
    }

    /// What that means for a device, if packets of at most `longest` bytes come, which may be longer than what the link carries in one.
    ///
    /// # Errors
    /// If the link cannot promise it.
    pub(super) fn settings(&self, device: &LinkDevice, longest: Bytes) -> Result<Settings, SettingsError> {
        let settings = Settings::new(self.rate(), frame(device).max(longest).min(PACKET_MAX))?;
        let settings = settings.with_ratio_milli(self.ratio.0)?;
        let Some(delay) = self.delay() else {
            return Ok(settings);
        };
        match settings.with_delay(delay) {
            Err(SettingsError::Delay { least, .. }) if self.raises => settings.with_delay(least),
            settings => settings,
        }
    }

    /// The same where packets have become longer than the operator could know: the delay is raised then.
    ///
    /// # Errors
    /// If the link cannot promise anything.
    pub(super) fn settings_raised(
        &self,
        device: &LinkDevice,
        longest: Bytes,
    ) -> Result<Settings, SettingsError> {
        Self { raises: true, ..*self }.settings(device, longest)
    }

    /// What a change comes to, if it can be. Where it is about neither rate nor delay, the link keeps both, also if longer packets have had the
    /// delay raised meanwhile.
    ///
    /// # Errors
    /// If the link cannot promise it.
    pub(super) fn changed(wish: &Wish, before: &Self, device: &LinkDevice) -> Result<Self, Failure> {
        let terms = Self::new(wish, Some(before));
        if wish.rate_bits_per_second.is_some() || wish.delay_ns.is_some() {
            terms.checked(device)?;
        } else {
            let settings = terms.settings_raised(device, Bytes::ZERO);
            settings.map_err(|error| refused(&device.name, &error))?;
        }
        Ok(terms)
    }

    /// The same, and that both classes can work at this rate.
    ///
    /// # Errors
    /// If the link cannot promise it, or is none.
    pub(super) fn checked(&self, device: &LinkDevice) -> Result<Settings, Failure> {
        let name = &device.name;
        if device.is_loopback {
            let message = format!(
                "{name} leads back to this machine, and nothing waits there: name the device of a link"
            );
            return Err(Failure::new(Cause::Settings, message));
        }
        if self.rate() > RATE_MAX {
            let message = format!(
                "{name}: {} is more than queues of the kernel send: give at most {RATE_MAX}",
                self.rate()
            );
            return Err(Failure::new(Cause::Settings, message));
        }
        let settings = self.settings(device, Bytes::ZERO).map_err(|error| refused(name, &error))?;
        let least = least_rate(frame(device)).saturating_add(least_rate(frame(device)));
        if settings.capacity() < least {
            let message = format!(
                "{name}: at {} two classes do not send a packet of {} each in {UPDATE_INTERVAL}: give at least {least}, or a smaller MTU",
                settings.capacity(),
                frame(device),
            );
            return Err(Failure::new(Cause::Settings, message));
        }
        Ok(settings)
    }
}

/// The longest packet of a device, with what its link adds.
pub(super) fn frame(device: &LinkDevice) -> Bytes {
    let header = if device.is_ethernet { ETHERNET_HEADER_BYTES } else { 0 };
    Bytes::new(u64::from(device.mtu) + header)
}

fn refused(device: &str, error: &SettingsError) -> Failure {
    let remedy = match error {
        SettingsError::Delay { .. } => ", or --raise",
        _ => "",
    };
    Failure::new(Cause::Settings, format!("{device}: {error}{remedy}"))
}

/// A packet in each round: a class that waits longer for the time to send would not hear in time that it has become faster.
pub(super) fn least_rate(frame: Bytes) -> Rate {
    let bits = frame.bits() * 1_000_000_000;
    let rate = bits.div_ceil(u128::from(UPDATE_INTERVAL.as_nanos()));
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

    fn terms(rate: &str, delay: Option<&str>, raise: bool) -> Terms {
        let flags = PromiseFlags {
            rate: rate.parse().expect("a rate"),
            delay: delay.map(|delay| delay.parse().expect("a time")),
            ratio: None,
            raise,
        };
        Terms::new(&Wish::from(&flags), None)
    }

    fn refusal(rate: &str, delay: Option<&str>) -> String {
        terms(rate, delay, false).checked(&device(1_500)).expect_err("it cannot be").to_string()
    }

    #[test]
    fn what_a_link_cannot_promise_is_refused_with_its_bound_or_raised() {
        let usual = terms("100 Mbit/s", None, false).checked(&device(1_500)).expect("a usual link");
        assert_eq!((usual.delay(), usual.ratio_milli()), (Duration::from_millis(10), 2_000));
        let said = refusal("1 Mbit/s", Some("10 ms"));
        // Twice 1,518 bytes.
        assert!(said.contains("24.288 ms") && said.ends_with("or --raise"), "{said}");
        let raised = terms("1 Mbit/s", Some("10 ms"), true).checked(&device(1_500)).expect("it is raised");
        assert_eq!(raised.delay(), Duration::from_micros(24_288));
        let said = refusal("60 kbit/s", None);
        assert!(said.contains("give at least 60.72 kbit/s"), "{said}");
        assert!(refusal("0 bit/s", None).contains("sends nothing"));
        assert!(refusal("101 Gbit/s", None).contains("give at most 100 Gbit/s"));
        let loopback = LinkDevice { is_loopback: true, ..device(65_536) };
        let said = terms("1 Gbit/s", None, false).checked(&loopback).expect_err("no link").to_string();
        assert!(said.contains("leads back"), "{said}");
    }

    #[test]
    fn what_is_not_typed_again_stays() {
        let before = terms("100 Mbit/s", Some("20 ms"), true);
        let flags = |delay: Option<&str>| ChangedFlags {
            rate: None,
            delay: delay.map(|delay| delay.parse().expect("a time")),
            ratio: Some(Ratio(3_000)),
            raise: false,
        };
        let after =
            Terms::new(&Wish::from(&flags(None)), Some(&before)).checked(&device(1_500)).expect("a link");
        assert_eq!((after.delay(), after.ratio_milli()), (Duration::from_millis(20), 3_000));
        let after = Terms::new(&Wish::from(&flags(Some("5 ms"))), Some(&before))
            .checked(&device(1_500))
            .expect("a link");
        assert_eq!(after.delay(), Duration::from_millis(5));
        assert_eq!(after.capacity(), Rate::from_megabits_per_second(100));
        let slower = ChangedFlags { rate: "50 Mbit/s".parse().ok(), ..ChangedFlags::default() };
        let after = Terms::new(&Wish::from(&slower), Some(&before)).checked(&device(1_500)).expect("a link");
        assert_eq!(
            (after.capacity(), after.delay()),
            (Rate::from_megabits_per_second(50), Duration::from_millis(20))
        );
    }

    #[test]
    fn a_delay_that_is_typed_is_meant_as_it_is_typed() {
        let before = terms("100 Mbit/s", Some("20 ms"), true);
        let strict = ChangedFlags { delay: "20 us".parse().ok(), ..ChangedFlags::default() };
        let said = Terms::changed(&Wish::from(&strict), &before, &device(1_500)).expect_err("too little");
        assert!(said.to_string().ends_with("or --raise"), "{said}");
        let raised = ChangedFlags { raise: true, ..strict };
        assert!(Terms::changed(&Wish::from(&raised), &before, &device(1_500)).is_ok());
    }

    #[test]
    fn what_longer_packets_have_raised_is_no_reason_to_refuse_another_change() {
        let before = terms("100 Mbit/s", Some("1 ms"), false);
        let long = device(9_000);
        let ratio = ChangedFlags { ratio: Some(Ratio(3_000)), ..ChangedFlags::default() };
        let after = Terms::changed(&Wish::from(&ratio), &before, &long).expect("the delay was raised");
        assert_eq!((after.ratio(), after.delay()), (Ratio(3_000), before.delay()));
        let rate = ChangedFlags { rate: "90 Mbit/s".parse().ok(), ..ChangedFlags::default() };
        assert!(Terms::changed(&Wish::from(&rate), &before, &long).is_err());
        let wrong = ChangedFlags { ratio: Some(Ratio(1_000)), ..ChangedFlags::default() };
        assert!(Terms::changed(&Wish::from(&wrong), &before, &long).is_err());
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

    #[test]
    fn ratios_have_up_to_three_decimals() {
        let parsed = ["2", "2.5", "1.001", "10"].map(|text| text.parse().map(|Ratio(milli)| milli));
        assert_eq!(parsed, [Ok(2_000), Ok(2_500), Ok(1_001), Ok(10_000)]);
        for wrong in ["", ".", "x", "2.5555", "-2", "1e3", "99999999999"] {
            assert!(wrong.parse::<Ratio>().is_err(), "{wrong}");
        }
    }
}
