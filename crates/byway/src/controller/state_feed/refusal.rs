//! Refusals of requests about network state, with reason and remedy.

use std::net::{IpAddr, SocketAddr};

use byway_api::{ErrorCode, FlowTuple, NameError};
use byway_state::QueryError;
use thiserror::Error;

use crate::controller::limits::{
    LINKS_PER_BATCH_MAX, STREAMS_MAX, STREAMS_PER_TENANT_MAX, TUPLES_MAX, TUPLES_PER_LEASE_MAX,
    TUPLES_PER_TENANT_MAX,
};

/// Refusal of a request about network state. The text addresses the author of an application.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub(crate) enum FeedRefusal {
    #[error("invalid address {0}, which is not one machine's: name a unicast address")]
    Address(IpAddr),
    #[error("address with a zone, {0}: name a global address, because a zone has a meaning on one host only")]
    Zone(SocketAddr),
    #[error("{from} and {to} are of different address families: name both as IPv4 or both as IPv6")]
    Families { from: IpAddr, to: IpAddr },
    #[error("{0} is both ends: name the address of the other end, too")]
    SameEnds(IpAddr),
    #[error("port 0 in {0}: register a flow once both ports are known")]
    NoPort(FlowTuple),
    #[error("a lease has 1 to {TUPLES_PER_LEASE_MAX} flows, not {0}: register them in several leases")]
    TupleCount(usize),
    #[error("flow {0} occurs twice: name each flow once")]
    TupleAgain(FlowTuple),
    #[error("invalid name of the application: {0}")]
    Name(#[from] NameError),
    #[error(transparent)]
    Query(#[from] QueryError),
    #[error(
        "no path found: register a flow between these addresses first, on a path from or to a network \
        of the tenant; the controller's settings have networks and paths"
    )]
    NoPath,
    #[error("no such lease found: it has expired, was deleted, or is not this application's")]
    NoLease,
    #[error(
        "tenant \"{0}\" has reached its {TUPLES_PER_TENANT_MAX} registered flows: delete leases, or wait \
        until unused ones expire"
    )]
    TenantFull(String),
    #[error("the controller has its maximum of {TUPLES_MAX} registered flows: retry later")]
    Full,
    #[error(
        "the tenant has its maximum of {STREAMS_PER_TENANT_MAX} streams, or the controller of \
        {STREAMS_MAX}: end streams that are not in use"
    )]
    TooManyStreams,
    #[error("a record has samples of 1 to {LINKS_PER_BATCH_MAX} links, not of {0}")]
    LinkCount(usize),
    #[error("link \"{0}\" of this node not found: name it in [[controller.links]], with this node as `node`")]
    NoLink(String),
    #[error(
        "the stream has ended: a newer one of this node replaces it, or the node was removed or \
        renamed; send samples in one stream"
    )]
    Displaced,
}

impl FeedRefusal {
    /// Returns the refusal's code in error answers, for programs.
    pub(crate) const fn code(&self) -> ErrorCode {
        match self {
            Self::Address(_)
            | Self::Zone(_)
            | Self::Families { .. }
            | Self::SameEnds(_)
            | Self::NoPort(_)
            | Self::TupleCount(_)
            | Self::TupleAgain(_)
            | Self::Name(_)
            | Self::Query(_)
            | Self::LinkCount(_) => ErrorCode::BadRequest,
            Self::NoPath | Self::NoLease | Self::NoLink(_) => ErrorCode::NotFound,
            Self::TenantFull(_) => ErrorCode::QuotaReached,
            Self::Full | Self::TooManyStreams | Self::Displaced => ErrorCode::LimitReached,
        }
    }
}
