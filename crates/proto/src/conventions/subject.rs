//! Subject of an offer: the number of the application's endpoint, and the exposed name that it
//! sends to.

use alloc::borrow::ToOwned as _;
use alloc::string::String;
use alloc::vec::Vec;

/// Subject of an offer, encoded as `source[4] ‖ name`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subject {
    /// Number of the application's endpoint at its agent. The peer sends datagrams of one endpoint
    /// to several names from one port.
    pub source: u32,
    /// Name that the peer exposes, to which the flow's datagrams are sent.
    pub name: String,
}

impl Subject {
    /// Longest name in bytes: a subject of an offer has up to 255.
    pub const NAME_BYTES_MAX: usize = u8::MAX as usize - 4;

    /// Parses a subject; `None` if it is truncated or its name is not UTF-8.
    #[must_use]
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let (source, name) = bytes.split_first_chunk::<4>()?;
        let name = core::str::from_utf8(name).ok()?;
        Some(Self { source: u32::from_be_bytes(*source), name: name.to_owned() })
    }

    /// Returns the encoded subject of the offer.
    #[must_use]
    pub fn bytes(&self) -> Vec<u8> {
        [&self.source.to_be_bytes(), self.name.as_bytes()].concat()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subject_comes_back() {
        let subject = Subject { source: 0xDEAD_BEEF, name: "vidéo".to_owned() };
        assert_eq!(Subject::parse(&subject.bytes()), Some(subject));
    }

    #[test]
    fn what_is_no_subject_is_none() {
        for bytes in [&[][..], &[1, 2, 3], &[0, 0, 0, 1, 0xFF]] {
            assert_eq!(Subject::parse(bytes), None);
        }
    }
}
