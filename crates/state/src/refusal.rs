//! Refusals of what neighbours ask and answer.

use core::error::Error;
use core::fmt;

use crate::limits::NETWORKS_MAX;
use crate::link_state::NetworkId;
use crate::path::PathError;

/// Refusal of a query, or of a registration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueryRefusal {
    /// The query is from a network that is no neighbour, or an endpoint is behind one.
    NotANeighbour,
    /// The flow does not begin, end or pass where the network that asks can see it.
    ForeignFlow,
    /// The list of visited networks is too long, or does not end with the network that asks.
    Visited,
    /// The query has been here before, or passed a network twice.
    Loop,
    /// There are too many directions, in all or of this neighbour.
    TooMany,
}

impl fmt::Display for QueryRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotANeighbour => f.write_str("query refused: not a neighbour of this network"),
            Self::ForeignFlow => f.write_str("query refused: the flow belongs to other networks"),
            Self::Visited => {
                write!(f, "query refused: list of up to {NETWORKS_MAX} visited networks invalid")
            }
            Self::Loop => f.write_str("query refused: it has passed this path before"),
            Self::TooMany => f.write_str("query refused: too many directions"),
        }
    }
}

impl Error for QueryRefusal {}

/// Refusal of an answer. The neighbour is to blame, unless the answer is late.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnswerRefusal {
    /// Nobody asks this neighbour about the direction.
    NotAsked,
    /// The entry is not newer than the last one.
    NotNewer,
    /// The path comes back to this network, or to one that asked.
    Loop(NetworkId),
    /// The links are no path.
    Path(PathError),
}

impl fmt::Display for AnswerRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("answer of a neighbour refused: ")?;
        match self {
            Self::NotAsked => f.write_str("the direction was not asked for"),
            Self::NotNewer => f.write_str("it is not newer than the last one"),
            Self::Loop(network) => write!(f, "the path comes back to {network}"),
            Self::Path(error) => error.fmt(f),
        }
    }
}

impl Error for AnswerRefusal {}

/// Reason for which the path of a direction is unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathUnknown {
    /// Nobody registered the direction, or asked for it.
    NotRegistered,
    /// The neighbour has not answered yet, or not for 5 s.
    Silent(NetworkId),
    /// The parts are no path together.
    Path(PathError),
}

impl fmt::Display for PathUnknown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotRegistered => f.write_str("path unknown: no flow is registered"),
            Self::Silent(neighbour) => write!(f, "path unknown: no answer of {neighbour}"),
            Self::Path(error) => write!(f, "path unknown: {error}"),
        }
    }
}

impl Error for PathUnknown {}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::string::ToString;

    use super::*;

    #[test]
    fn refusals_name_the_cause() {
        for (refusal, words) in [
            (QueryRefusal::NotANeighbour, "not a neighbour"),
            (QueryRefusal::ForeignFlow, "other networks"),
            (QueryRefusal::Visited, "up to 8"),
            (QueryRefusal::Loop, "before"),
            (QueryRefusal::TooMany, "too many"),
        ] {
            assert!(refusal.to_string().contains(words), "{refusal}");
        }
        let network = NetworkId::new(7);
        for (refusal, words) in [
            (AnswerRefusal::NotAsked, "not asked"),
            (AnswerRefusal::NotNewer, "not newer"),
            (AnswerRefusal::Loop(network), "network 7"),
            (AnswerRefusal::Path(PathError::Length(0)), "no links"),
        ] {
            assert!(refusal.to_string().contains(words), "{refusal}");
        }
        for (unknown, words) in [
            (PathUnknown::NotRegistered, "no flow"),
            (PathUnknown::Silent(network), "network 7"),
            (PathUnknown::Path(PathError::Length(65)), "more than 64"),
        ] {
            assert!(unknown.to_string().contains(words), "{unknown}");
        }
    }
}
