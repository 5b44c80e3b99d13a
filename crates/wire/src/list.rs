//! Lists of records of equal length in messages.

use core::fmt;
use core::marker::PhantomData;

use crate::error::ParseError;
use crate::limits::LIST_ENTRIES_MAX;
use crate::reader::Reader;

/// Entry of a list in a message, encoded as `N` bytes.
pub trait Record<const N: usize>: Copy + fmt::Debug {
    /// Reads an entry from its bytes.
    ///
    /// # Errors
    /// If a field has an illegal value.
    fn parse(bytes: &[u8; N]) -> Result<Self, ParseError>;

    /// Encodes the entry.
    fn to_bytes(self) -> [u8; N];
}

/// List of up to [`LIST_ENTRIES_MAX`] checked entries in their wire form.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct List<'a, T, const N: usize> {
    records: &'a [[u8; N]],
    of: PhantomData<T>,
}

impl<'a, T: Record<N>, const N: usize> List<'a, T, N> {
    /// List without entries.
    pub const EMPTY: Self = Self { records: &[], of: PhantomData };

    /// Encodes records into `scratch` until it is full, [`LIST_ENTRIES_MAX`] are written or
    /// `records` ends. Returns their list.
    ///
    /// The remaining records stay in `records`, for the next message.
    pub fn collect(records: &mut impl Iterator<Item = T>, scratch: &'a mut [[u8; N]]) -> Self {
        let mut count = 0;
        let slots = scratch.iter_mut().take(LIST_ENTRIES_MAX);
        // `zip` consumes a record only if a slot is free, because the slots are the first iterator.
        for (slot, record) in slots.zip(records) {
            *slot = record.to_bytes();
            count += 1;
        }
        Self { records: &scratch[..count], of: PhantomData }
    }

    /// Reads a list of `count` entries from a message, and checks each of them.
    pub(crate) fn parse(
        reader: &mut Reader<'a>,
        field: &'static str,
        count: usize,
    ) -> Result<Self, ParseError> {
        let records = reader.arrays(field, count)?;
        for record in records {
            T::parse(record)?;
        }
        Ok(Self { records, of: PhantomData })
    }

    /// Returns the number of entries.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.records.len()
    }

    /// True if the list has no entries.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// Returns the entries, in the order of the message.
    #[must_use]
    pub fn iter(&self) -> impl ExactSizeIterator<Item = T> + use<'a, T, N> {
        self.records.iter().map(legal)
    }

    /// Returns the entries as encoded.
    pub(crate) const fn as_bytes(&self) -> &'a [u8] {
        self.records.as_flattened()
    }
}

/// Decodes an entry of a list, which was checked when the list was made.
#[inline]
fn legal<T: Record<N>, const N: usize>(record: &[u8; N]) -> T {
    T::parse(record).expect("lists hold legal records")
}

impl<T: Record<N>, const N: usize> fmt::Debug for List<'_, T, N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A number below 100.
    #[derive(Clone, Copy, Debug, PartialEq)]
    struct Percent(u16);

    impl Record<2> for Percent {
        fn parse(bytes: &[u8; 2]) -> Result<Self, ParseError> {
            let mut reader = Reader::new("percent", bytes);
            let number = reader.u16("number")?;
            if number < 100 { Ok(Self(number)) } else { Err(reader.illegal("number", number, "0 to 99")) }
        }

        fn to_bytes(self) -> [u8; 2] {
            self.0.to_be_bytes()
        }
    }

    #[test]
    fn what_does_not_fit_stays_for_the_next_list() {
        let mut records = (0..5).map(Percent);
        let mut scratch = [[0; 2]; 3];
        assert!(List::collect(&mut records, &mut scratch).iter().eq([0, 1, 2].map(Percent)));
        let list = List::collect(&mut records, &mut scratch);
        assert!(list.iter().eq([3, 4].map(Percent)) && list.len() == 2);
        assert!(List::collect(&mut records, &mut scratch).is_empty());
    }

    #[test]
    fn a_list_has_no_more_records_than_its_count_can_say() {
        let mut records = (0..300).map(|number| Percent(number % 100));
        assert_eq!(List::collect(&mut records, &mut [[0; 2]; 280]).len(), 255);
        assert_eq!(records.len(), 45);
    }

    #[test]
    fn one_illegal_record_refuses_the_list() {
        let parse = |bytes, count| List::<Percent, 2>::parse(&mut Reader::new("test", bytes), "list", count);
        assert_eq!(parse(&[0, 1, 0, 99], 2).map(|list| list.len()), Ok(2));
        assert!(matches!(parse(&[0, 1, 0, 100], 2), Err(ParseError::Illegal { found: 100, .. })));
        assert!(matches!(parse(&[0, 1, 0], 2), Err(ParseError::TooShort { needed: 4, left: 3, .. })));
    }
}
