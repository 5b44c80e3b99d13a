//! Parts that the targets share: topology, scripted peers, arbitrary messages, and the rules of drivers.

pub(crate) mod input;
pub(crate) mod machine;
pub(crate) mod message_generator;
pub(crate) mod net;
pub(crate) mod scripted_peer;
pub(crate) mod table;
pub(crate) mod topology;
