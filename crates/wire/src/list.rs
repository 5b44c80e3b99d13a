//! Lists of records of one length, as they lie in a message.

use core::fmt;
use core::marker::PhantomData;

use crate::error::ParseError;
use crate::limits::LIST_ENTRIES_MAX;
use crate::reader::Reader;

/// What a list holds; each takes `N` bytes.
pub trait Record<const N: usize>: Copy + fmt::Debug {
    /// Reads a record from its bytes.
    ///
    /// # Errors
    /// If a field has a value that it may not have.
    fn parse(bytes: &[u8; N]) -> Result<Self, ParseError>;

    /// The record's bytes.
    fn to_bytes(self) -> [u8; N];
}

/// Up to [`LIST_ENTRIES_MAX`] records in their wire form, all of them legal.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct List<'a, T, const N: usize> {
    records: &'a [[u8; N]],
    of: PhantomData<T>,
}

impl<'a, T: Record<N>, const N: usize> List<'a, T, N> {
    /// Writes records into `scratch`, until it is full, [`LIST_ENTRIES_MAX`] are written or there are no more.
    ///
    /// What is left stays in `records`, for the next message.
    pub fn collect(records: &mut impl Iterator<Item = T>, scratch: &'a mut [[u8; N]]) -> Self {
        let mut count = 0;
        let places = scratch.iter_mut().take(LIST_ENTRIES_MAX);
        // The places come first: a record is only taken once there is one for it.
        for (place, record) in places.zip(records) {
            *place = record.to_bytes();
            count += 1;
        }
        Self { records: &scratch[..count], of: PhantomData }
    }

    /// Reads `count` records, and checks each of them.
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

    /// How many records there are.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.records.len()
    }

    /// Whether there are none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// The records, in order.
    #[must_use]
    pub fn iter(&self) -> impl ExactSizeIterator<Item = T> + use<'a, T, N> {
        self.records.iter().map(legal)
    }

    /// The records' bytes.
    pub(crate) const fn as_bytes(&self) -> &'a [u8] {
        self.records.as_flattened()
    }
}

/// A record of a list, all of which have been checked.
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
