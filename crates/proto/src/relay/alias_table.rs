//! Values by alias, where the other side chooses the aliases: what a table takes depends on how many there are, and hardly on which.

use alloc::boxed::Box;
use alloc::vec::Vec;

use byway_wire::Alias;

/// Aliases in a row of a table: the rows that a few flows take are small, and so is the list of all rows.
const ROW: usize = 16;

/// A table of values by alias.
#[derive(Debug)]
pub(super) struct AliasTable<T> {
    rows: Vec<Option<Box<[Option<T>; ROW]>>>,
    /// Rows that are there.
    count: usize,
}

impl<T: Copy> AliasTable<T> {
    pub(super) const fn new() -> Self {
        Self { rows: Vec::new(), count: 0 }
    }

    pub(super) fn get(&self, alias: Alias) -> Option<T> {
        let (row, place) = place_of(alias);
        self.rows.get(row)?.as_ref()?[place]
    }

    pub(super) fn get_mut(&mut self, alias: Alias) -> Option<&mut T> {
        let (row, place) = place_of(alias);
        self.rows.get_mut(row)?.as_mut()?[place].as_mut()
    }

    /// Keeps a value; what was kept before.
    pub(super) fn insert(&mut self, alias: Alias, value: T) -> Option<T> {
        let (row, place) = place_of(alias);
        if self.rows.len() <= row {
            self.rows.reserve_exact(row + 1 - self.rows.len());
            self.rows.resize_with(row + 1, || None);
        }
        let count = &mut self.count;
        let row = self.rows[row].get_or_insert_with(|| {
            *count += 1;
            Box::new([None; ROW])
        });
        row[place].replace(value)
    }

    /// Returns how much memory it takes, in bytes.
    pub(super) const fn bytes(&self) -> u64 {
        (self.count * size_of::<[Option<T>; ROW]>() + self.rows.capacity() * size_of::<Option<Box<T>>>())
            as u64
    }

    /// Returns how much more memory a value takes at most, in bytes.
    pub(super) fn more_bytes(&self, alias: Alias) -> u64 {
        let (row, _) = place_of(alias);
        let more = (row + 1).saturating_sub(self.rows.capacity()) * size_of::<Option<Box<T>>>();
        let is_there = self.rows.get(row).is_some_and(Option::is_some);
        (more + if is_there { 0 } else { size_of::<[Option<T>; ROW]>() }) as u64
    }

    /// All values, with their aliases.
    pub(super) fn iter(&self) -> impl Iterator<Item = (Alias, T)> + '_ {
        let rows = self.rows.iter().enumerate().filter_map(|(row, values)| Some((row, values.as_ref()?)));
        rows.flat_map(|(row, values)| {
            values.iter().enumerate().filter_map(move |(place, value)| {
                let alias = u16::try_from(row * ROW + place).ok().and_then(Alias::new)?;
                Some((alias, (*value)?))
            })
        })
    }
}

fn place_of(alias: Alias) -> (usize, usize) {
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
