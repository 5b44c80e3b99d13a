//! Tokens: what a node has to be told to join a network, in one line.
//!
//! `byway1.` and, in Base64 for URLs (RFC 4648, section 5), `count[1]`, then count times `length[1] ‖ address`, the SHA-256 of
//! the controller's public key, the secret, and the first four bytes of the SHA-256 of all that.

use std::fmt;
use std::str::FromStr;

use aws_lc_rs::digest::{SHA256, digest};
use data_encoding::{BASE64URL_NOPAD, DecodeKind, HEXLOWER};
use thiserror::Error;
use zeroize::{Zeroize, Zeroizing};

const PREFIX: &str = "byway1.";
const CHECKSUM_BYTES: usize = 4;

/// Most addresses of a controller: a name for each of its families, and spares.
const ADDRESSES_MAX: usize = 8;

/// Longest address: a name of the domain name system, a colon and a port.
const ADDRESS_BYTES_MAX: usize = 255;

/// Why a text is no token.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub(crate) enum TokenError {
    /// It begins otherwise.
    #[error("this is no token: a token begins with `{PREFIX}`; make one with `byway token create`")]
    NoToken,
    /// It is of another version of the format.
    #[error(
        "the token is of version {version}, and this program reads version 1: use a newer program, or make a token anew"
    )]
    OtherVersion {
        /// Which.
        version: String,
    },
    /// Something that is no character of a token.
    #[error("character {place} of the token is none that tokens have: copy the token anew")]
    Mistyped {
        /// Which, from 1.
        place: usize,
    },
    /// Its end is missing.
    #[error("the token is cut off: copy all of it, it is one line")]
    CutOff,
    /// It goes on behind its end.
    #[error("something follows the token: copy the token alone")]
    TooLong,
    /// All characters are possible, but not together.
    #[error("a character of the token is wrong: copy the token anew instead of typing it")]
    WrongChecksum,
    /// It says what no token says.
    #[error(
        "the token names no controller: make another with `byway token create`, and set `addresses` of [controller] before"
    )]
    NoAddress,
    /// An address is none.
    #[error(
        "\"{address}\" is no address of a controller: write it as host:port, with at most {ADDRESS_BYTES_MAX} bytes"
    )]
    BadAddress {
        /// Which.
        address: String,
    },
    /// More than a token has room for.
    #[error("{count} addresses are too many for a token: name at most {ADDRESSES_MAX}")]
    TooManyAddresses {
        /// How many.
        count: usize,
    },
}

/// Where a controller is, how to know it, and a secret that it lets in with.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Token {
    addresses: Vec<String>,
    pin: [u8; 32],
    secret: Zeroizing<[u8; 32]>,
}

impl Token {
    /// A token for a controller at these addresses, each `host:port`, whose certificate has a public key with this SHA-256.
    ///
    /// # Errors
    /// If an address is none, or there are none or too many.
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

    /// Where the controller is: `host:port`.
    pub(crate) fn addresses(&self) -> &[String] {
        &self.addresses
    }

    /// The SHA-256 of the `SubjectPublicKeyInfo` of its certificate.
    pub(crate) const fn pin(&self) -> &[u8; 32] {
        &self.pin
    }

    /// What is shown to the controller, 64 hexadecimal digits.
    pub(crate) fn secret_text(&self) -> Zeroizing<String> {
        Zeroizing::new(HEXLOWER.encode(self.secret.as_ref()))
    }

    /// The token in one line. A secret.
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

    /// What may be shown of it, over several lines.
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
        let mut rest = Rest(&bytes);
        let count = rest.byte()?;
        let mut addresses = Vec::new();
        for _ in 0..count {
            let length = usize::from(rest.byte()?);
            addresses.push(String::from_utf8_lossy(rest.take(length)?).into_owned());
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

/// What has not been read yet.
struct Rest<'a>(&'a [u8]);

impl<'a> Rest<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8], TokenError> {
        let (taken, rest) = self.0.split_at_checked(count).ok_or(TokenError::CutOff)?;
        self.0 = rest;
        Ok(taken)
    }

    fn byte(&mut self) -> Result<u8, TokenError> {
        self.array::<1>().map(|[byte]| byte)
    }

    fn array<const BYTES: usize>(&mut self) -> Result<[u8; BYTES], TokenError> {
        let taken = self.take(BYTES)?;
        Ok(taken.try_into().expect("as many were taken"))
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
            // The place is counted in bytes, and what is before it is ASCII.
            TokenError::Mistyped { place: PREFIX.len() + error.position + 1 }
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
        assert_eq!(error(&text.replacen('.', ".!", 1)), TokenError::Mistyped { place: 8 });
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
        fn a_mistyped_character_never_passes(place in 7_usize..150, character in "[0-9A-Za-z_-]") {
            let text = token().to_text();
            let place = place.min(text.len() - 1);
            prop_assume!(text[place..=place] != character);
            let mut mistyped = text.to_string();
            mistyped.replace_range(place..=place, &character);
            prop_assert!(mistyped.parse::<Token>().is_err());
        }

        #[test]
        fn no_text_makes_it_panic(text in "(byway1\\.)?[ -~é]{0,200}") {
            let _ = text.parse::<Token>();
        }
    }
}
