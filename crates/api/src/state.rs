//! Network state: queries and leases of applications, and samples of links.
//!
//! Times are in microseconds. Bytes are of IP packets. Rates are in bits per second. The published
//! form of an answer, which has other units, is described in docs/state-api.md.

use std::fmt;
use std::net::{IpAddr, SocketAddr};

use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

/// Query of an application for the state of the path between two endpoints.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct StateQuery {
    /// Address of the endpoint that sends.
    #[param(value_type = String)]
    pub from: IpAddr,
    /// Address of the endpoint that receives.
    #[param(value_type = String)]
    pub to: IpAddr,
    /// Index of the last entry that the reader has. Absent or 0: none. An index beyond the newest
    /// entry counts as 0, because the controller has restarted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[param(value_type = Option<u64>)]
    pub after: Option<String>,
    /// Maximum number of entries of the answer. Absent: 40, which are 2 s. Maximum: 100.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[param(value_type = Option<u64>)]
    pub max: Option<String>,
    /// True if the answer has the return direction, too.
    #[serde(default)]
    pub both: bool,
    /// Index of the last entry of the return direction that the reader has, as `after`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[param(value_type = Option<u64>)]
    pub return_after: Option<String>,
}

/// State of one direction of a path, or of both.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct StateAnswer {
    /// Run of the controller: 16 hexadecimal digits. With another one, indices begin anew.
    pub epoch: String,
    /// Directions of the path: the queried one, and then the return direction.
    pub paths: Vec<PathState>,
}

/// State of one direction of a path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PathState {
    /// Address of the endpoint that sends.
    #[schema(value_type = String)]
    pub from: IpAddr,
    /// Address of the endpoint that receives.
    #[schema(value_type = String)]
    pub to: IpAddr,
    /// Entries, the oldest one first.
    pub entries: Vec<NamedEntry>,
    /// Link that has not reported for 5 s, or never. The path's state is unknown then. Absent if
    /// all links report.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub silent_link: Option<String>,
}

/// State of all links of a path at one index.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NamedEntry {
    /// Index of the entry, from 1 without gaps.
    pub index: u64,
    /// Links, in the order that packets pass them: 1 to 64.
    pub links: Vec<NamedLink>,
}

/// State of one link in an entry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NamedLink {
    /// Name of the link.
    pub link: String,
    /// Time that the entry covers. 0: the link has not reported since the entry before, and the
    /// sent and waiting bytes are 0.
    pub interval_us: u64,
    /// Time since the link measured the entry.
    pub age_us: u64,
    /// Bytes that left the interactive queue in the interval.
    pub sent_bytes: u64,
    /// Bytes that wait in the interactive queue, without the packet being sent.
    pub backlog_bytes: u64,
    /// Rate that interactive flows may count on.
    pub shown_bits_per_second: u64,
    /// Guaranteed rate of the interactive queue; absent if the link does not report it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub guaranteed_bits_per_second: Option<u64>,
    /// Propagation delay, and a full packet's time if the link stores and forwards.
    pub delay_us: u64,
    /// Bytes of each flow that wait at the link if it is the bottleneck.
    pub target_bytes: u64,
    /// Active flows in the interactive queue, and in the other one; absent if the link does not
    /// report them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flows: Option<[u32; 2]>,
}

/// Registration of an application's interactive flows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FlowRegistration {
    /// Name of the application, for people.
    pub application: String,
    /// Flows: 1 to 64. Each one has an endpoint in a network of the application's tenant.
    pub tuples: Vec<FlowTuple>,
}

/// Flow, by its 5-tuple.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema)]
pub struct FlowTuple {
    /// Address and port of the endpoint that sends.
    #[schema(value_type = String)]
    pub from: SocketAddr,
    /// Address and port of the endpoint that receives.
    #[schema(value_type = String)]
    pub to: SocketAddr,
    /// Transport protocol.
    pub protocol: FlowProtocol,
}

impl fmt::Display for FlowTuple {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} to {}", self.protocol, self.from, self.to)
    }
}

/// Transport protocol of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum FlowProtocol {
    /// TCP.
    Tcp,
    /// UDP, and QUIC over it.
    Udp,
}

impl fmt::Display for FlowProtocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Tcp => "tcp",
            Self::Udp => "udp",
        })
    }
}

/// Lease of registered flows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LeaseAnswer {
    /// Identifier of the lease: 32 hexadecimal digits.
    pub lease: String,
    /// Time after which the flows are not registered any more, unless the application reads the
    /// state of their paths in the meantime.
    pub expires_in_s: u64,
}

/// Samples of a node's links at one time: one record of `POST /v1/samples`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SampleBatch {
    /// Run of the node's program: numbers, clock and counters begin anew with each one.
    pub incarnation: u64,
    /// Number of the batch, which grows with each one.
    pub number: u64,
    /// Time of the samples on the node's clock.
    pub clock_us: u64,
    /// Least time that a record takes to the controller, such as half of the round trip. Absent: 0.
    #[serde(default)]
    pub transit_us: u64,
    /// Samples: 1 to 64, one for each link.
    pub links: Vec<SampledLink>,
}

/// Sample of one link's counters.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SampledLink {
    /// Name of the link, as in the controller's settings.
    pub link: String,
    /// Bytes that have left the interactive queue so far.
    pub sent_bytes: u64,
    /// Bytes that wait in the interactive queue, without the packet being sent.
    pub backlog_bytes: u64,
    /// Rate that interactive flows may count on.
    pub shown_bits_per_second: u64,
    /// Guaranteed rate of the interactive queue.
    pub guaranteed_bits_per_second: u64,
    /// Propagation delay, and a full packet's time if the link stores and forwards.
    pub delay_us: u64,
    /// Bytes of each flow that wait at the link if it is the bottleneck.
    pub target_bytes: u64,
    /// Active flows in the interactive queue, and in the other one.
    pub flows: [u32; 2],
}

/// Answer to a node that has ended its stream of samples.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SamplesAnswer {
    /// Number of samples that the controller accepted.
    pub accepted: u64,
    /// Number of samples that the controller refused. The last good one of each link stayed.
    pub refused: u64,
    /// Reason of the last refusal; absent if there was none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_refusal: Option<String>,
}

/// Registered flows on the paths of a node's links: one line of `GET /v1/samples/flows`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RegisteredFlows {
    /// Flows: 1 to 64.
    pub flows: Vec<RegisteredFlow>,
}

/// Flow that an application has registered, or the return direction of such a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RegisteredFlow {
    /// Address and port of the endpoint that sends.
    #[schema(value_type = String)]
    pub from: SocketAddr,
    /// Address and port of the endpoint that receives.
    #[schema(value_type = String)]
    pub to: SocketAddr,
    /// Transport protocol.
    pub protocol: FlowProtocol,
    /// Time for which the flow is interactive unless it is sent again. 0: it is not any more.
    pub lease_s: u64,
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn registrations_name_endpoints_with_ports_and_a_protocol() {
        let text = r#"{"application":"viewer","tuples":[{"from":"10.0.0.2:4433","to":"198.51.100.7:50112",
            "protocol":"udp"}]}"#;
        let registration: FlowRegistration = serde_json::from_str(text).expect("a registration");
        assert_eq!(registration.tuples[0].to_string(), "udp 10.0.0.2:4433 to 198.51.100.7:50112");
        for (good, bad) in [("udp", "sctp"), ("10.0.0.2:4433", "10.0.0.2"), (":50112", ":65536")] {
            assert!(serde_json::from_str::<FlowRegistration>(&text.replace(good, bad)).is_err(), "{bad}");
        }
    }

    #[test]
    fn absent_settings_of_a_link_are_not_written() {
        let link = NamedLink {
            link: "core-1".to_owned(),
            interval_us: 50_000,
            age_us: 61_000,
            sent_bytes: 31_250,
            backlog_bytes: 1_500,
            shown_bits_per_second: 5_000_000,
            guaranteed_bits_per_second: None,
            delay_us: 27_400,
            target_bytes: 1_500,
            flows: None,
        };
        let written = serde_json::to_value(&link).expect("JSON");
        let expected = json!({"link": "core-1", "interval_us": 50_000, "age_us": 61_000, "sent_bytes": 31_250,
            "backlog_bytes": 1_500, "shown_bits_per_second": 5_000_000, "delay_us": 27_400,
            "target_bytes": 1_500});
        assert_eq!(written, expected);
        assert_eq!(serde_json::from_value::<NamedLink>(written).expect("the same"), link);
    }

    #[test]
    fn samples_with_numbers_that_are_none_are_not_read() {
        let sample = json!({"link": "core-1", "sent_bytes": 1, "backlog_bytes": 2, "shown_bits_per_second": 3,
            "guaranteed_bits_per_second": 4, "delay_us": 5, "target_bytes": 6, "flows": [7, 8]});
        assert!(serde_json::from_value::<SampledLink>(sample.clone()).is_ok());
        for number in [json!(-1), json!(1.5), json!(1e30), json!("1"), Value::Null] {
            let mut bad = sample.clone();
            bad["sent_bytes"] = number.clone();
            assert!(serde_json::from_value::<SampledLink>(bad).is_err(), "{number}");
        }
        // JSON has no NaN and no infinity.
        for text in ["NaN", "Infinity", "-Infinity"] {
            let bad = sample.to_string().replace("\"sent_bytes\":1", &format!("\"sent_bytes\":{text}"));
            assert!(serde_json::from_str::<SampledLink>(&bad).is_err(), "{text}");
        }
    }
}
