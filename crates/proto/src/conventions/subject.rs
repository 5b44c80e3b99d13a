//! What an offer is about: the number of the application's endpoint, and the name of what it sends to.

use alloc::borrow::ToOwned as _;
use alloc::string::String;
use alloc::vec::Vec;

/// The subject of an offer: `source[4] ‖ name`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subject {
    /// The application's endpoint, as its agent numbers it: what one endpoint sends to several names leaves from one port.
    pub source: u32,
    /// What is exposed.
    pub name: String,
}

impl Subject {
    /// The longest name in bytes: a message has room for a subject of 255.
    pub const NAME_BYTES_MAX: usize = u8::MAX as usize - 4;

    /// Reads a subject; `None` if it is cut off or its name is not UTF-8.
    #[must_use]
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let (source, name) = bytes.split_first_chunk::<4>()?;
        let name = core::str::from_utf8(name).ok()?;
        Some(Self { source: u32::from_be_bytes(*source), name: name.to_owned() })
    }

    /// Its bytes.
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
