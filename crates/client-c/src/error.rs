//! What goes wrong, as C has it.

use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// What became of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub enum Error {
    /// It did what it is for.
    Ok = 0,
    /// A pointer is null that must not be.
    NullPointer = 1,
    /// A text is not UTF-8, or not what is expected: a key, an address, a name.
    BadText = 2,
    /// A number or a length is out of its range.
    OutOfRange = 3,
    /// The network contradicts itself, or does not have this client: byway_last_error says how.
    BadNetwork = 4,
    /// The peer is not in the network, or not paired with this client.
    UnknownPeer = 5,
    /// There are as many as may be.
    NoRoom = 6,
    /// The flows are closed, or there never were such.
    Closed = 7,
    /// The peer has not accepted the flows yet.
    NotAccepted = 8,
    /// The client has no socket: the application sends and receives.
    NoSocket = 9,
    /// The client has a socket: byway_client_step sends and receives.
    HasSocket = 10,
    /// The system refuses: byway_last_error says why.
    System = 11,
    /// The client has left its network.
    HasLeft = 12,
    /// Something went wrong inside the library. The client is of no use any more.
    Failed = 13,
}

impl Error {
    const fn text(self) -> &'static CStr {
        match self {
            Self::Ok => c"all is well",
            Self::NullPointer => c"a pointer is null that must not be",
            Self::BadText => c"a text is not UTF-8, or not what is expected",
            Self::OutOfRange => c"a number or a length is out of its range",
            Self::BadNetwork => c"the network contradicts itself, or does not have this client",
            Self::UnknownPeer => c"the peer is not in the network, or not paired with this client",
            Self::NoRoom => c"there are as many as may be: close some",
            Self::Closed => c"the flows are closed: register again",
            Self::NotAccepted => c"the peer has not accepted the flows yet: wait for the event",
            Self::NoSocket => c"the client has no socket: send and receive what it says",
            Self::HasSocket => c"the client has a socket: byway_client_step sends and receives",
            Self::System => c"the system refuses",
            Self::HasLeft => c"the client has left its network: make another one",
            Self::Failed => c"something went wrong inside the library: free the client, and tell its authors",
        }
    }

    const ALL: [Self; 14] = [
        Self::Ok,
        Self::NullPointer,
        Self::BadText,
        Self::OutOfRange,
        Self::BadNetwork,
        Self::UnknownPeer,
        Self::NoRoom,
        Self::Closed,
        Self::NotAccepted,
        Self::NoSocket,
        Self::HasSocket,
        Self::System,
        Self::HasLeft,
        Self::Failed,
    ];
}

/// An error, and what it is about where more is known than its code says.
#[derive(Debug)]
pub(crate) struct Problem {
    pub(crate) error: Error,
    pub(crate) about: Option<String>,
}

impl Problem {
    /// A problem that is said in words.
    pub(crate) fn about(error: Error, about: impl std::fmt::Display) -> Self {
        Self { error, about: Some(format!("{about}")) }
    }
}

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        Self { error, about: None }
    }
}

thread_local! {
    static LAST: RefCell<CString> = RefCell::new(CString::default());
}

/// Runs what a function does; nothing that panics gets any further.
pub(crate) fn guarded(act: impl FnOnce() -> Result<(), Problem>) -> Error {
    let outcome = catch_unwind(AssertUnwindSafe(act)).unwrap_or_else(|_| Err(Error::Failed.into()));
    let Err(Problem { error, about }) = outcome else {
        return Error::Ok;
    };
    let text = about.and_then(|about| CString::new(about).ok()).unwrap_or_else(|| error.text().to_owned());
    // A thread that ends may have no such text any more.
    let _ = LAST.try_with(|last| last.replace(text));
    error
}

/// What an error means, in words: a text that is always there. A number that is no error has one, too.
#[unsafe(no_mangle)]
pub extern "C" fn byway_error_text(error: i32) -> *const c_char {
    let known = usize::try_from(error).ok().and_then(|error| Error::ALL.get(error));
    known.map_or(c"no error of this library", |error| error.text()).as_ptr()
}

/// What the last call of this thread that failed has to say, with names and values: a text that is good until the next call
/// that fails. Empty if none has failed.
#[unsafe(no_mangle)]
pub extern "C" fn byway_last_error() -> *const c_char {
    LAST.try_with(|last| last.borrow().as_ptr()).unwrap_or(c"".as_ptr())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_panics_is_an_error() {
        assert_eq!(guarded(|| panic!("inside")), Error::Failed);
        assert_eq!(guarded(|| Ok(())), Error::Ok);
    }
}
