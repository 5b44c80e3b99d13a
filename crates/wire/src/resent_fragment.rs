//! Resent fragment: half of a datagram that was first sent whole, and is sent again.

use crate::coded::Fragment;
use crate::codes::Code;
use crate::error::ParseError;
use crate::reader::Reader;

/// Content of a source packet of [`Fragment::Resent`], instead of a datagram: one of two fragments,
/// and the sequence number of the datagram that was sent whole.
///
/// If the whole datagram arrives too, the later arrival is a duplicate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResentFragment<'a> {
    /// Low 32 bits of the sequence number of the packet that had the whole datagram.
    pub sequence_low: u32,
    /// Half of the datagram: [`Fragment::First`] or [`Fragment::Second`].
    pub fragment: Fragment,
    /// Bytes of the fragment.
    pub bytes: &'a [u8],
}

/// Number of bytes before those of the fragment.
const OVERHEAD: usize = 5;

impl<'a> ResentFragment<'a> {
    /// Reads the content of a source packet with a resent fragment.
    ///
    /// # Errors
    /// If a field is cut off or illegal.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, ParseError> {
        let mut reader = Reader::new("resent fragment", bytes);
        let sequence_low = reader.u32("sequence number")?;
        let fragment = match reader.code("fragment")? {
            fragment @ (Fragment::First | Fragment::Second) => fragment,
            fragment => return Err(reader.illegal("fragment", fragment.code(), "1, 2")),
        };
        Ok(Self { sequence_low, fragment, bytes: reader.rest() })
    }

    /// Encodes the fields that precede the bytes of the fragment.
    #[must_use]
    pub fn head(&self) -> [u8; OVERHEAD] {
        let [s0, s1, s2, s3] = self.sequence_low.to_be_bytes();
        [s0, s1, s2, s3, self.fragment.code()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_resent_fragment_comes_back() {
        for fragment in [Fragment::First, Fragment::Second] {
            let resent = ResentFragment { sequence_low: 0x0102_0304, fragment, bytes: b"bytes" };
            assert_eq!(ResentFragment::parse(&[&resent.head()[..], b"bytes"].concat()), Ok(resent));
        }
    }

    #[test]
    fn other_fragments_and_short_ones_are_refused() {
        for fragment in [0, 3, 4] {
            assert!(ResentFragment::parse(&[0, 0, 0, 1, fragment, 7]).is_err());
        }
        assert!(ResentFragment::parse(&[0, 0, 0, 1]).is_err());
        assert!(ResentFragment::parse(&[0, 0, 0, 1, 1]).is_ok_and(|resent| resent.bytes.is_empty()));
    }
}
