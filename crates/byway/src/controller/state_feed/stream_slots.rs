//! Slots of streams to applications, which bound their number.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::refusal::FeedRefusal;
use crate::controller::limits::{STREAMS_MAX, STREAMS_PER_TENANT_MAX};

/// Numbers of streams, by tenant.
#[derive(Clone, Debug, Default)]
pub(super) struct StreamSlots(Arc<Mutex<BTreeMap<Arc<str>, usize>>>);

/// Slot of one stream. Its drop ends the stream.
#[derive(Debug)]
pub(super) struct StreamSlot {
    slots: StreamSlots,
    tenant: Arc<str>,
}

impl StreamSlots {
    /// Begins a stream of an application of a tenant.
    ///
    /// # Errors
    /// If the tenant has too many streams, or all of them together.
    pub(super) fn begin(&self, tenant: &Arc<str>) -> Result<StreamSlot, FeedRefusal> {
        let mut counts = self.counts();
        let own = counts.get(tenant).copied().unwrap_or_default();
        if own >= STREAMS_PER_TENANT_MAX || counts.values().sum::<usize>() >= STREAMS_MAX {
            return Err(FeedRefusal::TooManyStreams);
        }
        counts.insert(Arc::clone(tenant), own + 1);
        Ok(StreamSlot { slots: self.clone(), tenant: Arc::clone(tenant) })
    }

    /// Returns the number of streams.
    pub(super) fn count(&self) -> usize {
        self.counts().values().sum()
    }

    fn counts(&self) -> MutexGuard<'_, BTreeMap<Arc<str>, usize>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for StreamSlot {
    fn drop(&mut self) {
        let mut counts = self.slots.counts();
        let own = counts.remove(&self.tenant).unwrap_or_default();
        if own > 1 {
            counts.insert(Arc::clone(&self.tenant), own - 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_are_bounded_by_tenant_and_in_all() {
        let slots = StreamSlots::default();
        let begin = |tenant: usize| slots.begin(&format!("tenant-{tenant}").into());
        let mut streams: Vec<StreamSlot> =
            (0..STREAMS_PER_TENANT_MAX).map(|_| begin(1).expect("below the limit")).collect();
        assert_eq!(begin(1).err(), Some(FeedRefusal::TooManyStreams));
        // Three other tenants take the other three quarters.
        let others = STREAMS_MAX - STREAMS_PER_TENANT_MAX;
        streams.extend(
            (0..others).map(|number| begin(2 + number / STREAMS_PER_TENANT_MAX).expect("below the limit")),
        );
        assert_eq!(begin(9).err(), Some(FeedRefusal::TooManyStreams));
        drop(streams.pop());
        assert!(begin(9).is_ok());
        drop(streams);
        assert_eq!((slots.count(), slots.counts().len()), (0, 0));
    }
}
