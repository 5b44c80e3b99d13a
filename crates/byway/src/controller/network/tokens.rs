//! Decisions about tokens, which permit nodes to join.

use byway_api::{Role, TokenEntry, TokenRequest, checked_name};

use super::{Change, Counters, DEFAULT_TENANT, Decision, Digest, Network, Refusal, Table, Tenant, Token};
use crate::controller::limits::TOKENS_MAX;

impl Network {
    /// Decides on an administrator's request to create a token with this secret.
    pub(crate) fn create_token(
        &self,
        request: &TokenRequest,
        secret: &[u8],
        now_unix_seconds: u64,
    ) -> Result<Decision<TokenEntry>, Refusal> {
        if self.tokens.len() >= TOKENS_MAX {
            return Err(Refusal::TooManyTokens);
        }
        if request.uses == Some(0) {
            return Err(Refusal::NoUses);
        }
        if request.role == Role::Application && request.uses.is_some() {
            return Err(Refusal::UsesOfApplication);
        }
        let mut counters = self.counters;
        let tenant = self.tenant_for(request, &mut counters)?;
        self.check_quota(Table::Tokens, tenant.as_ref().map(|tenant| tenant.number))?;
        let token = Token {
            number: counters.token,
            secret: Digest::of(secret),
            role: request.role,
            tenant: tenant.as_ref().map(|tenant| tenant.number),
            uses_left: request.uses,
            expires_unix_seconds: request.lifetime_seconds.map(|life| now_unix_seconds.saturating_add(life)),
        };
        counters.token += 1;
        let answer = entry(&token, tenant.as_ref().map(|tenant| tenant.name.as_str()));
        let mut changes = vec![Change::Counters(counters), Change::Token(token)];
        changes.extend(tenant.map(Change::Tenant));
        Ok(Decision { answer, changes })
    }

    /// Returns the tenant whose agents a new token admits, or whose application has it. A name that
    /// no tenant has yet creates one, and increases the counter. `None` for a token for relays or
    /// links.
    fn tenant_for(&self, request: &TokenRequest, counters: &mut Counters) -> Result<Option<Tenant>, Refusal> {
        if matches!(request.role, Role::Relay | Role::Link) {
            return if request.tenant.is_some() { Err(Refusal::TenantOfRelay) } else { Ok(None) };
        }
        let name = checked_name(request.tenant.as_deref().unwrap_or(DEFAULT_TENANT))?;
        if let Some(known) = self.tenants.values().find(|tenant| tenant.name == name) {
            return Ok(Some(known.clone()));
        }
        let number = counters.tenant;
        counters.tenant += 1;
        Ok(Some(Tenant { number, name: name.to_owned() }))
    }

    /// Decides on the revocation of the token of this number. Nodes that joined with it stay
    /// members.
    pub(crate) fn revoke_token(&self, number: u32) -> Result<Decision<()>, Refusal> {
        if !self.tokens.contains_key(&number) {
            return Err(Refusal::NotFound { kind: "token", number });
        }
        Ok(Decision { answer: (), changes: vec![Change::NoToken(number)] })
    }

    /// Returns all tokens, without their secrets.
    pub(crate) fn tokens(&self) -> Vec<TokenEntry> {
        self.tokens.values().map(|token| entry(token, self.tenant_name(token.tenant))).collect()
    }

    /// Returns the token with this secret. Fails if there is none, it has expired, or it is for
    /// another role.
    pub(super) fn token(&self, secret: &[u8], role: Role, now_unix_seconds: u64) -> Result<&Token, Refusal> {
        let mut found = None;
        // The loop checks all tokens, and so takes constant time.
        for token in self.tokens.values() {
            if token.secret.is_of(secret) {
                found = Some(token);
            }
        }
        let token = found.ok_or(Refusal::TokenUnknown { role })?;
        match token.expires_unix_seconds {
            Some(at) if at <= now_unix_seconds => Err(Refusal::TokenExpired { at, role }),
            _ if token.role != role => Err(Refusal::WrongRole { expected: token.role, role }),
            _ => Ok(token),
        }
    }
}

/// Returns the description of a token for administrators, without its secret.
fn entry(token: &Token, tenant: Option<&str>) -> TokenEntry {
    TokenEntry {
        number: token.number,
        role: token.role,
        tenant: tenant.map(str::to_owned),
        uses_left: token.uses_left,
        expires_unix_seconds: token.expires_unix_seconds,
    }
}
