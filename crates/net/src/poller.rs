//! Waiting for sockets, a deadline, and the rest of the process.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use byway_units::Time;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::event::{EventfdFlags, Timespec, eventfd};
use rustix::io::Errno;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, timerfd_create, timerfd_settime,
};

use crate::clock::Clock;
use crate::limits::EVENTS_MAX;
use crate::role::SocketId;

/// What has become ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ready {
    /// Another thread has rung.
    Rung,
    /// The timer has expired.
    Expired,
    /// The device has packets, or is gone.
    Device,
    /// Queues have packets.
    Queues,
    /// A socket.
    Socket { socket: SocketId, readable: bool, has_errors: bool, writable: bool },
}

/// Wakes a thread from its wait.
#[derive(Clone, Debug)]
pub(crate) struct Bell(Arc<OwnedFd>);

impl Bell {
    /// Makes the thread's next wait, or the present one, end.
    pub(crate) fn ring(&self) {
        // It fails only if it was rung 2^64 times without being heard: then it is ringing.
        let _ = rustix::io::write(&*self.0, &1_u64.to_ne_bytes());
    }

    fn silence(&self) {
        let _ = rustix::io::read(&*self.0, &mut [0; 8]);
    }
}

/// What a thread waits with.
///
/// The deadline is a timer of its own rather than a timeout: it is as exact as the kernel's timers, and on the clock
/// that goes on while the machine sleeps.
#[derive(Debug)]
pub(crate) struct Poller {
    epoll: OwnedFd,
    timer: OwnedFd,
    bell: Bell,
    clock: Clock,
    /// When the timer expires, or did.
    armed: Option<Time>,
    /// Of the last wait: what became ready, and its token.
    events: Vec<(EventFlags, u64)>,
}

/// What stands for the timer, the bell, the device and queues where events name sockets: slots that no socket has.
const TIMER: u64 = u32::MAX as u64;
const BELL: u64 = TIMER - 1;
const DEVICE: u64 = TIMER - 2;
const QUEUES: u64 = TIMER - 3;

impl Poller {
    pub(crate) fn new(clock: Clock) -> io::Result<Self> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        let timer = timerfd_create(TimerfdClockId::Boottime, TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK)?;
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        // The timer is never read: each time that it expires is one event.
        epoll::add(&epoll, &timer, EventData::new_u64(TIMER), EventFlags::IN | EventFlags::ET)?;
        epoll::add(&epoll, &bell, EventData::new_u64(BELL), EventFlags::IN)?;
        let events = Vec::with_capacity(EVENTS_MAX);
        Ok(Self { epoll, timer, bell: Bell(Arc::new(bell)), clock, armed: None, events })
    }

    pub(crate) fn bell(&self) -> Bell {
        self.bell.clone()
    }

    /// Watches a socket for datagrams.
    pub(crate) fn add(&self, socket: &impl AsFd, id: SocketId) -> io::Result<()> {
        Ok(epoll::add(&self.epoll, socket, EventData::new_u64(token(id)), EventFlags::IN)?)
    }

    /// Watches the device for packets.
    pub(crate) fn add_device(&self, device: &impl AsFd) -> io::Result<()> {
        Ok(epoll::add(&self.epoll, device, EventData::new_u64(DEVICE), EventFlags::IN)?)
    }

    /// Watches queues for packets.
    pub(crate) fn add_queues(&self, queues: &impl AsFd) -> io::Result<()> {
        Ok(epoll::add(&self.epoll, queues, EventData::new_u64(QUEUES), EventFlags::IN)?)
    }

    /// Watches a socket for datagrams, and for room to send if `writable`.
    pub(crate) fn watch(&self, socket: &impl AsFd, id: SocketId, writable: bool) -> io::Result<()> {
        let flags = if writable { EventFlags::IN | EventFlags::OUT } else { EventFlags::IN };
        Ok(epoll::modify(&self.epoll, socket, EventData::new_u64(token(id)), flags)?)
    }

    /// Waits until something is ready or the deadline has come. `in_a_hurry`: only looks what is ready.
    pub(crate) fn wait(&mut self, deadline: Option<Time>, in_a_hurry: bool) -> io::Result<()> {
        let timeout = self.timeout(deadline, in_a_hurry)?;
        let mut events = [const { MaybeUninit::uninit() }; EVENTS_MAX];
        self.events.clear();
        match epoll::wait(&self.epoll, &mut events, timeout.as_ref()) {
            Ok((events, _)) => {
                self.events.extend(events.iter().map(|event| (event.flags, event.data.u64())));
                Ok(())
            }
            // A signal: the caller comes again.
            Err(Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// The ready of the last wait at `index`.
    pub(crate) fn ready(&mut self, index: usize) -> Option<Ready> {
        let (flags, token) = *self.events.get(index)?;
        Some(match token {
            BELL => {
                self.bell.silence();
                Ready::Rung
            }
            TIMER => Ready::Expired,
            DEVICE => Ready::Device,
            QUEUES => Ready::Queues,
            _ => Ready::Socket {
                socket: id(token),
                readable: flags.intersects(EventFlags::IN | EventFlags::ERR | EventFlags::HUP),
                has_errors: flags.intersects(EventFlags::ERR),
                writable: flags.intersects(EventFlags::OUT | EventFlags::ERR | EventFlags::HUP),
            },
        })
    }

    /// Sets the timer; the timeout is for waits that shall not wait.
    fn timeout(&mut self, deadline: Option<Time>, in_a_hurry: bool) -> io::Result<Option<Timespec>> {
        const NOT_AT_ALL: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };
        let Some(deadline) = deadline else {
            return Ok(in_a_hurry.then_some(NOT_AT_ALL));
        };
        let now = self.clock.now();
        if in_a_hurry || deadline <= now {
            return Ok(Some(NOT_AT_ALL));
        }
        // One that expires earlier is left: deadlines mostly move on, and a wake-up is no dearer than a system call.
        if self.armed.is_none_or(|armed| armed > deadline || armed <= now) {
            let it_value = self.clock.on_kernels_clock(deadline);
            let once = Itimerspec { it_interval: NOT_AT_ALL, it_value };
            timerfd_settime(&self.timer, TimerfdTimerFlags::ABSTIME, &once)?;
            self.armed = Some(deadline);
        }
        Ok(None)
    }
}

fn token(id: SocketId) -> u64 {
    u64::from(id.generation) << 32 | u64::from(id.slot)
}

#[allow(clippy::cast_possible_truncation, reason = "the two halves are taken apart")]
fn id(token: u64) -> SocketId {
    SocketId { slot: token as u32, generation: (token >> 32) as u32 }
}

#[cfg(test)]
mod tests {
    use byway_units::Duration;

    use super::*;

    #[test]
    fn a_bell_is_heard_once() {
        let mut poller = Poller::new(Clock::start()).unwrap();
        let bell = poller.bell();
        bell.ring();
        bell.ring();
        poller.wait(None, false).unwrap();
        assert_eq!((poller.ready(0), poller.ready(1)), (Some(Ready::Rung), None));
        poller.wait(None, true).unwrap();
        assert_eq!(poller.ready(0), None);
    }

    #[test]
    fn a_deadline_that_comes_nearer_ends_the_wait() {
        let clock = Clock::start();
        let mut poller = Poller::new(clock).unwrap();
        poller.bell().ring();
        poller.wait(Some(clock.now() + Duration::from_secs(3_600)), false).unwrap();
        assert_eq!(poller.ready(0), Some(Ready::Rung));
        for _ in 0..3 {
            let near = clock.now() + Duration::from_micros(300);
            poller.wait(Some(near), false).unwrap();
            assert_eq!(poller.ready(0), Some(Ready::Expired));
            assert!(clock.now() >= near);
            poller.wait(None, true).unwrap();
            assert_eq!(poller.ready(0), None, "it expires once");
        }
    }

    #[test]
    fn a_deadline_that_has_passed_is_not_waited_for() {
        let mut poller = Poller::new(Clock::start()).unwrap();
        poller.wait(Some(Time::START), false).unwrap();
        assert_eq!(poller.ready(0), None);
    }
}
