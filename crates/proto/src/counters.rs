//! Counters with names: a macro lists all counters of a structure, so none is missing in metrics.

/// Defines a structure of `u64` counters, and a method `by_name` that lists all of them.
macro_rules! counters {
    ($(#[$about:meta])* pub struct $name:ident { $($(#[$doc:meta])* pub $counter:ident: u64,)+ }) => {
        $(#[$about])*
        pub struct $name { $($(#[$doc])* pub $counter: u64,)+ }

        impl $name {
            /// Returns all counters, with their names, for metrics.
            pub fn by_name(&self) -> impl Iterator<Item = (&'static str, u64)> + use<> {
                [$((stringify!($counter), self.$counter)),+].into_iter()
            }
        }
    };
}

pub(crate) use counters;

#[cfg(test)]
mod tests {
    extern crate std;

    use crate::relay::RelayCounters;

    #[test]
    fn all_counters_are_listed_with_their_names() {
        let counters = RelayCounters { relayed: 3, expelled: 4, ..RelayCounters::default() };
        let above_0 = counters.by_name().filter(|(_, count)| *count > 0);
        assert!(above_0.eq([("expelled", 4), ("relayed", 3)]));
        let fields = std::format!("{counters:?}").matches(": ").count();
        assert_eq!(counters.by_name().count(), fields);
    }
}
