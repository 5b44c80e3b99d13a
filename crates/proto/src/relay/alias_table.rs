//! Table of values by alias. The peer chooses the aliases, so memory grows with the number of
//! values and hardly with the aliases' numbers.

use alloc::boxed::Box;
use alloc::vec::Vec;

use byway_wire::Alias;

/// Number of aliases per row. Small rows keep a table with few values small.
const ROW: usize = 16;

/// Table of values by alias, as a list of rows that are allocated at first use.
#[derive(Debug)]
pub(super) struct AliasTable<T> {
    rows: Vec<Option<Box<[Option<T>; ROW]>>>,
    /// Number of allocated rows.
    count: usize,
}

impl<T: Copy> AliasTable<T> {
    pub(super) const fn new() -> Self {
        Self { rows: Vec::new(), count: 0 }
    }

    pub(super) fn get(&self, alias: Alias) -> Option<T> {
        let (row, column) = row_and_column(alias);
        self.rows.get(row)?.as_ref()?[column]
    }

    pub(super) fn get_mut(&mut self, alias: Alias) -> Option<&mut T> {
        let (row, column) = row_and_column(alias);
        self.rows.get_mut(row)?.as_mut()?[column].as_mut()
    }

    /// Stores a value and returns the one that it replaces.
    pub(super) fn insert(&mut self, alias: Alias, value: T) -> Option<T> {
        let (row, column) = row_and_column(alias);
        if self.rows.len() <= row {
            self.rows.reserve_exact(row + 1 - self.rows.len());
            self.rows.resize_with(row + 1, || None);
        }
        let count = &mut self.count;
        let row = self.rows[row].get_or_insert_with(|| {
            *count += 1;
            Box::new([None; ROW])
        });
        row[column].replace(value)
    }

    /// Returns the memory use of the table, in bytes.
    pub(super) const fn bytes(&self) -> u64 {
        (self.count * size_of::<[Option<T>; ROW]>() + self.rows.capacity() * size_of::<Option<Box<T>>>())
            as u64
    }

    /// Returns the memory that [`Self::insert`] with this alias would add at most, in bytes.
    pub(super) fn more_bytes(&self, alias: Alias) -> u64 {
        let (row, _) = row_and_column(alias);
        let more = (row + 1).saturating_sub(self.rows.capacity()) * size_of::<Option<Box<T>>>();
        let is_allocated = self.rows.get(row).is_some_and(Option::is_some);
        (more + if is_allocated { 0 } else { size_of::<[Option<T>; ROW]>() }) as u64
    }

    /// Returns all values, with their aliases.
    pub(super) fn iter(&self) -> impl Iterator<Item = (Alias, T)> + '_ {
        let rows = self.rows.iter().enumerate().filter_map(|(row, values)| Some((row, values.as_ref()?)));
        rows.flat_map(|(row, values)| {
            values.iter().enumerate().filter_map(move |(column, value)| {
                let alias = u16::try_from(row * ROW + column).ok().and_then(Alias::new)?;
                Some((alias, (*value)?))
            })
        })
    }
}

fn row_and_column(alias: Alias) -> (usize, usize) {
    let number = usize::from(alias.number());
    (number / ROW, number % ROW)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn alias(number: u16) -> Alias {
        Alias::new(number).expect("not zero")
    }

    #[test]
    fn values_are_found_by_their_aliases_and_high_ones_take_little() {
        let mut table = AliasTable::new();
        for number in [1, 15, 16, u16::MAX] {
            let before = table.bytes() + table.more_bytes(alias(number));
            assert_eq!(table.insert(alias(number), number), None);
            assert!(table.bytes() <= before);
        }
        assert_eq!(table.insert(alias(16), 7), Some(16));
        let all = [(1, 1), (15, 15), (16, 7), (u16::MAX, u16::MAX)];
        assert!(table.iter().eq(all.map(|(number, value)| (alias(number), value))));
        assert_eq!((table.get(alias(2)), table.get(alias(3_000))), (None, None));
        *table.get_mut(alias(1)).expect("it is there") = 9;
        assert_eq!(table.get(alias(1)), Some(9));
        assert!(table.bytes() < 64 << 10);
    }
}
