//! Harness that the targets share.
//!
//! | module | subject |
//! |---|---|
//! | `input` | choices derived from the fuzzer's bytes |
//! | `machine` | a state machine with a driver that checks rules |
//! | `message_generator` | arbitrary messages |
//! | `net` | a network of machines, with a hook for each packet |
//! | `scripted_peer` | a peer with real keys |
//! | `test_bench` | a machine with its clock and replayable packets |
//! | `topology` | secrets, addresses, grants and nodes |

pub(crate) mod input;
pub(crate) mod machine;
pub(crate) mod message_generator;
pub(crate) mod net;
pub(crate) mod scripted_peer;
pub(crate) mod test_bench;
pub(crate) mod topology;
