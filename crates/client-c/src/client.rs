//! Clients in the C interface.
#![allow(clippy::disallowed_types, reason = "sockets are made for drivers")]

use std::ffi::{c_char, c_int};
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsFd as _, AsRawFd as _};
use std::time::Duration;

use byway_client::{
    Client, Clock, Driver, Ecn, ExposeError, FlowPair, Identity, LocalAddress, NetworkError, RegisterError,
    SendError,
};
use byway_units::{AgentId, Time};

use crate::address::Address;
use crate::error::{Error, ErrorDetail, guarded};
use crate::handle::{Handle, time, with};
use crate::memory::{bytes, bytes_mut, read, text, text_or_none, write, write_text};
use crate::network::{Network, parse_text};
use crate::output::Output;
use crate::registration::Registration;
use crate::report::{Report, Segments};

/// Length of the seed of a client's randomness, in bytes.
const SEED_BYTES: usize = 32;

/// Creates a client from the arguments of byway_client_new or byway_client_open.
///
/// # Safety
/// Each pointer is null, or valid for the use that the C function documents.
unsafe fn build_client(
    network: *const Network,
    name: *const c_char,
    secret: *const c_char,
    seed: *const u8,
    started_unix_ns: u64,
    now: Time,
) -> Result<Client, ErrorDetail> {
    // SAFETY: the caller vouches for the pointers.
    let (network, name, secret, seed) =
        unsafe { (read(network)?, text(name)?, text(secret)?, bytes(seed, SEED_BYTES)?) };
    // The error must not contain the secret.
    let secret =
        secret.trim().parse().map_err(|_| ErrorDetail::about(Error::BadText, "the secret is no key"))?;
    let seed = seed.try_into().map_err(|_| Error::OutOfRange)?;
    Ok(Client::new(Identity::new(name, secret, seed, started_unix_ns), &network.0, now)?)
}

/// Creates a client without a socket and a clock: the application sends and receives for it. Free
/// it with byway_client_free.
///
/// It is the agent of this name in the network. Its secret is the text of a key file of
/// `byway keygen`. The seed is 32 secret random bytes, different for each client. started_unix_ns
/// is the time of the start in nanoseconds of Unix time, and must increase from start to start.
///
/// After this function, and after each one with a time, call byway_client_poll until it returns
/// BYWAY_OUTPUT_NONE.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn byway_client_new(
    network: *const Network,
    name: *const c_char,
    secret: *const c_char,
    seed: *const u8,
    started_unix_ns: u64,
    now_ns: u64,
    client: *mut *mut Handle,
) -> Error {
    // SAFETY: the caller vouches for the pointers.
    guarded(|| unsafe {
        write(client, std::ptr::null_mut())?;
        let new_client = build_client(network, name, secret, seed, started_unix_ns, time(now_ns)?)?;
        write(client, Handle::bare(new_client))
    })
}

/// Creates a client with its own UDP socket and clock, and without a thread. Free it with
/// byway_client_free. Call byway_client_step, then byway_client_poll until it returns
/// BYWAY_OUTPUT_NONE; repeat. Times passed to other functions are ignored.
///
/// It listens on an address such as 0.0.0.0:0 or [::]:4610, and sends only to addresses of that
/// family. The other arguments are those of byway_client_new.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn byway_client_open(
    network: *const Network,
    name: *const c_char,
    secret: *const c_char,
    seed: *const u8,
    listen: *const c_char,
    client: *mut *mut Handle,
) -> Error {
    // SAFETY: the caller vouches for the pointers.
    guarded(|| unsafe {
        write(client, std::ptr::null_mut())?;
        let listen: SocketAddr = parse_text(text(listen)?)?;
        let clock = Clock::start();
        let new_client = build_client(network, name, secret, seed, clock.started_unix_nanos(), clock.now())?;
        let system = |error| ErrorDetail::about(Error::System, format!("{listen} cannot be used: {error}"));
        let socket = UdpSocket::bind(listen).map_err(system)?;
        write(client, Handle::driven(Driver::new(new_client, socket, clock).map_err(system)?))
    })
}

/// Frees a client. For null, it does nothing. It does not notify peers: call byway_client_leave
/// before.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn byway_client_free(client: *mut Handle) {
    let _ = guarded(|| {
        if !client.is_null() {
            // SAFETY: the caller vouches that it was made here, and not freed.
            drop(unsafe { Box::from_raw(client) });
        }
        Ok(())
    });
}

/// Permits peers to register flows under this name; others are refused. The peers are a list of
/// names with spaces between. Null means all peers of the network.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn byway_client_expose(
    client: *mut Handle,
    name: *const c_char,
    peers: *const c_char,
) -> Error {
    // SAFETY: the caller vouches for the pointers.
    unsafe {
        with(client, |handle| {
            let (name, peers) = (text(name)?, text_or_none(peers)?);
            let peers = peers.map(|peers| peers.split_whitespace().map(str::to_owned).collect());
            handle.expose(name, peers)
        })
    }
}

/// Offers a pair of flows to a peer, for a name that it exposes: one flow to the peer, and one
/// back. Writes the pair's number to flow. A null registration means the defaults.
/// BYWAY_EVENT_ACCEPTED or BYWAY_EVENT_REFUSED follows the peer's answer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn byway_client_register(
    client: *mut Handle,
    peer: *const c_char,
    name: *const c_char,
    registration: *const Registration,
    now_ns: u64,
    flow: *mut u64,
) -> Error {
    // SAFETY: the caller vouches for the pointers.
    unsafe {
        with(client, |handle| {
            if flow.is_null() {
                return Err(Error::NullPointer.into());
            }
            let (peer, name) = (text(peer)?, text(name)?);
            let wanted = registration.as_ref().copied().unwrap_or_default().to_registration()?;
            let pair = handle.input(now_ns, |client, now| client.register(peer, name, &wanted, now))??;
            write(flow, pair.number())
        })
    }
}

/// Passes a datagram from the network to a client without a socket. The bytes are overwritten. The
/// ECN field is that of the IP header, or 0 if unknown.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn byway_client_received(
    client: *mut Handle,
    from: *const Address,
    ecn: u8,
    datagram: *mut u8,
    length: usize,
    now_ns: u64,
) -> Error {
    // SAFETY: the caller vouches for the pointers.
    unsafe {
        with(client, |handle| {
            let (from, datagram) = (read(from)?.socket_address()?, bytes_mut(datagram, length)?);
            if ecn > 3 {
                return Err(ErrorDetail::about(Error::OutOfRange, "an ECN field of more than two bits"));
            }
            handle.without_socket()?.received(
                from,
                LocalAddress::ANY,
                Ecn::from_bits(ecn),
                datagram,
                time(now_ns)?,
            );
            Ok(())
        })
    }
}

/// Sends a datagram of up to 1,500 bytes. With BYWAY_COPIES_MARKED, relays get copies of marked
/// datagrams only (marked is not 0).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn byway_client_send(
    client: *mut Handle,
    flow: u64,
    datagram: *const u8,
    length: usize,
    marked: c_int,
    now_ns: u64,
) -> Error {
    // SAFETY: the caller vouches for the pointers.
    unsafe {
        with(client, |handle| {
            let (flow, datagram) = (FlowPair::from_number(flow), bytes(datagram, length)?);
            handle.input(now_ns, |client, now| client.send(flow, datagram, marked != 0, now))??;
            Ok(())
        })
    }
}

/// Handles an expired deadline of a client without a socket. A superfluous call has no effect.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn byway_client_timer(client: *mut Handle, now_ns: u64) -> Error {
    // SAFETY: the caller vouches for the pointer.
    unsafe {
        with(client, |handle| {
            handle.without_socket()?.timer(time(now_ns)?);
            Ok(())
        })
    }
}

/// Returns the next output; its kind is BYWAY_OUTPUT_NONE if there are no more. A client with a
/// socket transmits its datagrams by itself.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn byway_client_poll(client: *mut Handle, output: *mut Output) -> Error {
    // SAFETY: the caller vouches for the pointers.
    unsafe {
        with(client, |handle| {
            write(output, Output::NONE)?;
            write(output, handle.poll())
        })
    }
}

/// Returns the time of the next byway_client_timer of a client without a socket, or of the next
/// byway_client_step of a client with one. UINT64_MAX means that there is no deadline.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn byway_client_deadline(client: *mut Handle, deadline_ns: *mut u64) -> Error {
    // SAFETY: the caller vouches for the pointers.
    unsafe {
        with(client, |handle| write(deadline_ns, handle.client().deadline().map_or(u64::MAX, Time::as_nanos)))
    }
}

/// Returns the delivery statistics of a pair of flows.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn byway_client_report(client: *mut Handle, flow: u64, report: *mut Report) -> Error {
    // SAFETY: the caller vouches for the pointers.
    unsafe {
        with(client, |handle| {
            let found = handle.client().report(FlowPair::from_number(flow)).ok_or(Error::Closed)?;
            write(report, Report::from(&found))
        })
    }
}

/// Returns the number of bytes on the direct path, and to and from relays.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn byway_client_segments(client: *mut Handle, segments: *mut Segments) -> Error {
    // SAFETY: the caller vouches for the pointers.
    unsafe { with(client, |handle| write(segments, Segments::from(handle.client().segments()))) }
}

/// Writes the name that a pair of flows is registered for, exposed here or at the peer. The text is
/// truncated to the given size.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn byway_client_subject(
    client: *mut Handle,
    flow: u64,
    name: *mut c_char,
    size: usize,
) -> Error {
    // SAFETY: the caller vouches for the pointers.
    unsafe {
        with(client, |handle| {
            let buffer = bytes_mut(name.cast(), size)?;
            write_text(handle.client().subject(FlowPair::from_number(flow)).ok_or(Error::Closed)?, buffer)
        })
    }
}

/// Writes the name of a peer. The text is truncated to the given size.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn byway_client_peer_name(
    client: *mut Handle,
    peer: u32,
    name: *mut c_char,
    size: usize,
) -> Error {
    // SAFETY: the caller vouches for the pointers.
    unsafe {
        with(client, |handle| {
            let buffer = bytes_mut(name.cast(), size)?;
            write_text(handle.client().name_of(AgentId::new(peer)).ok_or(Error::UnknownPeer)?, buffer)
        })
    }
}

/// Closes a pair of flows, and notifies the peer. For a closed pair, it has no effect.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn byway_client_close_flow(client: *mut Handle, flow: u64, now_ns: u64) -> Error {
    // SAFETY: the caller vouches for the pointer.
    unsafe {
        with(client, |handle| {
            handle.input(now_ns, |client, now| client.close(FlowPair::from_number(flow), now))
        })
    }
}

/// Leaves the network, and notifies peers and relays. BYWAY_EVENT_LEFT follows.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn byway_client_leave(client: *mut Handle, now_ns: u64) -> Error {
    // SAFETY: the caller vouches for the pointer.
    unsafe { with(client, |handle| handle.input(now_ns, Client::leave)) }
}

/// Waits until a datagram arrives, the deadline passes, or the timeout in microseconds ends. Then
/// handles all pending work. Receives no datagrams before byway_client_poll has returned all
/// outputs.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn byway_client_step(client: *mut Handle, timeout_us: u64) -> Error {
    // SAFETY: the caller vouches for the pointer.
    unsafe {
        with(client, |handle| {
            let stepped = handle.with_socket()?.step(Duration::from_micros(timeout_us));
            stepped.map_err(|error| ErrorDetail::about(Error::System, error))
        })
    }
}

/// Returns the descriptor of the client's socket, for an application's own event loop. If it is
/// readable, call byway_client_step with a timeout of 0. The descriptor belongs to the client.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn byway_client_fd(client: *mut Handle, fd: *mut c_int) -> Error {
    // SAFETY: the caller vouches for the pointers.
    unsafe { with(client, |handle| write(fd, handle.with_socket()?.as_fd().as_raw_fd())) }
}

/// Returns the current time of a client with a socket, by the clock of byway_client_deadline.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn byway_client_now(client: *mut Handle, now_ns: *mut u64) -> Error {
    // SAFETY: the caller vouches for the pointers.
    unsafe { with(client, |handle| write(now_ns, handle.with_socket()?.now().as_nanos())) }
}

impl Handle {
    fn expose(&mut self, name: &str, peers: Option<Vec<String>>) -> Result<(), ErrorDetail> {
        // The time is irrelevant for this input.
        Ok(self.input(0, |client, _| client.expose(name, peers))??)
    }
}

impl From<NetworkError> for ErrorDetail {
    fn from(error: NetworkError) -> Self {
        Self::about(Error::BadNetwork, error)
    }
}

impl From<RegisterError> for ErrorDetail {
    fn from(error: RegisterError) -> Self {
        let code = match error {
            RegisterError::UnknownPeer(_) => Error::UnknownPeer,
            RegisterError::Full => Error::Full,
            RegisterError::HasLeft => Error::HasLeft,
            _ => Error::OutOfRange,
        };
        Self::about(code, error)
    }
}

impl From<SendError> for ErrorDetail {
    fn from(error: SendError) -> Self {
        let code = match error {
            SendError::Closed => Error::Closed,
            SendError::NotAccepted => Error::NotAccepted,
            _ => Error::OutOfRange,
        };
        // Errors of single datagrams have no text, because they are frequent and the code suffices.
        code.into()
    }
}

impl From<ExposeError> for ErrorDetail {
    fn from(error: ExposeError) -> Self {
        let code = if error == ExposeError::Full { Error::Full } else { Error::OutOfRange };
        Self::about(code, error)
    }
}
