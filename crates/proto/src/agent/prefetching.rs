//! What the next input needs is brought into the cache, for drivers that know of it early.

use byway_code::{prefetch, prefetch_value};

use super::Agent;

impl Agent {
    /// Hint: an input comes soon. To be called with depths from 0 to 2, with other work in between: each brings into the cache
    /// what was found by the one before.
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
