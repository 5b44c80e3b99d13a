//! Tokens, which a node needs to join a network, as one line of text.
//!
//! The line is `byway1.`, followed by these fields in Base64 for URLs (RFC 4648, section 5):
//!
//! - `count[1]`, the number of addresses;
//! - count times `length[1] ‖ address`;
//! - the SHA-256 of the controller's public key;
//! - the secret;
//! - the first four bytes of the SHA-256 of all that.

use std::fmt;
use std::str::FromStr;

use aws_lc_rs::digest::{SHA256, digest};
use data_encoding::{BASE64URL_NOPAD, DecodeKind, HEXLOWER};
use thiserror::Error;
use zeroize::{Zeroize, Zeroizing};

const PREFIX: &str = "byway1.";
const CHECKSUM_BYTES: usize = 4;

/// Maximum number of a controller's addresses in a token: a name for each of its address families,
/// and spares.
const ADDRESSES_MAX: usize = 8;

/// Longest address of a controller in a token, in bytes: a DNS name, a colon and a port.
const ADDRESS_BYTES_MAX: usize = 255;

/// Reason why a text is no valid token, or a token cannot be created.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub(crate) enum TokenError {
    /// The text does not begin as a token does.
    #[error("not a token, which begins with `{PREFIX}`: create one with `byway token create`")]
    NoToken,
    /// The token has another version of the format.
    #[error(
        "token version {version} not supported, only version 1: use a newer program, or create a new token"
    )]
    OtherVersion {
        /// Version of the token's format.
        version: String,
    },
    /// A character of the token is not in the alphabet.
    #[error("invalid character {position} of the token: copy the token again")]
    Mistyped {
        /// Position of the invalid character, from 1.
        position: usize,
    },
    /// The token is truncated: its end is missing.
    #[error("token truncated: copy all of its line")]
    CutOff,
    /// Further text follows the end of the token.
    #[error("extra characters after the token: copy the token alone")]
    TooLong,
    /// The token's checksum is wrong, although all characters are valid.
    #[error("invalid token, a character is wrong: copy the token instead of typing it")]
    WrongChecksum,
    /// The token contains no address of a controller.
    #[error(
        "token without a controller: set `addresses` of [controller], and create another with `byway \
        token create`"
    )]
    NoAddress,
    /// A controller's address in the token is invalid.
    #[error(
        "invalid controller address \"{address}\": write it as host:port, with at most \
        {ADDRESS_BYTES_MAX} bytes"
    )]
    BadAddress {
        /// Invalid address of the controller.
        address: String,
    },
    /// The controller has more addresses than fit into a token.
    #[error("too many addresses for a token, {count}: name at most {ADDRESSES_MAX}")]
    TooManyAddresses {
        /// Number of the controller's addresses.
        count: usize,
    },
}

/// Token with which a node joins a network: the controller's addresses, the hash of its public key,
/// and a secret.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Token {
    addresses: Vec<String>,
    pin: [u8; 32],
    secret: Zeroizing<[u8; 32]>,
}

impl Token {
    /// Creates a token for a controller at these addresses, each `host:port`, whose certificate has
    /// a public key with this SHA-256.
    ///
    /// # Errors
    /// If an address is invalid, or there are none or too many.
    pub(crate) fn new(addresses: Vec<String>, pin: [u8; 32], secret: [u8; 32]) -> Result<Self, TokenError> {
        if addresses.is_empty() {
            return Err(TokenError::NoAddress);
        }
        if addresses.len() > ADDRESSES_MAX {
            return Err(TokenError::TooManyAddresses { count: addresses.len() });
        }
        match addresses.iter().find(|address| !is_address(address)) {
            Some(address) => Err(TokenError::BadAddress { address: address.clone() }),
            None => Ok(Self { addresses, pin, secret: Zeroizing::new(secret) }),
        }
    }

    /// Returns the controller's addresses, each `host:port`.
    pub(crate) fn addresses(&self) -> &[String] {
        &self.addresses
    }

    /// Returns the SHA-256 of the `SubjectPublicKeyInfo` of the controller's certificate.
    pub(crate) const fn pin(&self) -> &[u8; 32] {
        &self.pin
    }

    /// Returns the token's secret as 64 hexadecimal digits, for requests to the controller.
    pub(crate) fn secret_text(&self) -> Zeroizing<String> {
        Zeroizing::new(HEXLOWER.encode(self.secret.as_ref()))
    }

    /// Returns the token as one line of text. The line contains the secret.
    pub(crate) fn to_text(&self) -> Zeroizing<String> {
        let mut bytes = Zeroizing::new(Vec::with_capacity(512));
        bytes.push(u8::try_from(self.addresses.len()).expect("a token has at most 8 addresses"));
        for address in &self.addresses {
            bytes.push(u8::try_from(address.len()).expect("an address has at most 255 bytes"));
            bytes.extend_from_slice(address.as_bytes());
        }
        bytes.extend_from_slice(&self.pin);
        bytes.extend_from_slice(self.secret.as_ref());
        let checksum = checksum(&bytes);
        bytes.extend_from_slice(&checksum);
        let mut text = Zeroizing::new(String::with_capacity(1_024));
        text.push_str(PREFIX);
        BASE64URL_NOPAD.encode_append(&bytes, &mut text);
        text
    }

    /// Describes the token for people, in several lines, without its secret.
    pub(crate) fn describe(&self) -> String {
        let addresses = self.addresses.join(", ");
        format!("controller: {addresses}\ncertificate: {}\nsecret: not shown\n", HEXLOWER.encode(&self.pin))
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Token(for {})", self.addresses.join(", "))
    }
}

impl FromStr for Token {
    type Err = TokenError;

    fn from_str(text: &str) -> Result<Self, TokenError> {
        let text = text.trim();
        let body = text.strip_prefix(PREFIX).ok_or_else(|| other_prefix(text))?;
        let bytes = Zeroizing::new(decode(body)?);
        let mut rest = TokenReader(&bytes);
        let count = rest.byte()?;
        let mut addresses = Vec::new();
        for _ in 0..count {
            let length = usize::from(rest.byte()?);
            addresses.push(String::from_utf8_lossy(rest.read_bytes(length)?).into_owned());
        }
        let pin = rest.array()?;
        let mut secret = rest.array()?;
        let covered = bytes.len() - rest.0.len();
        let found = rest.array::<CHECKSUM_BYTES>()?;
        if !rest.0.is_empty() {
            return Err(TokenError::TooLong);
        }
        if found != checksum(&bytes[..covered]) {
            return Err(TokenError::WrongChecksum);
        }
        let token = Self::new(addresses, pin, secret);
        secret.zeroize();
        token
    }
}

/// Reader of a token's bytes, of which the remaining ones are stored.
struct TokenReader<'a>(&'a [u8]);

impl<'a> TokenReader<'a> {
    fn read_bytes(&mut self, count: usize) -> Result<&'a [u8], TokenError> {
        let (bytes, rest) = self.0.split_at_checked(count).ok_or(TokenError::CutOff)?;
        self.0 = rest;
        Ok(bytes)
    }

    fn byte(&mut self) -> Result<u8, TokenError> {
        self.array::<1>().map(|[byte]| byte)
    }

    fn array<const BYTES: usize>(&mut self) -> Result<[u8; BYTES], TokenError> {
        let bytes = self.read_bytes(BYTES)?;
        Ok(bytes.try_into().expect("`read_bytes` returns as many bytes"))
    }
}

fn other_prefix(text: &str) -> TokenError {
    if PREFIX.starts_with(text) && !text.is_empty() {
        return TokenError::CutOff;
    }
    let version =
        text.strip_prefix("byway").and_then(|rest| rest.split_once('.')).map(|(version, _)| version);
    match version {
        Some(version) if !version.is_empty() && version.bytes().all(|byte| byte.is_ascii_digit()) => {
            TokenError::OtherVersion { version: version.to_owned() }
        }
        _ => TokenError::NoToken,
    }
}

fn decode(body: &str) -> Result<Vec<u8>, TokenError> {
    BASE64URL_NOPAD.decode(body.as_bytes()).map_err(|error| match error.kind {
        DecodeKind::Length | DecodeKind::Trailing => TokenError::CutOff,
        DecodeKind::Symbol | DecodeKind::Padding => {
            // The position is in bytes, and the text before it is ASCII.
            TokenError::Mistyped { position: PREFIX.len() + error.position + 1 }
        }
    })
}

fn checksum(bytes: &[u8]) -> [u8; CHECKSUM_BYTES] {
    let hash = digest(&SHA256, bytes);
    hash.as_ref()[..CHECKSUM_BYTES].try_into().expect("SHA-256 has 32 bytes")
}

fn is_address(text: &str) -> bool {
    let Some((host, port)) = text.rsplit_once(':') else {
        return false;
    };
    let is_host = !host.is_empty() && host.bytes().all(|byte| byte.is_ascii_graphic());
    is_host && text.len() <= ADDRESS_BYTES_MAX && port.parse::<u16>().is_ok_and(|port| port != 0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn token() -> Token {
        let addresses = vec!["controller.example.net:4443".to_owned(), "[2001:db8::1]:4443".to_owned()];
        Token::new(addresses, [7; 32], [9; 32]).expect("good addresses")
    }

    fn error(text: &str) -> TokenError {
        text.parse::<Token>().expect_err("no token")
    }

    #[test]
    fn a_token_is_read_as_it_is_written() {
        let text = token().to_text();
        assert!(text.starts_with("byway1."), "{}", *text);
        assert_eq!(text.parse(), Ok(token()));
        assert_eq!(format!(" {}\n", *text).parse(), Ok(token()));
    }

    #[test]
    fn a_token_that_is_cut_off_anywhere_is_said_to_be() {
        let text = token().to_text();
        for length in 1..text.len() {
            assert_eq!(error(&text[..length]), TokenError::CutOff, "{length}");
        }
    }

    #[test]
    fn what_is_wrong_is_said() {
        let text = token().to_text();
        assert_eq!(error(""), TokenError::NoToken);
        assert_eq!(error("hunter2"), TokenError::NoToken);
        assert_eq!(error("byway.abc"), TokenError::NoToken);
        assert_eq!(error("byway2.abc"), TokenError::OtherVersion { version: "2".to_owned() });
        assert_eq!(error(&text.replacen('.', ".!", 1)), TokenError::Mistyped { position: 8 });
        assert_eq!(error(&format!("{}AAAA", *text)), TokenError::TooLong);
    }

    #[test]
    fn addresses_are_host_and_port() {
        let new = |address: &str| Token::new(vec![address.to_owned()], [0; 32], [0; 32]);
        for address in ["a:1", "192.0.2.1:65535", "[::1]:4443"] {
            assert!(new(address).is_ok(), "{address}");
        }
        for address in
            ["", "host", "host:", ":1", "host:0", "host:65536", "a b:1", &format!("{}:1", "a".repeat(254))]
        {
            assert_eq!(new(address), Err(TokenError::BadAddress { address: address.to_owned() }));
        }
        assert_eq!(Token::new(vec![], [0; 32], [0; 32]), Err(TokenError::NoAddress));
        let many = vec!["a:1".to_owned(); 9];
        assert_eq!(Token::new(many, [0; 32], [0; 32]), Err(TokenError::TooManyAddresses { count: 9 }));
    }

    #[test]
    fn the_secret_is_not_shown() {
        let secret = token().secret_text();
        assert_eq!(secret.len(), 64);
        for shown in [token().describe(), format!("{:?}", token())] {
            assert!(!shown.contains(secret.as_str()) && shown.contains("example.net"), "{shown}");
        }
    }

    proptest! {
        #[test]
        fn a_mistyped_character_never_passes(position in 7_usize..150, character in "[0-9A-Za-z_-]") {
            let text = token().to_text();
            let position = position.min(text.len() - 1);
            prop_assume!(text[position..=position] != character);
            let mut mistyped = text.to_string();
            mistyped.replace_range(position..=position, &character);
            prop_assert!(mistyped.parse::<Token>().is_err());
        }

        #[test]
        fn no_text_makes_it_panic(text in "(byway1\\.)?[ -~é]{0,200}") {
            let _ = text.parse::<Token>();
        }
    }
}
