//! How the flows of a link are counted.

use alloc::boxed::Box;

use byway_units::{Duration, Time};

use crate::class::Class;
use crate::flows::{FlowCounter, FlowHash};
use crate::guard::Guard;
use crate::settings::{GuardMode, Settings};

/// How flows are counted.
#[derive(Clone, Debug)]
pub(crate) enum Counting {
    /// In the order of [`Class::ALL`]; none of a class that there is not.
    Plain(Box<[FlowCounter]>),
    /// And held to what they may have.
    Guarded(Box<Guard>),
}

impl Counting {
    pub(crate) fn new(settings: &Settings, now: Time) -> Self {
        let classes = settings.classes();
        match settings.guard {
            GuardMode::None => Self::Plain((0..classes).map(|_| FlowCounter::new()).collect()),
            GuardMode::Fair | GuardMode::Strict => {
                Self::Guarded(Box::new(Guard::new(settings.guard, classes, now)))
            }
        }
    }

    /// Whether links of both settings count in the same way.
    pub(crate) fn is_same(settings: &Settings, others: &Settings) -> bool {
        settings.guard == others.guard && settings.classes() == others.classes()
    }

    /// A packet of a flow of a source came.
    #[inline]
    pub(crate) fn note(&mut self, class: Class, [flow, source]: [FlowHash; 2], bytes: u32, now: Time) {
        match self {
            Self::Guarded(guard) => guard.note(class, [flow, source], bytes),
            Self::Plain(counters) => counters[class.place()].touch(flow, now),
        }
    }

    /// An interval ends: about how many flows there are in each class.
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

    /// Forgets all flows, as nothing came for so long.
    pub(crate) fn clear(&mut self, idle: Duration) {
        match self {
            Self::Plain(counters) => counters.iter_mut().for_each(FlowCounter::clear),
            Self::Guarded(guard) => guard.clear(idle),
        }
    }

    /// The high-rate class has nothing to send.
    #[inline]
    pub(crate) fn note_idle(&mut self, now: Time) {
        if let Self::Guarded(guard) = self {
            guard.note_idle(now);
        }
    }
}
