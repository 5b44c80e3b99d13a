//! Flow counting of a link.

use alloc::boxed::Box;

use byway_units::{Duration, Time};

use crate::class::Class;
use crate::flows::{FlowCounter, FlowHash};
use crate::misuse_guard::MisuseGuard;
use crate::settings::{GuardMode, Settings};

/// Method by which a link counts the flows of its classes.
#[derive(Clone, Debug)]
pub(crate) enum Counting {
    /// Counting alone: one flow counter for each class in the order of [`Class::ALL`], without
    /// classes that the link does not have.
    Plain(Box<[FlowCounter]>),
    /// Counting of persistent flows, with policing of flows and sources.
    Guarded(Box<MisuseGuard>),
}

impl Counting {
    pub(crate) fn new(settings: &Settings, now: Time) -> Self {
        let classes = settings.classes();
        match settings.guard {
            GuardMode::None => Self::Plain((0..classes).map(|_| FlowCounter::new()).collect()),
            GuardMode::Fair | GuardMode::Strict => {
                Self::Guarded(Box::new(MisuseGuard::new(settings.guard, classes, now)))
            }
        }
    }

    /// True if links with these settings count flows by the same method. Then counts survive a
    /// change of the settings.
    pub(crate) fn is_same(settings: &Settings, others: &Settings) -> bool {
        settings.guard == others.guard && settings.classes() == others.classes()
    }

    /// Records an arriving packet of a class by the hashes of its flow and source.
    #[inline]
    pub(crate) fn record(&mut self, class: Class, [flow, source]: [FlowHash; 2], bytes: u32, now: Time) {
        match self {
            Self::Guarded(guard) => guard.record(class, [flow, source], bytes),
            Self::Plain(counters) => counters[class.index()].touch(flow, now),
        }
    }

    /// Ends a counting interval, and returns the estimated number of flows in each class.
    pub(crate) fn count(&mut self, settings: &Settings, now: Time) -> [u32; Class::COUNT] {
        match self {
            Self::Plain(counters) => {
                let mut flows = [0; Class::COUNT];
                counters.iter_mut().zip(&mut flows).for_each(|(counter, flows)| *flows = counter.count(now));
                flows
            }
            Self::Guarded(guard) => guard.update(settings, now),
        }
    }

    /// Removes all flows, because the link was idle for this time.
    pub(crate) fn clear(&mut self, idle: Duration) {
        match self {
            Self::Plain(counters) => counters.iter_mut().for_each(FlowCounter::clear),
            Self::Guarded(guard) => guard.clear(idle),
        }
    }

    /// Records that the high-rate class has no packet to send, which the guard uses.
    #[inline]
    pub(crate) fn record_idle(&mut self, now: Time) {
        if let Self::Guarded(guard) = self {
            guard.record_idle(now);
        }
    }
}
