//! Parser of fields, from the beginning of a packet or message to its end.

use byway_units::{AgentId, FlowId};

use crate::codes::Code;
use crate::error::ParseError;
use crate::ids::{Alias, FlowKey, Receiver};
use crate::limits::AGENT_NUMBER_MAX;

/// Version of the encoding of grants and credentials.
pub(crate) const STATEMENT_VERSION: u8 = 1;

/// Parser of a packet or message: its unread bytes, and its name for errors.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reader<'a> {
    thing: &'static str,
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    #[inline]
    pub(crate) const fn new(thing: &'static str, bytes: &'a [u8]) -> Self {
        Self { thing, rest: bytes }
    }

    /// Begins to read a structure of at most `bytes_max` bytes. Reading its fields detects one that
    /// is too short.
    pub(crate) fn bounded(
        thing: &'static str,
        bytes: &'a [u8],
        bytes_max: usize,
    ) -> Result<Self, ParseError> {
        if bytes.len() > bytes_max {
            return Err(ParseError::TooLong { thing, bytes: bytes.len(), allowed: bytes_max });
        }
        Ok(Self::new(thing, bytes))
    }

    /// Returns the name of the packet or message, for errors.
    pub(crate) const fn thing(&self) -> &'static str {
        self.thing
    }

    /// Returns the bytes after the fields read so far.
    #[inline]
    pub(crate) const fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// Reads the next `N` bytes.
    #[inline]
    pub(crate) fn array<const N: usize>(&mut self, field: &'static str) -> Result<&'a [u8; N], ParseError> {
        let (array, rest) = self.rest.split_first_chunk().ok_or_else(|| self.too_short(field, N))?;
        self.rest = rest;
        Ok(array)
    }

    /// Reads the next `count` bytes.
    #[inline]
    pub(crate) fn bytes(&mut self, field: &'static str, count: usize) -> Result<&'a [u8], ParseError> {
        let (bytes, rest) = self.rest.split_at_checked(count).ok_or_else(|| self.too_short(field, count))?;
        self.rest = rest;
        Ok(bytes)
    }

    /// Reads the next `count` records of `N` bytes each.
    #[inline]
    pub(crate) fn arrays<const N: usize>(
        &mut self,
        field: &'static str,
        count: usize,
    ) -> Result<&'a [[u8; N]], ParseError> {
        let (arrays, _) = self.bytes(field, count * N)?.as_chunks();
        Ok(arrays)
    }

    #[inline]
    pub(crate) fn u8(&mut self, field: &'static str) -> Result<u8, ParseError> {
        self.array(field).map(|[byte]: &[u8; 1]| *byte)
    }

    #[inline]
    pub(crate) fn u16(&mut self, field: &'static str) -> Result<u16, ParseError> {
        self.array(field).copied().map(u16::from_be_bytes)
    }

    #[inline]
    pub(crate) fn u32(&mut self, field: &'static str) -> Result<u32, ParseError> {
        self.array(field).copied().map(u32::from_be_bytes)
    }

    #[inline]
    pub(crate) fn u64(&mut self, field: &'static str) -> Result<u64, ParseError> {
        self.array(field).copied().map(u64::from_be_bytes)
    }

    /// Reads an enumeration value from one byte.
    #[inline]
    pub(crate) fn code<T: Code>(&mut self, field: &'static str) -> Result<T, ParseError> {
        let code = self.u8(field)?;
        T::from_code(code).ok_or_else(|| self.illegal(field, code, T::ALLOWED))
    }

    /// Reads the version of a grant or credential; another one is an error.
    pub(crate) fn version(&mut self) -> Result<(), ParseError> {
        match self.u8("version")? {
            STATEMENT_VERSION => Ok(()),
            version => Err(self.illegal("version", version, "1")),
        }
    }

    #[inline]
    pub(crate) fn alias(&mut self) -> Result<Alias, ParseError> {
        Alias::new(self.u16("alias")?).ok_or_else(|| self.illegal("alias", 0_u8, "1 to 65535"))
    }

    pub(crate) fn agent(&mut self, field: &'static str) -> Result<AgentId, ParseError> {
        let number = self.u32(field)?;
        if number > AGENT_NUMBER_MAX {
            return Err(self.illegal(field, number, "an agent's number, below 2^31"));
        }
        Ok(AgentId::new(number))
    }

    pub(crate) fn receiver(&mut self) -> Result<Receiver, ParseError> {
        self.u32("receiver").map(Receiver::from_wire)
    }

    pub(crate) fn flow_key(&mut self) -> Result<FlowKey, ParseError> {
        let sender = self.agent("sender")?;
        let receiver = self.receiver()?;
        let flow = FlowId::new(self.u16("flow")?);
        Ok(FlowKey::new(sender, receiver, flow))
    }

    /// Returns the error for an illegal value of a field that was just read.
    #[cold]
    pub(crate) fn illegal(
        &self,
        field: &'static str,
        found: impl Into<u64>,
        allowed: &'static str,
    ) -> ParseError {
        ParseError::Illegal { thing: self.thing, field, found: found.into(), allowed }
    }

    #[cold]
    fn too_short(&self, field: &'static str, needed: usize) -> ParseError {
        ParseError::TooShort { thing: self.thing, field, needed, left: self.rest.len() }
    }
}
