#!/usr/bin/env python3
"""Prints the test vectors of Byway's cryptography: an implementation of wire.md made to be read, not to be fast or safe.

It needs the package `cryptography`, for the ciphers and the curve only."""

import hmac
from hashlib import blake2s
from ipaddress import ip_address

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM, ChaCha20Poly1305
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

CIPHERS = {1: AESGCM, 2: ChaCha20Poly1305}
CIPHER_NAMES = {1: "AESGCM", 2: "ChaChaPoly"}
NOISE_NUMBERS = {1: "big", 2: "little"}


def number(value, length):
    return value.to_bytes(length, "big")


def show(name, value):
    print(name, value.hex() or "-")


# --- primitives ---------------------------------------------------------------------------------------------


def public(secret):
    return X25519PrivateKey.from_private_bytes(secret).public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)


def agree(secret, key):
    return X25519PrivateKey.from_private_bytes(secret).exchange(X25519PublicKey.from_public_bytes(key))


def mac(key, data):
    return blake2s(data, key=key, digest_size=16).digest()


def siphash(key, data, compression, finalization):
    """SipHash-c-d, lowest byte first, from the paper."""

    def rounds(v, count):
        def rotate(x, bits):
            return (x << bits | x >> (64 - bits)) & (2**64 - 1)

        for _ in range(count):
            for a, b, bits in ((0, 1, 13), (2, 3, 16)):
                v[a] = (v[a] + v[b]) % 2**64
                v[b] = rotate(v[b], bits) ^ v[a]
            v[0] = rotate(v[0], 32)
            for a, b, bits in ((2, 1, 17), (0, 3, 21)):
                v[a] = (v[a] + v[b]) % 2**64
                v[b] = rotate(v[b], bits) ^ v[a]
            v[2] = rotate(v[2], 32)

    k0, k1 = (int.from_bytes(half, "little") for half in (key[:8], key[8:]))
    v = [k0 ^ 0x736F6D6570736575, k1 ^ 0x646F72616E646F6D, k0 ^ 0x6C7967656E657261, k1 ^ 0x7465646279746573]
    padded = data + bytes(7 - len(data) % 8) + bytes([len(data) % 256])
    for start in range(0, len(padded), 8):
        word = int.from_bytes(padded[start : start + 8], "little")
        v[3] ^= word
        rounds(v, compression)
        v[0] ^= word
    v[2] ^= 0xFF
    rounds(v, finalization)
    return (v[0] ^ v[1] ^ v[2] ^ v[3]).to_bytes(8, "little")


assert siphash(bytes(range(16)), bytes(range(15)), 2, 4).hex() == "e545be4961ca29a1", "the paper's vector"


# --- Noise_IKpsk2, section 5 of the Noise specification -----------------------------------------------------


class Symmetric:
    def __init__(self, suite, prologue):
        name = f"Noise_IKpsk2_25519_{CIPHER_NAMES[suite]}_BLAKE2s".encode()
        self.suite = suite
        self.h = blake2s(name).digest() if len(name) > 32 else name.ljust(32, b"\0")
        self.ck = self.h
        self.mix_hash(prologue)

    def hkdf(self, material, outputs):
        temporary = hmac.digest(self.ck, material, "blake2s")
        output, all_outputs = b"", []
        for place in range(1, outputs + 1):
            output = hmac.digest(temporary, output + bytes([place]), "blake2s")
            all_outputs.append(output)
        return all_outputs

    def mix_hash(self, data):
        self.h = blake2s(self.h + data).digest()

    def mix_key(self, material):
        self.ck, self.k = self.hkdf(material, 2)
        self.n = 0

    def mix_key_and_hash(self, material):
        self.ck, middle, self.k = self.hkdf(material, 3)
        self.mix_hash(middle)
        self.n = 0

    def encrypt_and_hash(self, plaintext):
        nonce = bytes(4) + self.n.to_bytes(8, NOISE_NUMBERS[self.suite])
        sealed = CIPHERS[self.suite](self.k).encrypt(nonce, plaintext, self.h)
        self.n += 1
        self.mix_hash(sealed)
        return sealed


def handshake(suite, prologue, initiator, initiator_ephemeral, responder, responder_ephemeral, psk, payloads):
    """Both messages and both keys. Who computes an agreement makes no difference, so each is computed once."""
    state = Symmetric(suite, prologue)
    state.mix_hash(public(responder))

    first = public(initiator_ephemeral)
    state.mix_hash(first)
    state.mix_key(first)  # "e" in a handshake with a pre-shared key
    state.mix_key(agree(initiator_ephemeral, public(responder)))  # es
    first += state.encrypt_and_hash(public(initiator))  # s
    state.mix_key(agree(initiator, public(responder)))  # ss
    first += state.encrypt_and_hash(payloads[0])

    second = public(responder_ephemeral)
    state.mix_hash(second)
    state.mix_key(second)
    state.mix_key(agree(responder_ephemeral, public(initiator_ephemeral)))  # ee
    state.mix_key(agree(responder_ephemeral, public(initiator)))  # se
    state.mix_key_and_hash(psk)
    second += state.encrypt_and_hash(payloads[1])
    return first, second, *state.hkdf(b"", 2)


# --- Byway ---------------------------------------------------------------------------------------------------


def secret(first):
    return bytes((first + 5 * n) % 256 for n in range(32))


def print_handshake(name, suite, purpose, shard, psk, messages):
    print(f"\nhandshake {name}")
    initiator, initiator_seed, responder, responder_seed = secret(1), secret(2), secret(3), secret(4)
    indices = number(0xA1A2A3A4, 4), number(0x03B2B3B4, 4)
    timestamp, incarnations, epoch = number(1_700_000_000_123_456_789, 8), (secret(5)[:8], secret(6)[:8]), number(7, 1)
    show("suite", number(suite, 1))
    show("purpose", number(purpose, 1))
    show("shard", number(shard, 1))
    show("psk", psk)
    show("initiator-secret", initiator)
    show("initiator-key", public(initiator))
    show("initiator-seed", initiator_seed)
    show("initiator-index", indices[0])
    show("initiator-capabilities", number(1, 2))
    show("initiator-incarnation", incarnations[0])
    show("initiator-messages", messages[0])
    show("responder-secret", responder)
    show("responder-key", public(responder))
    show("responder-seed", responder_seed)
    show("responder-index", indices[1])
    show("responder-capabilities", number(1, 2))
    show("responder-incarnation", incarnations[1])
    show("responder-messages", messages[1])
    show("handshake-timestamp", timestamp)
    show("epoch", epoch)

    header = bytes([4, 1, purpose, suite, shard, 0]) + number(1, 2) + indices[0]
    payloads = timestamp + incarnations[0] + epoch + messages[0], indices[1] + number(1, 2) + incarnations[1] + messages[1]
    first, second, forth, back = handshake(
        suite, b"byway" + header, initiator, initiator_seed, responder, responder_seed, psk, payloads
    )
    mac1 = mac(blake2s(b"byway mac1" + public(responder)).digest(), header + first)
    show("initiation", header + first + mac1 + bytes(16))
    print_cookie(suite, public(responder), indices[0], header + first + mac1)
    show("response", bytes([5, 0, 0, 0]) + indices[0] + second)
    show("initiator-to-responder", forth)
    show("responder-to-initiator", back)
    print_packets(CIPHERS[suite](forth), indices[1])
    digest_key = blake2s(b"byway digest", key=forth).digest()
    digest = siphash(digest_key[:16], bytes(range(1, 10)), 1, 3)[:4]
    show("digest-of-alias-0102-number-03040506-coded-070809", digest)


def print_cookie(suite, responder_key, index, until_mac2):
    jar_secret, salt = secret(7), secret(8)[:16]
    address = number(int(ip_address("::ffff:203.0.113.9")), 16) + number(40_000, 2)
    cookie = mac(jar_secret, address)
    key = blake2s(b"byway cookie" + responder_key + salt).digest()
    show("cookie-secret", jar_secret)
    show("cookie-salt", salt)
    show("cookie-address", address)
    sealed = CIPHERS[suite](key).encrypt(bytes(12), cookie, until_mac2[-16:])
    show("cookie", bytes([6, 0, 0, 0]) + index + salt + sealed)
    show("initiation-with-cookie", until_mac2 + mac(cookie, until_mac2))


def print_packets(cipher, index):
    """Of the initiator: its first source packet of flow 258 past 2^32, a message packet and an envelope."""
    flow, sequence_number, flags = number(258, 2), number(0x1_0000_0002, 8), b"\x03"
    plaintext = number(123_456, 4) + b"\x02" + b"the path goes dark"
    associated = flow + sequence_number[4:] + flags
    coded = flags + cipher.encrypt(bytes(2) + flow + sequence_number, plaintext, associated)
    show("source-plaintext", plaintext)
    show("source-packet", b"\x07" + index + flow + sequence_number[4:] + coded)

    counter = number(0x2_0000_0001, 8)
    header = b"\x08" + index + counter[4:]
    probe = number(1, 4) + number(123_456, 4) + number(80_000, 4)
    messages = bytes([32]) + number(len(probe), 2) + probe
    show("message-plaintext", messages)
    show("message-packet", header + cipher.encrypt(bytes([0, 1, 0, 0]) + counter, messages, header))

    counter = number(0x2_0000_0002, 8)
    envelope = b"\x09\x00" + index + counter[4:] + number(0x1234, 2) + sequence_number[4:] + coded
    assert envelope[16:] == coded
    show("envelope", envelope + cipher.encrypt(bytes([0, 1, 0, 0]) + counter, b"", envelope))


def print_signed(name, seed, fields):
    print(f"\nsigned {name}")
    key = Ed25519PrivateKey.from_private_bytes(seed)
    show("seed", seed)
    show("key", key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw))
    show("fields", fields)
    show("signature", key.sign(f"byway {name}".encode() + fields))


def main():
    print("""# Test vectors of Byway's cryptography; docs/wire.md defines every term.
#
# Each line is a name and bytes in hexadecimal ("-": none). Numbers are big-endian.
#
#   handshake NAME    begins a handshake: what goes in, both packets, both keys, and packets of the initiator:
#                     a source packet of flow 0102 with sequence number 0000000100000002, a message packet with
#                     counter 0000000200000001, an envelope of the source packet with counter 0000000200000002
#   signed NAME       begins a statement of that name and its signature""")
    print_handshake("plain", 1, 2, 3, bytes(32), (b"", b""))
    print_handshake("with-pre-shared-key", 2, 1, 0, secret(9), (bytes([37, 0, 1, 0]), bytes([240, 0, 2, 5, 6])))

    keys = public(secret(1)) + public(secret(3))
    grant = bytes([1, 0b1111, 1, 3, 4]) + number(256, 2) + number(511, 2)
    grant += b"".join(number(field, 4) for field in (1, 2, 17, 18, 5, 6, 100_000)) + number(1_800_000_000, 8) + keys
    assert len(grant) + 64 == 173
    print_signed("grant", secret(10), grant)
    credential = bytes([1, 2]) + number(17, 4) + number(1_800_000_000, 8) + public(secret(3))
    assert len(credential) + 64 == 110
    print_signed("credential", secret(11), credential)
    print_signed("map", secret(12), b'{"revision":1,"relays":[],"agents":[],"pairings":[]}')


if __name__ == "__main__":
    main()
