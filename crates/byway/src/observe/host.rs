//! Check of the `Host` header in requests to the status server. Otherwise, a page of another site
//! could read a node's status through a name of its own that resolves to this machine (DNS
//! rebinding).

use std::net::IpAddr;

use axum::extract::{Request, State};
use axum::http::uri::Authority;
use axum::http::{StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use crate::connections::{ConnectionLimiter, Reason};

/// Rejects and counts requests whose `Host` is neither a name nor an address of the loopback.
/// `observe.listen` is always one of those.
pub(super) async fn check_host(
    State(gate): State<ConnectionLimiter>,
    request: Request,
    next: Next,
) -> Response {
    let host = request.headers().get(header::HOST).and_then(|host| host.to_str().ok());
    let target = request.uri().host();
    if host.is_some_and(is_loopback_host) && target.is_none_or(is_loopback_host) {
        return next.run(request).await;
    }
    gate.count(Reason::Host);
    let remedy = "wrong Host header: only localhost and the address of observe.listen are served. Use \
                  one of them, also as the Host header of a proxy\n";
    (StatusCode::MISDIRECTED_REQUEST, remedy).into_response()
}

/// True if a host, with or without a port, is a name or an address of the loopback.
fn is_loopback_host(host: &str) -> bool {
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
            assert!(is_loopback_host(own), "{own}");
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
            assert!(!is_loopback_host(other), "{other}");
        }
    }
}
