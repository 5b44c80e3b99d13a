//! Slots of streams to applications, which bound their number.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::refusal::FeedRefusal;
use crate::controller::limits::{STREAMS_MAX, STREAMS_PER_APPLICATION_MAX};

/// Numbers of streams, by application.
#[derive(Clone, Debug, Default)]
pub(super) struct StreamSlots(Arc<Mutex<BTreeMap<u32, usize>>>);

/// Slot of one stream. Its drop ends the stream.
#[derive(Debug)]
pub(super) struct StreamSlot {
    slots: StreamSlots,
    application: u32,
}

impl StreamSlots {
    /// Begins a stream of an application.
    ///
    /// # Errors
    /// If the application has too many streams, or all of them together.
    pub(super) fn begin(&self, application: u32) -> Result<StreamSlot, FeedRefusal> {
        let mut counts = self.counts();
        let own = counts.get(&application).copied().unwrap_or_default();
        if own >= STREAMS_PER_APPLICATION_MAX || counts.values().sum::<usize>() >= STREAMS_MAX {
            return Err(FeedRefusal::TooManyStreams);
        }
        counts.insert(application, own + 1);
        Ok(StreamSlot { slots: self.clone(), application })
    }

    /// Returns the number of streams.
    pub(super) fn count(&self) -> usize {
        self.counts().values().sum()
    }

    fn counts(&self) -> MutexGuard<'_, BTreeMap<u32, usize>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for StreamSlot {
    fn drop(&mut self) {
        let mut counts = self.slots.counts();
        let own = counts.remove(&self.application).unwrap_or_default();
        if own > 1 {
            counts.insert(self.application, own - 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_are_bounded_by_application_and_in_all() {
        let slots = StreamSlots::default();
        let mut streams: Vec<StreamSlot> =
            (0..STREAMS_PER_APPLICATION_MAX).map(|_| slots.begin(1).expect("below the limit")).collect();
        assert_eq!(slots.begin(1).err(), Some(FeedRefusal::TooManyStreams));
        let others = STREAMS_MAX - STREAMS_PER_APPLICATION_MAX;
        streams.extend((0..others).map(|number| {
            let application = 2 + u32::try_from(number / STREAMS_PER_APPLICATION_MAX).expect("few");
            slots.begin(application).expect("below the limit")
        }));
        assert_eq!(slots.begin(9).err(), Some(FeedRefusal::TooManyStreams));
        drop(streams.pop());
        assert!(slots.begin(9).is_ok());
        drop(streams);
        assert_eq!((slots.count(), slots.counts().len()), (0, 0));
    }
}
