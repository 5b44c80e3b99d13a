//! The handshake: who says what in initiation and response, and who believes it.

mod error;
mod initiator;
mod responder;

pub use error::{AcceptError, InitiationError, ResponseError, WriteError};
pub use initiator::{AwaitedResponse, Initiation, Response};
pub use responder::{Acceptance, ReceivedInitiation, Responder, Screened};
