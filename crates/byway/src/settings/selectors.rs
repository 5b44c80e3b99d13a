//! Selectors of packets in the settings: prefixes, ports, users.

use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::str::FromStr;

use byway_config_types::range;
use byway_proto::copy_selection::Mark;
use ipnet::IpNet;
use schemars::JsonSchema;
use serde::Deserialize;

/// Addresses with a common prefix, like `10.1.0.0/16`; a single address is a prefix of full length.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(try_from = "String")]
#[schemars(with = "String")]
pub(crate) struct PrefixSetting(pub(crate) IpNet);

/// Address of a device with the length of its prefix, like `100.64.7.1/24`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(try_from = "String")]
#[schemars(with = "String")]
pub(crate) struct InterfaceAddressSetting(pub(crate) IpNet);

/// Kind of packets that get a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(try_from = "String")]
#[schemars(with = "String")]
pub(crate) struct MarkSetting(pub(crate) Mark);

/// Users of this machine, like `alice`, `1000` or `1000-1999`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(try_from = "String")]
#[schemars(with = "String")]
pub(crate) struct UsersSetting(pub(crate) RangeInclusive<u32>);

impl FromStr for PrefixSetting {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let prefix = text.parse::<IpNet>().ok().or_else(|| text.parse::<IpAddr>().ok().map(IpNet::from));
        let prefix = prefix.filter(|prefix| prefix.trunc() == *prefix);
        prefix.map(Self).ok_or_else(|| {
            format!(
                "invalid prefix {text:?}: write an address, as in \"192.0.2.1\", or a network with \
                 the length of its prefix, as in \"10.1.0.0/16\""
            )
        })
    }
}

impl FromStr for InterfaceAddressSetting {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let prefix = text.parse::<IpNet>().ok().or_else(|| text.parse::<IpAddr>().ok().map(IpNet::from));
        let is_fit = |prefix: &IpNet| !prefix.addr().is_unspecified() && !prefix.addr().is_loopback();
        prefix.filter(is_fit).map(Self).ok_or_else(|| {
            format!(
                "invalid address of a device {text:?}: write it with the length of its prefix, as in \
                 \"100.64.7.1/24\""
            )
        })
    }
}

impl FromStr for MarkSetting {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mark = match text {
            "tcp-handshakes" => Mark::TcpHandshakes,
            "tcp-syn-acks" => Mark::TcpSynAcks,
            "tcp-ends" => Mark::TcpEnds,
            "short-flows" => Mark::ShortFlows,
            "rtp-h264-key-frames" => Mark::RtpH264KeyFrames,
            "rtp-h265-key-frames" => Mark::RtpH265KeyFrames,
            "rtp-vp8-key-frames" => Mark::RtpVp8KeyFrames,
            "mpeg-ts-key-frames" => Mark::MpegTsKeyFrames,
            _ => {
                let dscp = text.strip_prefix("dscp:").and_then(|dscp| dscp.parse().ok());
                Mark::Dscp(dscp.filter(|dscp| *dscp < 64).ok_or_else(|| format!("{text:?} {NO_MARK}"))?)
            }
        };
        Ok(Self(mark))
    }
}

const NO_MARK: &str = "is not a mark: write \"tcp-handshakes\", \"tcp-syn-acks\", \"tcp-ends\", \
                       \"short-flows\", \"rtp-h264-key-frames\", \"rtp-h265-key-frames\", \
                       \"rtp-vp8-key-frames\", \"mpeg-ts-key-frames\", or \"dscp:46\" (0 to 63)";

impl FromStr for UsersSetting {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.starts_with(|first: char| first.is_ascii_digit()) {
            let users = range(text)
                .ok_or_else(|| format!("invalid users {text:?}: write \"1000\" or \"1000-1999\""))?;
            return Ok(Self(users));
        }
        let user = nix::unistd::User::from_name(text);
        let user = user.map_err(|error| format!("cannot look up user {text:?}: {error}"))?;
        let user =
            user.ok_or_else(|| format!("user {text:?} not found on this machine (getent passwd shows all)"))?;
        let number = user.uid.as_raw();
        Ok(Self(number..=number))
    }
}

macro_rules! from_text {
    ($($typed:ident),*) => {$(
        impl TryFrom<String> for $typed {
            type Error = String;

            fn try_from(text: String) -> Result<Self, String> {
                text.parse()
            }
        }
    )*};
}

from_text!(PrefixSetting, InterfaceAddressSetting, MarkSetting, UsersSetting);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_address_is_a_prefix_and_a_prefix_begins_where_it_says() {
        let prefix = |text: &str| text.parse::<PrefixSetting>().map(|prefix| prefix.0.to_string());
        assert_eq!(prefix("192.0.2.1").as_deref(), Ok("192.0.2.1/32"));
        assert_eq!(prefix("2001:db8::1").as_deref(), Ok("2001:db8::1/128"));
        assert_eq!(prefix("10.1.0.0/16").as_deref(), Ok("10.1.0.0/16"));
        for text in ["10.1.0.1/16", "10.1.0.0/33", "host", ""] {
            let error = prefix(text).expect_err(text);
            assert!(error.contains("invalid prefix"), "{error}");
        }
    }

    #[test]
    fn marks_have_names_and_a_dscp_has_six_bits() {
        let mark = |text: &str| text.parse::<MarkSetting>().map(|typed| typed.0);
        assert_eq!(mark("tcp-ends"), Ok(Mark::TcpEnds));
        assert_eq!(mark("dscp:46"), Ok(Mark::Dscp(46)));
        for text in ["dscp:64", "dscp:", "ends", ""] {
            assert!(mark(text).expect_err(text).contains("is not a mark"), "{text}");
        }
    }

    #[test]
    fn a_device_has_an_address_and_not_a_network() {
        let inside = |text: &str| text.parse::<InterfaceAddressSetting>().map(|inside| inside.0.to_string());
        assert_eq!(inside("100.64.7.1/24").as_deref(), Ok("100.64.7.1/24"));
        assert_eq!(inside("fd77::1").as_deref(), Ok("fd77::1/128"));
        for text in ["0.0.0.0/0", "127.0.0.1/8", "::", "here"] {
            assert!(inside(text).is_err(), "{text}");
        }
    }

    #[test]
    fn users_are_numbers_or_names_that_there_are() {
        let users = |text: &str| text.parse::<UsersSetting>().map(|typed| typed.0);
        assert_eq!(users("1000-1999"), Ok(1_000..=1_999));
        assert_eq!(users("root"), Ok(0..=0));
        assert!(users("12x").expect_err("letters").contains("invalid users"));
        assert!(users("nobody-of-this-name").expect_err("nobody").contains("not found on this machine"));
    }
}
