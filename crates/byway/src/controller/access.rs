//! Access to network state: applications, and the members that report samples.
//!
//! The table is separate from the network's state, because an application reads 40 times a second.
//! Its lock is held for one look-up, whatever the controller plans or writes at the time.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use byway_api::Role;
use data_encoding::HEXLOWER_PERMISSIVE;
use zeroize::Zeroizing;

use super::network::{Change, Digest, Refusal, Token as TokenRecord};
use crate::token::Token;

/// Application that a bearer secret has authenticated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Application {
    /// Number of the application's token.
    pub(crate) number: u32,
    /// Name of the application's tenant.
    pub(crate) tenant: Arc<str>,
}

/// Member that reports samples of links: a relay or a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LinkReporter {
    /// Number of the member.
    pub(crate) number: u32,
    /// Name of the member, which no other relay or link has.
    pub(crate) name: Arc<str>,
}

/// Table of the applications and members that may use network state.
#[derive(Debug, Default)]
pub(crate) struct AccessTable(Mutex<AccessRecords>);

#[derive(Debug, Default)]
struct AccessRecords {
    /// Names of tenants, by number.
    tenants: BTreeMap<u32, Arc<str>>,
    /// Tokens of applications, by the digest of their secret.
    applications: BTreeMap<Digest, ApplicationRecord>,
    /// Digests of the tokens' secrets, by the tokens' numbers.
    digests: BTreeMap<u32, Digest>,
    /// Roles and names of all members, by number.
    members: BTreeMap<u32, (Role, Arc<str>)>,
}

#[derive(Clone, Copy, Debug)]
struct ApplicationRecord {
    number: u32,
    tenant: u32,
    /// Time at which the token expires, in seconds of Unix time; `None` for never.
    expires_unix_seconds: Option<u64>,
}

impl ApplicationRecord {
    fn is_valid(&self, unix_seconds: u64) -> bool {
        self.expires_unix_seconds.is_none_or(|expires| expires > unix_seconds)
    }
}

impl AccessTable {
    /// Follows changes of the network, which were written and applied.
    pub(crate) fn apply(&self, changes: &[Change]) {
        let mut records = self.records();
        for change in changes {
            records.apply(change);
        }
    }

    /// Returns the application whose token is `bearer`: the token's text, or the 64 hexadecimal
    /// digits of its secret.
    pub(crate) fn application(&self, bearer: &str, unix_seconds: u64) -> Result<Application, Refusal> {
        let digest = secret_digest(bearer).ok_or(Refusal::NotAnApplication)?;
        let records = self.records();
        let found = records.applications.get(&digest).filter(|record| record.is_valid(unix_seconds));
        let record = found.ok_or(Refusal::NotAnApplication)?;
        let tenant = records.tenants.get(&record.tenant).ok_or(Refusal::NotAnApplication)?;
        Ok(Application { number: record.number, tenant: Arc::clone(tenant) })
    }

    /// True if the application's token is still valid.
    pub(crate) fn is_valid(&self, application: &Application, unix_seconds: u64) -> bool {
        let records = self.records();
        let digest = records.digests.get(&application.number);
        let record = digest.and_then(|digest| records.applications.get(digest));
        record.is_some_and(|record| record.is_valid(unix_seconds))
    }

    /// Returns the member of this number, if it is a relay or a link.
    pub(crate) fn reporter(&self, number: u32) -> Result<LinkReporter, Refusal> {
        match self.records().members.get(&number) {
            Some((Role::Relay | Role::Link, name)) => Ok(LinkReporter { number, name: Arc::clone(name) }),
            Some((role, _)) => Err(Refusal::ReportsNoSamples { role: *role }),
            None => Err(Refusal::NotAMember),
        }
    }

    /// Locks the records. They are consistent even after a panic, because each change is one step.
    fn records(&self) -> MutexGuard<'_, AccessRecords> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl AccessRecords {
    fn apply(&mut self, change: &Change) {
        match change {
            Change::Tenant(tenant) => {
                self.tenants.insert(tenant.number, tenant.name.as_str().into());
            }
            Change::Token(token) if token.role == Role::Application => self.add_application(token),
            Change::NoToken(number) => {
                if let Some(digest) = self.digests.remove(number) {
                    self.applications.remove(&digest);
                }
            }
            Change::Node(node) => {
                self.members.insert(node.number, (node.role, node.name.as_str().into()));
            }
            Change::NoNode(number) => {
                self.members.remove(number);
            }
            Change::Token(_) | Change::Counters(_) | Change::Pair(_) | Change::NoPair(_) => {}
        }
    }

    fn add_application(&mut self, token: &TokenRecord) {
        let TokenRecord { number, secret, tenant, expires_unix_seconds, .. } = *token;
        // Without a tenant, there is nothing to read.
        if let Some(tenant) = tenant {
            let record = ApplicationRecord { number, tenant, expires_unix_seconds };
            self.applications.insert(secret, record);
            self.digests.insert(number, secret);
        }
    }
}

/// Returns the digest by which the table knows a token's secret.
fn secret_digest(bearer: &str) -> Option<Digest> {
    let digits = match bearer.parse::<Token>() {
        Ok(token) => token.secret_text(),
        Err(_) => Zeroizing::new(bearer.to_owned()),
    };
    let secret = HEXLOWER_PERMISSIVE.decode(digits.as_bytes()).map(Zeroizing::new).ok()?;
    Some(Digest::of(&secret))
}

#[cfg(test)]
mod tests {
    use super::super::network::{NodeRecord, Tenant};
    use super::*;

    const NOW: u64 = 1_800_000_000;
    const SECRET: [u8; 32] = [9; 32];

    fn token(number: u32, role: Role, expires_unix_seconds: Option<u64>) -> Change {
        Change::Token(TokenRecord {
            number,
            secret: Digest::of(&SECRET),
            role,
            tenant: Some(1),
            uses_left: None,
            expires_unix_seconds,
        })
    }

    fn node(number: u32, role: Role, name: &str) -> Change {
        Change::Node(Box::new(NodeRecord {
            number,
            role,
            tenant: None,
            name: name.to_owned(),
            key: Digest([7; 32]),
            addresses: vec![],
            shards: 1,
            bearer: Digest([8; 32]),
            token: 1,
            round_trips: BTreeMap::new(),
            nearest: None,
            relay: None,
            transit: false,
        }))
    }

    fn tenant() -> Change {
        Change::Tenant(Tenant { number: 1, name: "lab".to_owned() })
    }

    #[test]
    fn a_token_of_an_application_is_its_bearer_secret_in_two_forms() {
        let table = AccessTable::default();
        table.apply(&[token(3, Role::Application, None), tenant()]);
        let text = Token::new(vec!["127.0.0.1:4443".to_owned()], [1; 32], SECRET).expect("a token");
        for bearer in [text.to_text().to_string(), text.secret_text().to_string(), "09".repeat(32)] {
            let application = table.application(&bearer, NOW).expect("it is valid");
            assert_eq!((application.number, &*application.tenant), (3, "lab"));
        }
        for wrong in ["", "09", "byway1.", "zz", &"08".repeat(32), &"09".repeat(33)] {
            assert_eq!(table.application(wrong, NOW), Err(Refusal::NotAnApplication), "{wrong}");
        }
    }

    #[test]
    fn tokens_of_nodes_are_no_applications() {
        for role in [Role::Agent, Role::Relay, Role::Link] {
            let table = AccessTable::default();
            table.apply(&[tenant(), token(3, role, None)]);
            assert_eq!(table.application(&"09".repeat(32), NOW), Err(Refusal::NotAnApplication));
        }
    }

    #[test]
    fn an_application_has_access_until_its_token_expires_or_is_revoked() {
        let table = AccessTable::default();
        table.apply(&[tenant(), token(3, Role::Application, Some(NOW + 1))]);
        let bearer = "09".repeat(32);
        let application = table.application(&bearer, NOW).expect("it is valid");
        assert!(table.is_valid(&application, NOW) && !table.is_valid(&application, NOW + 1));
        assert_eq!(table.application(&bearer, NOW + 1), Err(Refusal::NotAnApplication));
        table.apply(&[Change::NoToken(3)]);
        assert!(!table.is_valid(&application, NOW));
        assert_eq!(table.application(&bearer, NOW), Err(Refusal::NotAnApplication));
    }

    #[test]
    fn relays_and_links_report_samples_and_agents_do_not() {
        let table = AccessTable::default();
        table.apply(&[node(1, Role::Relay, "fra"), node(2, Role::Link, "edge"), node(3, Role::Agent, "a")]);
        for (number, name) in [(1, "fra"), (2, "edge")] {
            assert_eq!(table.reporter(number).map(|reporter| reporter.name), Ok(name.into()));
        }
        assert_eq!(table.reporter(3), Err(Refusal::ReportsNoSamples { role: Role::Agent }));
        table.apply(&[Change::NoNode(1), node(2, Role::Link, "renamed")]);
        assert_eq!(table.reporter(1), Err(Refusal::NotAMember));
        assert_eq!(table.reporter(2).map(|reporter| reporter.name), Ok("renamed".into()));
    }
}
