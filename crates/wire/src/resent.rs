//! A piece of a datagram that is sent again.

use crate::coded::Piece;
use crate::codes::Code;
use crate::error::ParseError;
use crate::reader::Reader;

/// What a source packet of [`Piece::Again`] carries in the place of a datagram: one of two pieces, and the number under
/// which the datagram was sent whole. If that one arrives too, whichever comes second is a duplicate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resent<'a> {
    /// The low 32 bits of the sequence number of the first time.
    pub sequence_low: u32,
    /// [`Piece::First`] or [`Piece::Second`].
    pub piece: Piece,
    /// The piece.
    pub bytes: &'a [u8],
}

/// Bytes in front of the piece.
const OVERHEAD: usize = 5;

impl<'a> Resent<'a> {
    /// Reads what is in the place of a datagram.
    ///
    /// # Errors
    /// If a field is cut off or illegal.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, ParseError> {
        let mut reader = Reader::new("resent piece", bytes);
        let sequence_low = reader.u32("sequence number")?;
        let piece = match reader.code("piece")? {
            piece @ (Piece::First | Piece::Second) => piece,
            piece => return Err(reader.illegal("piece", piece.code(), "1, 2")),
        };
        Ok(Self { sequence_low, piece, bytes: reader.rest() })
    }

    /// The bytes in front of the piece.
    #[must_use]
    pub fn head(&self) -> [u8; OVERHEAD] {
        let [s0, s1, s2, s3] = self.sequence_low.to_be_bytes();
        [s0, s1, s2, s3, self.piece.code()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_resent_piece_comes_back() {
        for piece in [Piece::First, Piece::Second] {
            let resent = Resent { sequence_low: 0x0102_0304, piece, bytes: b"bytes" };
            assert_eq!(Resent::parse(&[&resent.head()[..], b"bytes"].concat()), Ok(resent));
        }
    }

    #[test]
    fn other_pieces_and_short_ones_are_refused() {
        for piece in [0, 3, 4] {
            assert!(Resent::parse(&[0, 0, 0, 1, piece, 7]).is_err());
        }
        assert!(Resent::parse(&[0, 0, 0, 1]).is_err());
        assert!(Resent::parse(&[0, 0, 0, 1, 1]).is_ok_and(|resent| resent.bytes.is_empty()));
    }
}
