//! The handshake: writing and verifying initiations and responses.

mod error;
mod initiator;
mod responder;

pub use error::{AcceptError, InitiationError, ResponseError, WriteError};
pub use initiator::{AwaitedResponse, Initiation, Response};
pub use responder::{Acceptance, ReceivedInitiation, Responder, ScreenedInitiation};
