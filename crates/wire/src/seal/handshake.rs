//! The handshake: initiation and response, from the first byte to the last.

mod error;
mod header;
mod initiator;
mod responder;

pub use error::{AcceptError, InitiationError, ResponseError, WriteError};
pub use header::Purpose;
pub use initiator::{AwaitedResponse, Initiation, Response};
pub use responder::{Acceptance, ReceivedInitiation, Responder, Screened};

pub(super) use header::COOKIE_KIND;
