//! Tables that grow in small steps.

use alloc::vec::Vec;

/// Least number of entries by which a table grows.
const STEP_MIN: usize = 8;

/// Appends an entry to a table. A full table grows by an eighth, where `Vec::push` doubles it, so
/// its memory is hardly more than its entries.
pub(crate) fn push<T>(table: &mut Vec<T>, entry: T) {
    if table.len() == table.capacity() {
        table.reserve_exact((table.len() / 8).max(STEP_MIN));
    }
    table.push(entry);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_takes_an_eighth_more_than_its_entries_at_most() {
        let mut table = Vec::new();
        for entry in 0..10_000 {
            push(&mut table, entry);
            assert!(table.capacity() <= table.len() + (table.len() / 8).max(STEP_MIN));
        }
    }
}
