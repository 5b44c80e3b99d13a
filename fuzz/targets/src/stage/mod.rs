//! What the targets share: who is who, packets sealed by hand, arbitrary messages, and the rules of drivers.

pub(crate) mod cast;
pub(crate) mod hand;
pub(crate) mod input;
pub(crate) mod machine;
pub(crate) mod net;
pub(crate) mod speech;
pub(crate) mod table;
