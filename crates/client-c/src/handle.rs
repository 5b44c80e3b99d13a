//! The client behind a C pointer, with or without a socket.

use byway_client::{Client, Driver};
use byway_units::Time;

use crate::error::{Error, ErrorDetail, guarded};
use crate::memory::read_mut;
use crate::output::Output;

/// Client of the C interface, with or without a socket.
#[derive(Debug)]
pub struct Handle {
    inner: Inner,
    /// True after a panic inside the client, whose state may then be inconsistent.
    has_failed: bool,
}

#[derive(Debug)]
enum Inner {
    Bare(Box<Client>),
    Driven(Box<Driver>),
}

/// Upper bound of valid times in nanoseconds, 146 years. It leaves headroom for additions.
const TIMES_END_NS: u64 = 1 << 62;

/// Converts a time from C. Returns an error for times from [`TIMES_END_NS`] on.
pub(crate) fn time(now_ns: u64) -> Result<Time, ErrorDetail> {
    if now_ns >= TIMES_END_NS {
        return Err(ErrorDetail::about(Error::OutOfRange, "a time of 2^62 nanoseconds or more"));
    }
    Ok(Time::from_nanos(now_ns))
}

impl Handle {
    pub(crate) fn bare(client: Client) -> *mut Self {
        Self::pointer(Inner::Bare(Box::new(client)))
    }

    pub(crate) fn driven(driver: Driver) -> *mut Self {
        Self::pointer(Inner::Driven(Box::new(driver)))
    }

    fn pointer(inner: Inner) -> *mut Self {
        Box::into_raw(Box::new(Self { inner, has_failed: false }))
    }

    /// Returns the client, for inspection.
    pub(crate) fn client(&self) -> &Client {
        match &self.inner {
            Inner::Bare(client) => client,
            Inner::Driven(driver) => driver.client(),
        }
    }

    /// Applies an input to the client at the time `now_ns`. A client with a socket uses its own
    /// clock instead.
    pub(crate) fn input<R>(
        &mut self,
        now_ns: u64,
        act: impl FnOnce(&mut Client, Time) -> R,
    ) -> Result<R, ErrorDetail> {
        match &mut self.inner {
            Inner::Bare(client) => Ok(act(client, time(now_ns)?)),
            Inner::Driven(driver) => Ok(driver.input(act)),
        }
    }

    /// Returns the client if it has no socket, otherwise an error.
    pub(crate) fn without_socket(&mut self) -> Result<&mut Client, ErrorDetail> {
        match &mut self.inner {
            Inner::Bare(client) => Ok(client),
            Inner::Driven(_) => Err(Error::HasSocket.into()),
        }
    }

    /// Returns the driver if the client has a socket, otherwise an error.
    pub(crate) fn with_socket(&mut self) -> Result<&mut Driver, ErrorDetail> {
        match &mut self.inner {
            Inner::Driven(driver) => Ok(driver),
            Inner::Bare(_) => Err(Error::NoSocket.into()),
        }
    }

    pub(crate) fn poll(&mut self) -> Output {
        let output = match &mut self.inner {
            Inner::Bare(client) => client.poll().map(Output::from),
            Inner::Driven(driver) => driver.poll().map(Output::from),
        };
        output.unwrap_or(Output::NONE)
    }
}

/// Runs the body of a C function with a client. After a panic in it, later calls with the client
/// fail.
///
/// # Safety
/// A pointer that is not null points to a client that was not freed, and that no other thread uses
/// during the call.
pub(crate) unsafe fn with(
    handle: *mut Handle,
    act: impl FnOnce(&mut Handle) -> Result<(), ErrorDetail>,
) -> Error {
    let error = guarded(|| {
        // SAFETY: the caller vouches for the pointer.
        let handle = unsafe { read_mut(handle) }?;
        if handle.has_failed {
            return Err(Error::Failed.into());
        }
        act(handle)
    });
    if error == Error::Failed {
        // SAFETY: the caller vouches for the pointer.
        if let Ok(handle) = unsafe { read_mut(handle) } {
            handle.has_failed = true;
        }
    }
    error
}

#[cfg(test)]
mod tests {
    use byway_client::{Identity, Network, NetworkAgent};
    use byway_wire::seal::StaticSecret;

    use super::*;

    #[test]
    fn a_client_inside_which_something_panicked_is_not_used_any_more() {
        let secret = StaticSecret::from_bytes([1; 32]);
        let (name, key) = ("alice".to_owned(), secret.public_key());
        let agent = NetworkAgent { name, number: 1, key, addresses: vec![], relays: vec![] };
        let network = Network { agents: vec![agent], ..Network::default() };
        let identity = Identity::new("alice", secret, [0; 32], 1);
        let client = Client::new(identity, &network, Time::START).expect("the network is good");
        let handle = Handle::bare(client);
        // SAFETY: the handle was made here, and is freed last.
        unsafe {
            assert_eq!(with(handle, |_| Ok(())), Error::Ok);
            assert_eq!(with(handle, |_| panic!("inside")), Error::Failed);
            assert_eq!(with(handle, |_| Ok(())), Error::Failed);
            drop(Box::from_raw(handle));
        }
    }
}
