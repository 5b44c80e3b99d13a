//! Streams of lines to the controller, and from it.

use std::convert::Infallible;

use byway_api::{ErrorCode, RegisteredFlows, SamplesAnswer};
use futures_util::{StreamExt as _, stream};
use http_body_util::{BodyExt as _, StreamBody};
use hyper::body::{Bytes, Frame};

use super::*;

/// Joins as a node without maps.
async fn client(world: &TestNetwork, role: Role, name: &str) -> Client {
    let settings = world.settings(role, name, Some(world.token(role).await));
    member_client(&settings, &world.key(name), &world.clock()).await.expect("it joins")
}

/// Returns a body with one line, which does not end.
fn endless(line: &'static str) -> MessageBody {
    let first = stream::iter([Ok::<_, Infallible>(Frame::data(Bytes::from_static(line.as_bytes())))]);
    StreamBody::new(first.chain(stream::pending())).boxed_unsync()
}

#[tokio::test]
async fn a_stream_that_the_controller_ends_tells_why_although_its_body_goes_on() {
    let world = TestNetwork::new().await;
    let mut link = client(&world, Role::Link, "edge").await;
    let of_unknown = "{\"incarnation\":1,\"number\":1,\"clock_us\":1,\"links\":[{\"link\":\"core-1\",\"sent_bytes\":1,\
                      \"backlog_bytes\":0,\"shown_bits_per_second\":1000000,\"guaranteed_bits_per_second\":1000000,\
                      \"delay_us\":0,\"target_bytes\":1500,\"flows\":[1,0]}]}\n";
    for (line, expected) in [("{}\n", ErrorCode::BadRequest), (of_unknown, ErrorCode::NotFound)] {
        let ended = link.post_messages::<SamplesAnswer>("/v1/samples", |_| endless(line));
        let error = timeout(TIMEOUT, ended).await.expect("it ends").expect_err("it is refused");
        assert!(matches!(&error, MembershipError::Refused { code, .. } if *code == expected), "{error}");
    }
}

#[tokio::test]
async fn links_read_registered_flows_until_the_controller_stops_and_agents_do_not() {
    let mut world = TestNetwork::new().await;
    let mut agent = client(&world, Role::Agent, "alice").await;
    let refused = agent.get_messages("/v1/samples/flows").await.err();
    assert!(matches!(refused, Some(MembershipError::WrongRole(_))), "{refused:?}");
    let mut link = client(&world, Role::Link, "edge").await;
    let mut lines = link.another().get_messages("/v1/samples/flows").await.expect("it is a link");
    world.stop().await;
    let end = timeout(TIMEOUT, lines.next::<RegisteredFlows>()).await.expect("it ends");
    assert!(!matches!(end, Ok(Some(_))), "{end:?}");
    assert!(link.get_messages("/v1/samples/flows").await.is_err(), "the controller has stopped");
}
