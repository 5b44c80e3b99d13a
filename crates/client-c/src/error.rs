//! Error codes and error texts of the C interface.

use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Result of a call of the C interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub enum Error {
    /// The call succeeded.
    Ok = 0,
    /// A required pointer is null.
    NullPointer = 1,
    /// A text is not UTF-8, or not valid as a key, an address or a name.
    BadText = 2,
    /// A number or a length is out of range.
    OutOfRange = 3,
    /// The network is inconsistent, or does not contain this client: see byway_last_error.
    BadNetwork = 4,
    /// The peer is not in the network, or not paired with this client.
    UnknownPeer = 5,
    /// A limit of the client or the peer is reached: flows, names or nodes.
    Full = 6,
    /// The flows are closed, or have never existed.
    Closed = 7,
    /// The peer has not accepted the flows yet.
    NotAccepted = 8,
    /// The client has no socket: the application sends and receives.
    NoSocket = 9,
    /// The client has a socket: byway_client_step sends and receives.
    HasSocket = 10,
    /// The system reports an error: see byway_last_error.
    System = 11,
    /// The client has left its network.
    HasLeft = 12,
    /// The library failed internally. The client cannot be used any more, only freed.
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
            Self::Full => c"there are as many as may be: close some",
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
        Self::Full,
        Self::Closed,
        Self::NotAccepted,
        Self::NoSocket,
        Self::HasSocket,
        Self::System,
        Self::HasLeft,
        Self::Failed,
    ];
}

/// Error code with a text, which has details that the code does not include.
#[derive(Debug)]
pub(crate) struct ErrorDetail {
    pub(crate) error: Error,
    pub(crate) about: Option<String>,
}

impl ErrorDetail {
    /// Returns an error with a text that describes its cause.
    pub(crate) fn about(error: Error, about: impl std::fmt::Display) -> Self {
        Self { error, about: Some(format!("{about}")) }
    }
}

impl From<Error> for ErrorDetail {
    fn from(error: Error) -> Self {
        Self { error, about: None }
    }
}

thread_local! {
    static LAST_ERROR: RefCell<CString> = RefCell::new(CString::default());
}

/// Runs the body of a C function, and stores the text of its error. A panic becomes
/// [`Error::Failed`], because it must not cross the boundary to C.
pub(crate) fn guarded(act: impl FnOnce() -> Result<(), ErrorDetail>) -> Error {
    let outcome = catch_unwind(AssertUnwindSafe(act)).unwrap_or_else(|_| Err(Error::Failed.into()));
    let Err(ErrorDetail { error, about }) = outcome else {
        return Error::Ok;
    };
    let text = about.and_then(|about| CString::new(about).ok()).unwrap_or_else(|| error.text().to_owned());
    // In a thread that ends, the text may have been destroyed.
    let _ = LAST_ERROR.try_with(|last| last.replace(text));
    error
}

/// Returns the meaning of an error, as a static text. Unknown numbers have a text, too.
#[unsafe(no_mangle)]
pub extern "C" fn byway_error_text(error: i32) -> *const c_char {
    let known = usize::try_from(error).ok().and_then(|error| Error::ALL.get(error));
    known.map_or(c"no error of this library", |error| error.text()).as_ptr()
}

/// Returns the text of this thread's last failed call, with names and values. The text is valid
/// until the next failed call. Empty if no call has failed.
#[unsafe(no_mangle)]
pub extern "C" fn byway_last_error() -> *const c_char {
    LAST_ERROR.try_with(|last| last.borrow().as_ptr()).unwrap_or(c"".as_ptr())
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
