//! Candidates: addresses at which an agent may be reachable.

use core::fmt;

use crate::address::{ADDRESS_BYTES_MAX, Address};
use crate::error::{MessageFullError, ParseError};
use crate::limits::CANDIDATES_MAX;
use crate::reader::Reader;
use crate::writer::{Output, Writer};

const NAME: &str = "candidates";

/// Greatest length of [`CANDIDATES_MAX`] addresses, in bytes.
pub const ADDRESSES_BYTES_MAX: usize = CANDIDATES_MAX * ADDRESS_BYTES_MAX;

/// Up to [`CANDIDATES_MAX`] addresses in their wire form.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Addresses<'a> {
    count: u8,
    bytes: &'a [u8],
}

impl<'a> Addresses<'a> {
    /// Writes the first [`CANDIDATES_MAX`] of `addresses` into `scratch`.
    pub fn collect(
        addresses: impl IntoIterator<Item = Address>,
        scratch: &'a mut [u8; ADDRESSES_BYTES_MAX],
    ) -> Self {
        let mut output = Output::new(scratch);
        let mut count = 0;
        for address in addresses.into_iter().take(CANDIDATES_MAX) {
            address.emit(&mut output);
            count += 1;
        }
        let length = output.length();
        Self { count, bytes: &scratch[..length] }
    }

    fn parse(reader: &mut Reader<'a>) -> Result<Self, ParseError> {
        let count = reader.u8("count")?;
        if usize::from(count) > CANDIDATES_MAX {
            return Err(reader.illegal("count", count, "0 to 8"));
        }
        let all = reader.rest();
        for _ in 0..count {
            Address::parse(reader)?;
        }
        Ok(Self { count, bytes: &all[..all.len() - reader.rest().len()] })
    }

    /// Returns the number of addresses.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.count as usize
    }

    /// True if there are no addresses.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Returns the addresses, in the order of the message.
    pub fn iter(&self) -> impl Iterator<Item = Address> + use<'a> {
        let mut reader = Reader::new(NAME, self.bytes);
        (0..self.count).map(move |_| legal(&mut reader))
    }
}

/// Parses the next address of a list, which has been checked already.
fn legal(reader: &mut Reader<'_>) -> Address {
    Address::parse(reader).expect("lists hold legal addresses")
}

impl fmt::Debug for Addresses<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// An agent announces its candidate addresses to another agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Candidates<'a> {
    /// Addresses at which the agent may be reachable.
    pub addresses: Addresses<'a>,
}

impl<'a> Candidates<'a> {
    /// Type number of a candidates message on the wire.
    pub const TYPE: u8 = 37;

    /// Reads a candidates message from the body of a message.
    ///
    /// # Errors
    /// If a field is cut off or illegal.
    pub fn parse(body: &'a [u8]) -> Result<Self, ParseError> {
        Ok(Self { addresses: Addresses::parse(&mut Reader::new(NAME, body))? })
    }

    /// Appends the candidates message to the messages of a packet.
    ///
    /// # Errors
    /// If the packet has too few bytes left; then no byte is written.
    pub fn emit(&self, writer: &mut Writer<'_>) -> Result<(), MessageFullError> {
        writer.append(Self::TYPE, |output| {
            output.u8(self.addresses.count);
            output.bytes(self.addresses.bytes);
        })
    }
}
