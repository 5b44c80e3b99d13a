//! Cache prefetching for the next input, for drivers that know of it early.

use byway_code::{prefetch, prefetch_value};

use super::Agent;

impl Agent {
    /// Prefetches the data that the next input needs into the processor's cache. The driver calls
    /// it with depths 0, 1 and 2, with other work in between: each call prefetches data that the
    /// call before it located.
    pub fn prefetch(&self, depth: usize) {
        match depth {
            0 => prefetch_value(self),
            1 => {
                self.sessions.prefetch();
                self.senders.prefetch();
                self.receivers.prefetch();
                self.relays.iter().take(2).for_each(prefetch_value);
                prefetch(&self.scratch);
            }
            _ => {
                for (_, flow) in self.receivers.iter().take(1) {
                    if let Some(active) = flow.active() {
                        prefetch_value(active);
                    }
                }
            }
        }
    }
}
