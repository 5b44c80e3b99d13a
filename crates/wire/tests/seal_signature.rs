//! Statements verify only with the key of their signer.

use byway_wire::seal::{BadSignature, HexError, SigningKey, Statement, VerifyingKey, VerifyingKeyError};

const FIELDS: &[u8] = &[7; 109];

fn signer() -> SigningKey {
    SigningKey::from_seed(&[1; 32])
}

#[test]
fn a_signature_is_of_one_key_one_statement_and_its_fields() {
    let signature = signer().sign(Statement::Grant, FIELDS);
    let key = signer().verifying_key();
    assert_eq!(key.verify(Statement::Grant, FIELDS, &signature), Ok(()));
    assert_eq!(key.verify(Statement::Credential, FIELDS, &signature), Err(BadSignature));
    assert_eq!(key.verify(Statement::Grant, &FIELDS[1..], &signature), Err(BadSignature));
    let other = SigningKey::from_seed(&[2; 32]).verifying_key();
    assert_eq!(other.verify(Statement::Grant, FIELDS, &signature), Err(BadSignature));
}

#[test]
fn a_changed_bit_is_refused() {
    let signature = signer().sign(Statement::Credential, FIELDS);
    let key = signer().verifying_key();
    for bit in 0..8 * signature.len() {
        let mut wrong = signature;
        wrong[bit / 8] ^= 1 << (bit % 8);
        assert_eq!(key.verify(Statement::Credential, FIELDS, &wrong), Err(BadSignature), "bit {bit}");
    }
    for bit in 0..8 * FIELDS.len() {
        let mut wrong = FIELDS.to_vec();
        wrong[bit / 8] ^= 1 << (bit % 8);
        assert_eq!(key.verify(Statement::Credential, &wrong, &signature), Err(BadSignature), "bit {bit}");
    }
}

#[test]
fn a_key_survives_being_written_and_read() {
    let key = signer().verifying_key();
    assert_eq!(key.to_string().parse(), Ok(key));
    assert_eq!(VerifyingKey::from_bytes(key.bytes()), Ok(key));
    let short = key.to_string()[1..].parse::<VerifyingKey>();
    assert_eq!(short, Err(VerifyingKeyError::Hex(HexError::WrongLength { digits: 63 })));
}

#[test]
fn the_seed_is_not_shown() {
    let shown = format!("{:?}", SigningKey::from_seed(&[0x5A; 32]));
    assert!(!shown.contains("5a5a5a") && shown.starts_with("SigningKey(of "), "{shown}");
}
