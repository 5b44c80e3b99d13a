//! Handle of a role's thread, for the rest of the process.

use std::any::Any;
use std::io;
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
use std::thread::{Builder, JoinHandle};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use thiserror::Error;

use crate::bind::OverlaySockets;
use crate::clock::Clock;
use crate::device::is_of_device;
use crate::driver::Driver;
use crate::io::Io;
use crate::limits::CONTROLS_MAX;
use crate::poller::Waker;
use crate::role::Role;

/// Reason for an unexpected end of a role's thread.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ThreadError {
    /// The state machine or the driver panicked.
    #[error("thread {thread} panicked: {message}")]
    Panicked {
        /// Name of the thread.
        thread: String,
        /// Message of the panic.
        message: String,
    },
    /// The TUN device of the thread was removed, or failed.
    #[error("device of thread {thread} was removed: {error}")]
    Device {
        /// Name of the thread.
        thread: String,
        /// Error of the kernel.
        error: io::Error,
    },
    /// The kernel reports an error of the thread's wait for events.
    #[error("thread {thread} cannot wait for its sockets: {error}")]
    Wait {
        /// Name of the thread.
        thread: String,
        /// Error of the kernel.
        error: io::Error,
    },
}

/// Reason for which the thread did not get a control; the error returns the control.
#[derive(Debug, Error)]
pub enum ControlError<C> {
    /// Too many controls wait for the thread.
    #[error("control queue of the thread full: try again later")]
    Full(C),
    /// The thread has ended, so it takes no controls.
    #[error("the thread has ended")]
    Ended(C),
}

/// Sender of controls to a role's thread; clones may be used in other threads.
#[derive(Debug)]
pub struct Controls<C> {
    sender: SyncSender<C>,
    waker: Waker,
}

impl<C> Clone for Controls<C> {
    fn clone(&self) -> Self {
        Self { sender: self.sender.clone(), waker: self.waker.clone() }
    }
}

impl<C> Controls<C> {
    /// Sends a control to the role; does not wait.
    ///
    /// # Errors
    /// If too many controls are queued, or the thread has ended.
    pub fn control(&self, control: C) -> Result<(), ControlError<C>> {
        self.sender.try_send(control).map_err(|error| match error {
            TrySendError::Full(control) => ControlError::Full(control),
            TrySendError::Disconnected(control) => ControlError::Ended(control),
        })?;
        self.waker.wake();
        Ok(())
    }
}

/// Handle of a role's thread: sends controls, and waits for the end.
#[derive(Debug)]
pub struct Handle<C> {
    controls: Controls<C>,
    thread: JoinHandle<io::Result<()>>,
}

impl<C> Handle<C> {
    /// Sends a control to the role; does not wait.
    ///
    /// # Errors
    /// If too many controls are queued, or the thread has ended.
    pub fn control(&self, control: C) -> Result<(), ControlError<C>> {
        self.controls.control(control)
    }

    /// Returns a sender of controls for other threads.
    #[must_use]
    pub fn controls(&self) -> Controls<C> {
        self.controls.clone()
    }

    /// True if the thread has not ended yet.
    #[must_use]
    pub fn is_running(&self) -> bool {
        !self.thread.is_finished()
    }

    /// Waits for the end of the thread.
    ///
    /// # Errors
    /// If it ended before its role was finished.
    pub fn join(self) -> Result<(), ThreadError> {
        let thread = self.thread.thread().name().unwrap_or_default().to_owned();
        match self.thread.join() {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) if is_of_device(&error) => Err(ThreadError::Device { thread, error }),
            Ok(Err(error)) => Err(ThreadError::Wait { thread, error }),
            Err(panic) => Err(ThreadError::Panicked { thread, message: message(&*panic) }),
        }
    }
}

/// Returns the text of a panic, or "no message" if it was not text.
fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "no message".to_owned())
}

/// Starts a thread that drives a role, and raises the process's limit of open files.
///
/// The thread continues if the handle is dropped; it ends when the role is finished.
///
/// # Errors
/// If the kernel refuses the thread, or the file descriptors for its event loop.
pub fn spawn<R: Role>(
    name: &str,
    sockets: OverlaySockets,
    role: R,
    clock: Clock,
) -> io::Result<Handle<R::Control>> {
    raise_descriptor_limit();
    let io = Io::new(sockets, clock)?;
    let waker = io.poller.waker();
    let (sender, receiver) = sync_channel(CONTROLS_MAX);
    let thread = Builder::new().name(name.to_owned()).spawn(move || Driver::new(role, io, receiver).run())?;
    Ok(Handle { controls: Controls { sender, waker }, thread })
}

/// Raises the limit of open files to the hard limit, because there may be thousands of sockets.
fn raise_descriptor_limit() {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    // If this fails, the error of a later socket names the limit.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
}
