//! Client for `byway token` and `byway node`: commands of an administrator on the controller's
//! machine.

use std::path::Path;
use std::time::Duration;

use byway_api::{
    AgentName, NodeEntry, NodeList, PairRequest, PairingAnswer, Role, TokenAnswer, TokenEntry, TokenList,
    TokenRequest,
};

use super::server::ADMIN_TOKEN;
use crate::membership::{Client, Date, MembershipError, files};
use crate::token::Token;

/// HTTPS client of the controller on this machine, with an administrator's rights.
#[derive(Debug)]
pub(crate) struct AdminClient {
    client: Client,
}

impl AdminClient {
    /// Reads the address and the secret of the local controller from the administrator's token in
    /// its state directory. No connection is opened yet.
    ///
    /// # Errors
    /// If the token's file does not exist, is not readable, or contains no token.
    pub(crate) fn open(state: &Path) -> Result<Self, MembershipError> {
        let path = state.join(ADMIN_TOKEN);
        let text = files::read(&path)?.ok_or(MembershipError::NoAdminToken(path))?;
        let token: Token = text.parse()?;
        let client = Client::new(token.addresses().to_vec(), *token.pin()).with_bearer(token.secret_text());
        Ok(Self { client })
    }

    /// Creates a token, by which nodes of this role join. `uses` limits the number of nodes, and
    /// `lifetime` the token's validity.
    ///
    /// # Errors
    /// If the controller does not answer, or refuses.
    pub(crate) async fn create_token(
        &mut self,
        role: Role,
        tenant: Option<String>,
        uses: Option<u32>,
        lifetime: Option<Duration>,
    ) -> Result<TokenAnswer, MembershipError> {
        let lifetime_seconds = lifetime.map(|lifetime| lifetime.as_secs());
        self.client.post("/v1/tokens", &TokenRequest { role, tenant, uses, lifetime_seconds }).await
    }

    /// Returns all tokens of the controller, without their secrets.
    ///
    /// # Errors
    /// If the controller does not answer, or refuses.
    pub(crate) async fn tokens(&mut self) -> Result<TokenList, MembershipError> {
        self.client.get("/v1/tokens").await
    }

    /// Revokes the token with this number. Nodes that joined with it stay members.
    ///
    /// # Errors
    /// If the controller does not answer, or refuses.
    pub(crate) async fn revoke_token(&mut self, number: u32) -> Result<(), MembershipError> {
        self.client.delete(&format!("/v1/tokens/{number}")).await
    }

    /// Returns all members of the network.
    ///
    /// # Errors
    /// If the controller does not answer, or refuses.
    pub(crate) async fn nodes(&mut self) -> Result<NodeList, MembershipError> {
        self.client.get("/v1/nodes").await
    }

    /// Removes the member with this number from the network.
    ///
    /// # Errors
    /// If the controller does not answer, or refuses.
    pub(crate) async fn remove_node(&mut self, number: u32) -> Result<(), MembershipError> {
        self.client.delete(&format!("/v1/nodes/{number}")).await
    }

    /// Pairs two agents, also of different tenants, so that they may exchange flows.
    ///
    /// # Errors
    /// If the controller does not answer, or refuses.
    pub(crate) async fn pair(&mut self, agents: [AgentName; 2]) -> Result<PairingAnswer, MembershipError> {
        self.client.post("/v1/admin/pairs", &PairRequest { agents }).await
    }
}

/// Formats tokens as a table for `byway token list`.
pub(crate) fn token_table(list: &TokenList) -> String {
    let row = |entry: &TokenEntry| {
        [
            entry.number.to_string(),
            entry.role.to_string(),
            entry.tenant.clone().unwrap_or_else(|| "-".to_owned()),
            entry.uses_left.map_or_else(|| "any".to_owned(), |uses| uses.to_string()),
            entry.expires_unix_seconds.map_or_else(|| "never".to_owned(), |at| Date(at).to_string()),
        ]
    };
    table(["number", "role", "tenant", "uses left", "expires"], list.tokens.iter().map(row))
}

/// Formats members as a table for `byway node list`.
pub(crate) fn node_table(list: &NodeList) -> String {
    let row = |entry: &NodeEntry| {
        let tenant = entry.tenant.as_ref().map(|tenant| format!("{tenant}/")).unwrap_or_default();
        let never_seen = || "not since the controller started".to_owned();
        [
            entry.number.to_string(),
            entry.role.to_string(),
            format!("{tenant}{}", entry.name),
            entry.last_seen_unix_seconds.map_or_else(never_seen, |at| Date(at).to_string()),
        ]
    };
    table(["number", "role", "name", "last contact"], list.nodes.iter().map(row))
}

/// Formats a heading and rows as a text table, with columns as wide as their longest cell.
fn table<const COLUMNS: usize>(
    heading: [&str; COLUMNS],
    rows: impl Iterator<Item = [String; COLUMNS]>,
) -> String {
    let rows: Vec<_> = std::iter::once(heading.map(str::to_owned)).chain(rows).collect();
    let width = |column: usize| rows.iter().map(|row| row[column].len()).max().unwrap_or_default();
    let widths: [usize; COLUMNS] = std::array::from_fn(width);
    let format_row = |row: &[String; COLUMNS]| {
        let cells = row.iter().zip(widths).map(|(cell, width)| format!("{cell:width$}"));
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned() + "\n"
    };
    rows.iter().map(format_row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_shown_in_columns() {
        let entry = |number, tenant: Option<&str>| TokenEntry {
            number,
            role: if tenant.is_some() { Role::Agent } else { Role::Relay },
            tenant: tenant.map(str::to_owned),
            uses_left: tenant.map(|_| 3),
            expires_unix_seconds: tenant.map(|_| 0),
        };
        let table = token_table(&TokenList { tokens: vec![entry(1, None), entry(12, Some("laboratory"))] });
        let expected = "number  role   tenant      uses left  expires\n\
                        1       relay  -           any        never\n\
                        12      agent  laboratory  3          1970-01-01T00:00:00Z\n";
        assert_eq!(table, expected);
    }

    #[test]
    fn members_are_shown_with_their_tenants_and_when_they_were_heard_of() {
        let entry = |number, tenant: Option<&str>| NodeEntry {
            number,
            role: if tenant.is_some() { Role::Agent } else { Role::Relay },
            tenant: tenant.map(str::to_owned),
            name: "fra".to_owned(),
            key: String::new(),
            addresses: vec![],
            shards: 1,
            near_relay: None,
            round_trips: vec![],
            last_seen_unix_seconds: tenant.map(|_| 0),
        };
        let table = node_table(&NodeList { nodes: vec![entry(1, None), entry(2, Some("lab"))] });
        let expected = "number  role   name     last contact\n\
                        1       relay  fra      not since the controller started\n\
                        2       agent  lab/fra  1970-01-01T00:00:00Z\n";
        assert_eq!(table, expected);
    }
}
