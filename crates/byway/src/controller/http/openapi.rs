//! `OpenAPI` description of the interface, generated from the handlers.

use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use byway_api::{AgentCost, FlowExplanation, FlowList, NetworkMap};
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa::{Modify, OpenApi};

use super::{administration, members, network_state, samples};

/// The interface of a Byway controller.
#[derive(OpenApi)]
#[openapi(
    info(
        title = "Byway controller",
        description = "Membership, maps, tokens, network state. HTTPS with TLS 1.3; the public key in \
                       the token authenticates the certificate. Errors are `ErrorAnswer`."
    ),
    paths(
        members::health,
        members::network,
        members::join,
        members::map,
        members::update_self,
        members::leave,
        members::pair,
        administration::create_token,
        administration::tokens,
        administration::revoke_token,
        administration::nodes,
        administration::remove_node,
        administration::pair,
        administration::status,
        administration::cost,
        network_state::register,
        network_state::release,
        network_state::published,
        network_state::state,
        network_state::stream,
        samples::report,
        samples::flows,
    ),
    components(schemas(NetworkMap, AgentCost, FlowExplanation, FlowList)),
    modifiers(&Bearer)
)]
struct Interface;

/// Bearer secret of members, administrators and applications.
struct Bearer;

impl Modify for Bearer {
    fn modify(&self, document: &mut utoipa::openapi::OpenApi) {
        let scheme = HttpBuilder::new().scheme(HttpAuthScheme::Bearer).build();
        let components = document.components.get_or_insert_default();
        components.add_security_scheme("bearer", SecurityScheme::Http(scheme));
    }
}

/// Returns the `OpenAPI` description of the controller's interface, as JSON.
pub(crate) fn document() -> String {
    Interface::openapi().to_pretty_json().expect("the document has only texts and numbers") + "\n"
}

/// Answers a request for the `OpenAPI` description of the interface.
pub(super) async fn serve() -> impl IntoResponse {
    ([(CONTENT_TYPE, "application/json")], document())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::disallowed_methods, reason = "compares with a file")]

    use std::path::PathBuf;

    use super::*;

    fn document_path() -> PathBuf {
        PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/openapi.json")
    }

    #[test]
    fn the_document_in_docs_is_current() {
        let written = std::fs::read_to_string(document_path()).expect("docs/openapi.json is there");
        let remedy = "docs/openapi.json is out of date: `byway config openapi > docs/openapi.json`";
        assert!(written == document(), "{remedy}");
    }
}
