//! Event loop: epoll with sockets, a timer, and wake-ups by other threads.

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
use crate::socket_id::SocketId;

/// Event source that is ready after a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Readiness {
    /// Another thread has woken this one, by a [`Waker`].
    Woken,
    /// The timer of the deadline has expired.
    Expired,
    /// The TUN device has packets, or was removed.
    Device,
    /// The packet queues have packets.
    Queues,
    /// A socket has datagrams, errors, or free buffer space.
    Socket { socket: SocketId, readable: bool, has_errors: bool, writable: bool },
}

/// Handle by which another thread ends a thread's wait.
#[derive(Clone, Debug)]
pub(crate) struct Waker(Arc<OwnedFd>);

impl Waker {
    /// Ends the present wait of the thread, or its next one.
    pub(crate) fn wake(&self) {
        // It fails only if 2^64 wake-ups are pending, and then the thread wakes anyway.
        let _ = rustix::io::write(&*self.0, &1_u64.to_ne_bytes());
    }

    fn clear(&self) {
        let _ = rustix::io::read(&*self.0, &mut [0; 8]);
    }
}

/// Event loop of a thread.
///
/// The deadline uses a timer of its own, not a timeout: it is as exact as the kernel's timers. Its
/// clock includes the time in which the machine sleeps.
#[derive(Debug)]
pub(crate) struct Poller {
    epoll: OwnedFd,
    timer: OwnedFd,
    waker: Waker,
    clock: Clock,
    /// Time for which the timer is set; it may have passed.
    armed: Option<Time>,
    /// Event flags and tokens from the last wait.
    events: Vec<(EventFlags, u64)>,
}

/// Tokens of the timer, the waker, the device and the queues: numbers of slots that no socket has.
const TIMER: u64 = u32::MAX as u64;
const WAKER: u64 = TIMER - 1;
const DEVICE: u64 = TIMER - 2;
const QUEUES: u64 = TIMER - 3;

impl Poller {
    pub(crate) fn new(clock: Clock) -> io::Result<Self> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        let timer = timerfd_create(TimerfdClockId::Boottime, TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK)?;
        let wake_fd = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        // The timer is never read: each expiry is one event.
        epoll::add(&epoll, &timer, EventData::new_u64(TIMER), EventFlags::IN | EventFlags::ET)?;
        epoll::add(&epoll, &wake_fd, EventData::new_u64(WAKER), EventFlags::IN)?;
        let events = Vec::with_capacity(EVENTS_MAX);
        Ok(Self { epoll, timer, waker: Waker(Arc::new(wake_fd)), clock, armed: None, events })
    }

    pub(crate) fn waker(&self) -> Waker {
        self.waker.clone()
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

    /// Watches a socket for datagrams, and if `writable` also for free buffer space.
    pub(crate) fn watch(&self, socket: &impl AsFd, id: SocketId, writable: bool) -> io::Result<()> {
        let flags = if writable { EventFlags::IN | EventFlags::OUT } else { EventFlags::IN };
        Ok(epoll::modify(&self.epoll, socket, EventData::new_u64(token(id)), flags)?)
    }

    /// Waits until an event source is ready or the deadline has passed. If `is_immediate`, only
    /// collects the sources that are ready.
    pub(crate) fn wait(&mut self, deadline: Option<Time>, is_immediate: bool) -> io::Result<()> {
        let timeout = self.timeout(deadline, is_immediate)?;
        let mut events = [const { MaybeUninit::uninit() }; EVENTS_MAX];
        self.events.clear();
        match epoll::wait(&self.epoll, &mut events, timeout.as_ref()) {
            Ok((events, _)) => {
                self.events.extend(events.iter().map(|event| (event.flags, event.data.u64())));
                Ok(())
            }
            // A signal: the caller repeats the call.
            Err(Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Returns the event at `index` of the last wait; `None` beyond the last one.
    pub(crate) fn ready(&mut self, index: usize) -> Option<Readiness> {
        let (flags, token) = *self.events.get(index)?;
        Some(match token {
            WAKER => {
                self.waker.clear();
                Readiness::Woken
            }
            TIMER => Readiness::Expired,
            DEVICE => Readiness::Device,
            QUEUES => Readiness::Queues,
            _ => Readiness::Socket {
                socket: id(token),
                readable: flags.intersects(EventFlags::IN | EventFlags::ERR | EventFlags::HUP),
                has_errors: flags.intersects(EventFlags::ERR),
                writable: flags.intersects(EventFlags::OUT | EventFlags::ERR | EventFlags::HUP),
            },
        })
    }

    /// Sets the timer to the deadline; returns a timeout of zero for a wait that returns at once.
    fn timeout(&mut self, deadline: Option<Time>, is_immediate: bool) -> io::Result<Option<Timespec>> {
        const NOT_AT_ALL: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };
        let Some(deadline) = deadline else {
            return Ok(is_immediate.then_some(NOT_AT_ALL));
        };
        let now = self.clock.now();
        if is_immediate || deadline <= now {
            return Ok(Some(NOT_AT_ALL));
        }
        // An earlier expiry is not changed: deadlines mostly move on, and a wake-up costs no more
        // than a system call.
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
        let bell = poller.waker();
        bell.wake();
        bell.wake();
        poller.wait(None, false).unwrap();
        assert_eq!((poller.ready(0), poller.ready(1)), (Some(Readiness::Woken), None));
        poller.wait(None, true).unwrap();
        assert_eq!(poller.ready(0), None);
    }

    #[test]
    fn a_deadline_that_comes_nearer_ends_the_wait() {
        let clock = Clock::start();
        let mut poller = Poller::new(clock).unwrap();
        poller.waker().wake();
        poller.wait(Some(clock.now() + Duration::from_secs(3_600)), false).unwrap();
        assert_eq!(poller.ready(0), Some(Readiness::Woken));
        for _ in 0..3 {
            let near = clock.now() + Duration::from_micros(300);
            poller.wait(Some(near), false).unwrap();
            assert_eq!(poller.ready(0), Some(Readiness::Expired));
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
