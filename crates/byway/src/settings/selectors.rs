//! How people say which packets: prefixes, ports, users.

use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::str::FromStr;

use byway_proto::marking::Mark;
use byway_typed::range;
use ipnet::IpNet;
use schemars::JsonSchema;
use serde::Deserialize;

/// Addresses that begin alike, like `10.1.0.0/16`; one address is a prefix of its whole length.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(try_from = "String")]
#[schemars(with = "String")]
pub(crate) struct TypedPrefix(pub(crate) IpNet);

/// An address of a device and how long its prefix is, like `100.64.7.1/24`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(try_from = "String")]
#[schemars(with = "String")]
pub(crate) struct TypedInside(pub(crate) IpNet);

/// A kind of packets that are worth a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(try_from = "String")]
#[schemars(with = "String")]
pub(crate) struct TypedMark(pub(crate) Mark);

/// Users of this machine, like `alice`, `1000` or `1000-1999`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(try_from = "String")]
#[schemars(with = "String")]
pub(crate) struct TypedUsers(pub(crate) RangeInclusive<u32>);

impl FromStr for TypedPrefix {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let prefix = text.parse::<IpNet>().ok().or_else(|| text.parse::<IpAddr>().ok().map(IpNet::from));
        let prefix = prefix.filter(|prefix| prefix.trunc() == *prefix);
        prefix.map(Self).ok_or_else(|| {
            format!(
                "{text:?} is no prefix: write an address, as in \"192.0.2.1\", or the first one of many and how many bits they \
                 share, as in \"10.1.0.0/16\""
            )
        })
    }
}

impl FromStr for TypedInside {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let prefix = text.parse::<IpNet>().ok().or_else(|| text.parse::<IpAddr>().ok().map(IpNet::from));
        let is_fit = |prefix: &IpNet| !prefix.addr().is_unspecified() && !prefix.addr().is_loopback();
        prefix.filter(is_fit).map(Self).ok_or_else(|| {
            format!("{text:?} is no address of a device: write it with the length of its prefix, as in \"100.64.7.1/24\"")
        })
    }
}

impl FromStr for TypedMark {
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

const NO_MARK: &str = "marks nothing: write \"tcp-handshakes\", \"tcp-syn-acks\", \"tcp-ends\", \"short-flows\", \"rtp-h264-key-frames\", \
                       \"rtp-h265-key-frames\", \"rtp-vp8-key-frames\", \"mpeg-ts-key-frames\", or \"dscp:46\" (0 to 63)";

impl FromStr for TypedUsers {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.starts_with(|first: char| first.is_ascii_digit()) {
            let users = range(text)
                .ok_or_else(|| format!("{text:?} are no users: write \"1000\" or \"1000-1999\""))?;
            return Ok(Self(users));
        }
        let user = nix::unistd::User::from_name(text);
        let user =
            user.map_err(|error| format!("whether there is a user {text:?} cannot be found out: {error}"))?;
        let user = user
            .ok_or_else(|| format!("there is no user {text:?} on this machine (getent passwd shows all)"))?;
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

from_text!(TypedPrefix, TypedInside, TypedMark, TypedUsers);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_address_is_a_prefix_and_a_prefix_begins_where_it_says() {
        let prefix = |text: &str| text.parse::<TypedPrefix>().map(|prefix| prefix.0.to_string());
        assert_eq!(prefix("192.0.2.1").as_deref(), Ok("192.0.2.1/32"));
        assert_eq!(prefix("2001:db8::1").as_deref(), Ok("2001:db8::1/128"));
        assert_eq!(prefix("10.1.0.0/16").as_deref(), Ok("10.1.0.0/16"));
        for text in ["10.1.0.1/16", "10.1.0.0/33", "host", ""] {
            let error = prefix(text).expect_err(text);
            assert!(error.contains("is no prefix"), "{error}");
        }
    }

    #[test]
    fn marks_have_names_and_a_dscp_has_six_bits() {
        let mark = |text: &str| text.parse::<TypedMark>().map(|typed| typed.0);
        assert_eq!(mark("tcp-ends"), Ok(Mark::TcpEnds));
        assert_eq!(mark("dscp:46"), Ok(Mark::Dscp(46)));
        for text in ["dscp:64", "dscp:", "ends", ""] {
            assert!(mark(text).expect_err(text).contains("marks nothing"), "{text}");
        }
    }

    #[test]
    fn a_device_has_an_address_and_not_a_network() {
        let inside = |text: &str| text.parse::<TypedInside>().map(|inside| inside.0.to_string());
        assert_eq!(inside("100.64.7.1/24").as_deref(), Ok("100.64.7.1/24"));
        assert_eq!(inside("fd77::1").as_deref(), Ok("fd77::1/128"));
        for text in ["0.0.0.0/0", "127.0.0.1/8", "::", "here"] {
            assert!(inside(text).is_err(), "{text}");
        }
    }

    #[test]
    fn users_are_numbers_or_names_that_there_are() {
        let users = |text: &str| text.parse::<TypedUsers>().map(|typed| typed.0);
        assert_eq!(users("1000-1999"), Ok(1_000..=1_999));
        assert_eq!(users("root"), Ok(0..=0));
        assert!(users("12x").expect_err("letters").contains("are no users"));
        assert!(users("nobody-of-this-name").expect_err("nobody").contains("there is no user"));
    }
}
