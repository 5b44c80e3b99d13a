//! The ciphers in Rust, for WebAssembly, for tests, and for machines without a faster provider.

use alloc::boxed::Box;

use super::aead::{PacketKey, Provider};
use super::primitives;
use crate::limits::KEY_BYTES;
use crate::packets::Suite;

/// The provider that runs on every processor.
///
/// It uses the processor's AES instructions if the operating system reports them.
#[derive(Clone, Copy, Debug, Default)]
pub struct PortableProvider;

impl Provider for PortableProvider {
    fn key(&self, suite: Suite, key: &[u8; KEY_BYTES]) -> Box<dyn PacketKey> {
        primitives::packet_key(suite, key)
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::super::aead::{ForgeryError, Nonce};
    use super::super::hex::vector;
    use super::*;
    use crate::limits::TAG_BYTES;

    struct KnownAnswer {
        suite: Suite,
        key: &'static str,
        nonce: &'static str,
        associated: &'static str,
        plaintext: &'static str,
        ciphertext: &'static str,
        tag: &'static str,
    }

    const ZEROS: &str = "0000000000000000000000000000000000000000000000000000000000000000";

    /// Test cases 13, 14 and 16 of "The Galois/Counter Mode of Operation", and section 2.8.2 of
    /// RFC 8439.
    const KNOWN: [KnownAnswer; 4] = [
        KnownAnswer {
            suite: Suite::Aes256Gcm,
            key: ZEROS,
            nonce: "000000000000000000000000",
            associated: "",
            plaintext: "",
            ciphertext: "",
            tag: "530f8afbc74536b9a963b4f1c4cb738b",
        },
        KnownAnswer {
            suite: Suite::Aes256Gcm,
            key: ZEROS,
            nonce: "000000000000000000000000",
            associated: "",
            plaintext: "00000000000000000000000000000000",
            ciphertext: "cea7403d4d606b6e074ec5d3baf39d18",
            tag: "d0d1c8a799996bf0265b98b5d48ab919",
        },
        KnownAnswer {
            suite: Suite::Aes256Gcm,
            key: "feffe9928665731c6d6a8f9467308308feffe9928665731c6d6a8f9467308308",
            nonce: "cafebabefacedbaddecaf888",
            associated: "feedfacedeadbeeffeedfacedeadbeefabaddad2",
            plaintext: "d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a72\
                        1c3c0c95956809532fcf0e2449a6b525b16aedf5aa0de657ba637b39",
            ciphertext: "522dc1f099567d07f47f37a32a84427d643a8cdcbfe5c0c97598a2bd2555d1aa\
                         8cb08e48590dbb3da7b08b1056828838c5f61e6393ba7a0abcc9f662",
            tag: "76fc6ece0f4e1768cddf8853bb2d551b",
        },
        KnownAnswer {
            suite: Suite::ChaCha20Poly1305,
            key: "808182838485868788898a8b8c8d8e8f909192939495969798999a9b9c9d9e9f",
            nonce: "070000004041424344454647",
            associated: "50515253c0c1c2c3c4c5c6c7",
            plaintext: "4c616469657320616e642047656e746c656d656e206f662074686520636c6173\
                        73206f66202739393a204966204920636f756c64206f6666657220796f75206f\
                        6e6c79206f6e652074697020666f7220746865206675747572652c2073756e73\
                        637265656e20776f756c642062652069742e",
            ciphertext: "d31a8d34648e60db7b86afbc53ef7ec2a4aded51296e08fea9e2b5a736ee62d6\
                         3dbea45e8ca9671282fafb69da92728b1a71de0a9e060b2905d6a5b67ecd3b36\
                         92ddbd7f2d778b8c9803aee328091b58fab324e4fad675945585808b4831d7bc\
                         3ff4def08e4b7a9de576d26586cec64b6116",
            tag: "1ae10b594f09e26a7e902ecbd0600691",
        },
    ];

    impl KnownAnswer {
        fn packet_key(&self) -> Box<dyn PacketKey> {
            PortableProvider.key(self.suite, &vector(self.key).try_into().expect("keys have 32 bytes"))
        }

        fn nonce(&self) -> Nonce {
            Nonce::from_bytes(vector(self.nonce).try_into().expect("nonces have 12 bytes"))
        }
    }

    #[test]
    fn sealing_gives_the_published_bytes() {
        for known in KNOWN {
            let mut in_out = vector(known.plaintext);
            let tag = known.packet_key().seal(&known.nonce(), &vector(known.associated), &mut in_out);
            assert_eq!(in_out, vector(known.ciphertext));
            assert_eq!(tag.as_slice(), vector(known.tag));
        }
    }

    #[test]
    fn the_published_bytes_open_and_nothing_beside_them() {
        for known in KNOWN {
            let (key, nonce, associated) = (known.packet_key(), known.nonce(), vector(known.associated));
            let tag: [u8; TAG_BYTES] = vector(known.tag).try_into().expect("tags have 16 bytes");
            let mut in_out = vector(known.ciphertext);
            assert_eq!(key.open(&nonce, &associated, &mut in_out, &tag), Ok(()));
            assert_eq!(in_out, vector(known.plaintext));
            for bit in 0..8 * TAG_BYTES {
                let mut wrong = tag;
                wrong[bit / 8] ^= 1 << (bit % 8);
                assert_eq!(
                    key.open(&nonce, &associated, &mut vector(known.ciphertext), &wrong),
                    Err(ForgeryError)
                );
            }
            let longer: Vec<u8> = associated.iter().copied().chain([0]).collect();
            assert_eq!(key.open(&nonce, &longer, &mut vector(known.ciphertext), &tag), Err(ForgeryError));
        }
    }
}
