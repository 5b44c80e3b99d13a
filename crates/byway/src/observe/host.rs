//! Check of the `Host` of requests: a page of another site may not read a node's status through a name of its own that
//! it has pointed to this machine (DNS rebinding).

use std::net::IpAddr;

use axum::extract::{Request, State};
use axum::http::uri::Authority;
use axum::http::{StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use crate::connections::{Gate, Reason};

/// Answers only requests to a name or an address of the loopback, which `observe.listen` is always one of.
pub(super) async fn check(State(gate): State<Gate>, request: Request, next: Next) -> Response {
    let host = request.headers().get(header::HOST).and_then(|host| host.to_str().ok());
    let target = request.uri().host();
    if host.is_some_and(is_own) && target.is_none_or(is_own) {
        return next.run(request).await;
    }
    gate.count(Reason::Host);
    let remedy = "only requests to localhost or to the address of observe.listen are answered: ask there, and have a proxy \
                  send that address as Host\n";
    (StatusCode::MISDIRECTED_REQUEST, remedy).into_response()
}

/// True if a host, with or without a port, is a name or an address of the loopback.
fn is_own(host: &str) -> bool {
    let Ok(authority) = host.parse::<Authority>() else { return false };
    if authority.as_str().contains('@') {
        return false;
    }
    let host = authority.host();
    let ip = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    ip.map_or_else(|_| host.eq_ignore_ascii_case("localhost"), |ip| ip.to_canonical().is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_and_addresses_of_the_loopback_are_own() {
        for own in ["localhost", "LocalHost:4680", "127.0.0.1", "127.3.2.1:4680", "[::1]:4680", "[::1]"] {
            assert!(is_own(own), "{own}");
        }
        for other in [
            "",
            "evil.example.com",
            "localhost.evil.example.com:4680",
            "10.0.0.1",
            "user@localhost",
            "[2001:db8::1]",
            "::1 ",
        ] {
            assert!(!is_own(other), "{other}");
        }
    }
}
