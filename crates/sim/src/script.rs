//! Scenario of closures, for short tests.

use alloc::boxed::Box;
use core::fmt;
use core::marker::PhantomData;

use byway_units::Time;

use crate::host::Host;
use crate::log::Observer;
use crate::world::{Scenario, World};

/// Event of a [`Script`]: a closure on the world.
pub type Action<H, O> = Box<dyn FnOnce(&mut World<Script<H, O>>)>;

/// Scenario whose events are closures; see [`World::at`]. It has no state: hosts have.
pub struct Script<H, O = ()>(PhantomData<fn(H, O)>);

impl<H, O> Script<H, O> {
    /// Creates the script, which has no state.
    #[must_use]
    pub const fn new() -> Self {
        Self(PhantomData)
    }
}

impl<H, O> Default for Script<H, O> {
    fn default() -> Self {
        Self::new()
    }
}

impl<H, O> fmt::Debug for Script<H, O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Script")
    }
}

impl<H: Host, O: Observer> Scenario for Script<H, O> {
    type Host = H;
    type Event = Action<H, O>;
    type Observer = O;

    fn event(&mut self, action: Action<H, O>, world: &mut World<Self>) {
        action(world);
    }
}

impl<H: Host, O: Observer> World<Script<H, O>> {
    /// Schedules an action at an instant.
    ///
    /// # Panics
    /// If the instant has passed.
    pub fn at(&mut self, time: Time, action: impl FnOnce(&mut Self) + 'static) {
        self.schedule(time, Box::new(action));
    }
}
