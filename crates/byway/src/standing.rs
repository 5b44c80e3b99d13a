//! Who a node is in its network: by its own file, or by its controller.

use std::net::SocketAddr;
use std::path::PathBuf;

use byway_api::{ControllerState, Role};
use tokio::sync::watch;

use crate::exit::{Cause, Failure};
use crate::membership::{Contact, Membership, MembershipSettings, NodeKey, WallClock};
use crate::token::Token;

/// A node of a network with a controller.
pub(crate) struct Applicant {
    pub(crate) role: Role,
    pub(crate) name: String,
    pub(crate) state: PathBuf,
    pub(crate) token: Option<Token>,
    pub(crate) addresses: Vec<SocketAddr>,
    pub(crate) shards: u8,
    /// The relay near it, by name.
    pub(crate) relay: Option<String>,
}

/// Joins the network, or goes on as the member that the node is.
///
/// # Errors
/// If it is none, and does not become one.
pub(crate) async fn member(applicant: Applicant, key: &NodeKey) -> Result<Membership, Failure> {
    let Applicant { role, name, state, token, addresses, shards, relay } = applicant;
    let settings =
        MembershipSettings { state, token, role, name, addresses, shards: u16::from(shards), relay };
    Ok(Membership::start(settings, key, &WallClock::system()).await?)
}

/// The network that a node is in, and whose it is, for people.
pub(crate) fn network_of(member: &Membership) -> String {
    member.tenant().map_or_else(
        || member.network().to_owned(),
        |tenant| format!("{} (tenant {tenant})", member.network()),
    )
}

/// Leaves a network for good.
///
/// # Errors
/// If there is no controller, or it does not answer or refuses.
pub(crate) async fn leave(member: Option<Membership>) -> Result<(), Failure> {
    let Some(member) = member else {
        let message = "this node has no controller: take it out of [network] in the files of the others";
        return Err(Failure::new(Cause::Settings, message));
    };
    let network = member.network().to_owned();
    member.leave().await?;
    println!("left {network}");
    Ok(())
}

/// That the key is the one that a static network names.
///
/// # Errors
/// If it is another.
pub(crate) fn check_key(key: &NodeKey, named: &str, name: &str) -> Result<(), Failure> {
    let own = key.public_key().to_string();
    if own == named {
        return Ok(());
    }
    let message = format!(
        "the key file has the secret of {own}, but [network] names {named} for {name:?}: write the first one there in the files of \
         all nodes, or set key_file to the other one's"
    );
    Err(Failure::new(Cause::Settings, message))
}

/// What status says of the controller.
pub(crate) fn controller_state(contact: Option<&watch::Receiver<Contact>>) -> ControllerState {
    contact.map_or(ControllerState::None, |contact| match *contact.borrow() {
        Contact::Unknown => ControllerState::Unknown,
        Contact::Answers => ControllerState::Connected,
        Contact::Fails(_) => ControllerState::Away,
    })
}
