#!/usr/bin/env python3
"""Prints the test vectors of Byway's wire format.

wire.md, written down a second time: every vector is a list of bytes and of what they say. None of Byway's code is used.
"""

from ipaddress import ip_address

HEADER = """# Test vectors of Byway's wire format; docs/wire.md defines every term.
#
#   packet KIND HEX       a packet
#   message NAME HEX      a message with its type and length
#   part NAME HEX         something else that has a format of its own
#   field NAME VALUE      what the line above says, field by field ("-": nothing, or no bytes)
#   accepted NAME HEX     a message that receivers read although no sender writes it; its fields follow
#   refused THING HEX     a packet, message or part that is not legal; the comment says why
#
# Ciphertexts, keys, tags and signatures are placeholders unless a section says otherwise."""


# --- parts: bytes, and the lines that say what they mean ----------------------------------------------------


def number(name, width, value):
    return value.to_bytes(width, "big"), [f"{name} {value}"]


def data(name, value):
    return value, [f"{name} {value.hex() or '-'}"]


def word(name, words, value):
    return bytes([words[value]]), [f"{name} {value}"]


def flag_bits(*named):
    """Flags of one byte, the first in bit 0; `None` for a bit that says nothing."""
    byte = sum(1 << bit for bit, flag in enumerate(named) if flag and flag[1])
    return bytes([byte]), [f"{flag[0]} {'yes' if flag[1] else 'no'}" for flag in named if flag]


def silent(value):
    return value, []


def ranges(*pairs):
    encoded = b"".join(first.to_bytes(4, "big") + length.to_bytes(2, "big") for first, length in pairs)
    return bytes([len(pairs)]) + encoded, [f"range {first} {length}" for first, length in pairs]


def address(name, ip, port):
    ip = ip_address(ip)
    return bytes([ip.version]) + ip.packed + port.to_bytes(2, "big"), [f"{name} {ip} {port}"]


def flow_key(sender, receiver, flow):
    kind, receiver_number = receiver
    on_wire = receiver_number | (1 << 31 if kind == "group" else 0)
    encoded = sender.to_bytes(4, "big") + on_wire.to_bytes(4, "big") + flow.to_bytes(2, "big")
    return encoded, [f"flow-key {sender} {kind} {receiver_number} {flow}"]


def repair_index(index, count):
    return bytes([index << 4 | count]), [f"repair-index {index} {count}"]


def fill(start, length):
    """Bytes that are easy to tell apart."""
    return bytes((start + 7 * position) & 0xFF for position in range(length))


# --- printing -----------------------------------------------------------------------------------------------


def section(title):
    print(f"\n# {title}")


def join(parts):
    return b"".join(encoded for encoded, _ in parts)


def print_vector(directive, name, encoded, parts):
    print(f"\n{directive} {name} {encoded.hex() or '-'}")
    for _, lines in parts:
        for line in lines:
            print("field", line)


def packet(kind, *parts):
    print_vector("packet", kind, join(parts), parts)


def part(name, *parts):
    print_vector("part", name, join(parts), parts)


def framed(message_type, body):
    return bytes([message_type]) + len(body).to_bytes(2, "big") + body


def message(name, *parts, directive="message"):
    print_vector(directive, name, framed(TYPES[name], join(parts)), parts)


def accepted(name, *parts):
    message(name, *parts, directive="accepted")


def refused(thing, encoded, why):
    print(f"\n# {why}\nrefused {thing} {encoded.hex() or '-'}")


def refused_changes(thing, right, *wrongs):
    """Refuses the bytes with another value at one position each."""
    for position, value, why in wrongs:
        refused(thing, right[:position] + bytes([value]) + right[position + 1 :], why)


def refused_message(name, why, *parts):
    refused("message", framed(TYPES[name], join(parts)), why)


# --- the tables of wire.md ----------------------------------------------------------------------------------

TYPES = {name: int(code) for name, code in (one.split(":") for one in """
    register:1 register-reply:2 aliases:3 aliases-reply:4 unregister:5 unregister-reply:6 offer:7 offer-reply:8
    early-packet:9 in-stream-repair:16 cross-stream-repair:17 nack:18 copy-nack:19 ack:20 cooperative-request:21
    cooperative-refusal:22 confirm:23 report:24 silence:26 source-nack:27 source-ack:28 service-change:29
    service-change-reply:30 loss-report:31 probe:32 probe-reply:33 path-challenge:34 path-response:35 relayed-packet:36 candidates:37
    close:38 inter-relay-packet:39 transit-request:40 transit-reply:41 unknown:250""".split())}
PURPOSES = {"end-to-end": 1, "agent-to-relay": 2, "relay-to-relay": 3}
SUITES = {"aes-256-gcm": 1, "chacha20-poly1305": 2}
ENVELOPE_ROLES = {"copy": 0, "resent-copy": 1, "relayed-copy": 2, "forwarded": 3, "cached-repair": 4,
                  "cooperative-repair": 5, "cooperative-answer": 6, "resent-repair": 8, "relayed-resend": 9}
FLOW_ROLES = {"sender": 1, "receiver": 2}
SERVICES = {"internet": 0, "coding": 1, "caching": 2, "forwarding": 3, "both": 4, "pull": 5, "retransmission": 6}
REPORTED = ("highest-low direct lost in-stream cooperative cached forwarded late bursts longest-burst delay-p50 delay-p95 "
            "delay-p99 resent").split()
STATUSES = {name: code for code, name in enumerate(
    "accepted no-grant grant-expired grant-invalid other-relay service-not-granted full unreachable".split())}
OFFER_OPTIONS = ["congestion-controlled", "relay-side-duplication", "sender-makes-repairs", "selective", None,
                 "coded-with-other-tenants", "mixture", "automatic-service"]
OFFER_STATUSES = {name: code for code, name in enumerate(
    "accepted unknown-subject not-allowed full not-yet number-in-use not-here".split())}
REASONS = {"leaving": 0, "restarting": 1, "no-longer-granted": 2}
FRAGMENTS = ["whole", "first", "second", "resent"]
ECN = ["not-capable", "capable1", "capable0", "congestion-experienced"]


def alias(value):
    return number("alias", 2, value)


def source_flags(epoch, fragment, ignored=0):
    byte = epoch & 3 | FRAGMENTS.index(fragment) << 2 | ignored
    return bytes([byte]), [f"flags {byte}", f"epoch-low-bits {epoch & 3}", f"fragment {fragment}"]


# --- packets ------------------------------------------------------------------------------------------------


def source_packet(index, flow, sequence_low, flags, sealed):
    return [silent(b"\x07"), number("receiver", 4, index), number("flow", 2, flow),
            number("sequence-low", 4, sequence_low), flags, data("sealed", sealed)]


def envelope(role, index, counter_low, number_of_alias, sequence_low, coded, tag):
    return [silent(b"\x09"), word("role", ENVELOPE_ROLES, role), number("receiver", 4, index),
            number("counter-low", 4, counter_low), alias(number_of_alias),
            number("sequence-low", 4, sequence_low), data("coded", coded), data("tag", tag)]


def initiation(purpose, suite, shard, capabilities, index, payload, mac2):
    reserved = silent(b"\x00")
    return [silent(b"\x04\x01"), word("purpose", PURPOSES, purpose), word("suite", SUITES, suite),
            number("shard", 1, shard), reserved, number("capabilities", 2, capabilities),
            number("sender", 4, index), data("ephemeral", fill(1, 32)), data("sealed-static", fill(2, 48)),
            data("sealed-payload", payload), data("mac1", fill(3, 16)), data("mac2", mac2)]


def response(index, payload):
    return [silent(b"\x05\0\0\0"), number("receiver", 4, index), data("ephemeral", fill(4, 32)), data("sealed-payload", payload)]


def cookie(index):
    return [silent(b"\x06\0\0\0"), number("receiver", 4, index), data("salt", fill(5, 16)),
            data("cookie", fill(6, 16)), data("tag", fill(7, 16))]


def print_packets():
    section("Packets")
    packet("source", *source_packet(0x01020304, 0x0506, 0x0708090A, source_flags(6, "whole"), fill(0, 21)))
    packet("source", *source_packet(2**32 - 1, 65535, 2**32 - 1, source_flags(255, "first"), fill(9, 40)))
    packet("source", *source_packet(0, 0, 0, source_flags(0, "second", 0xF0), fill(1, 22)))
    packet("source", *source_packet(1, 2, 3, source_flags(1, "resent"), fill(1, 27)))
    for role in ENVELOPE_ROLES:
        packet("envelope", *envelope(role, 0x0A0B0C0D, 0x0E0F1011, 0x1213, 0x14151617, fill(8, 22), fill(9, 16)))
    packet("envelope", *envelope("copy", 0, 0, 1, 0, fill(0, 99), fill(1, 16)))
    packet("message", silent(b"\x08"), number("receiver", 4, 0x21222324), number("counter-low", 4, 0x25262728), data("sealed", fill(2, 16)))
    packet("message", silent(b"\x08"), number("receiver", 4, 1), number("counter-low", 4, 2**32 - 1), data("sealed", fill(3, 50)))
    for index in (number("receiver", 4, 0x017F0203), (b"\x04\xff\xab\xcd", ["label 127", "check abcd"])):
        for kind, code, behind in (("transit-message", b"\x0a", 0), ("transit-envelope", b"\x0b\x02", 28)):
            packet(kind, silent(code), index, number("counter-low", 4, 2**32 - 2), silent(fill(1, behind)), data("tag", fill(2, 16)))
    packet("initiation", *initiation("end-to-end", "aes-256-gcm", 0, 0, 0x31323334, fill(4, 33), bytes(16)))
    packet("initiation", *initiation("agent-to-relay", "chacha20-poly1305", 7, 0, 1, fill(5, 50), fill(6, 16)))
    packet("initiation", *initiation("relay-to-relay", "aes-256-gcm", 255, 1, 2, fill(7, 34), fill(8, 16)))
    packet("response", *response(0x41424344, fill(9, 30)))
    packet("response", *response(5, fill(10, 77)))
    packet("cookie", *cookie(0x51525354))


def print_refused_packets():
    section("Packets that are not legal")
    refused("packet", b"", "nothing at all")
    refused("packet", b"\x0c" + bytes(40), "a reserved kind")
    refused("packet", b"\x0f" + fill(0, 20), "grease")
    refused("packet", join(source_packet(1, 2, 3, source_flags(0, "whole"), fill(0, 20))), "a byte too short")
    refused("packet", join(envelope("copy", 1, 2, 3, 4, fill(0, 21), fill(1, 16))), "coded bytes too short")
    refused("packet", join(envelope("copy", 1, 2, 0, 4, fill(0, 22), fill(1, 16))), "alias 0")
    right = join(envelope("copy", 1, 2, 3, 4, fill(0, 22), fill(1, 16)))
    refused_changes("packet", right, (1, 7, "a role that there is not"))
    refused("packet", b"\x08" + bytes(23), "a message packet without room for its tag")
    refused("packet", b"\x0a" + bytes(23), "a transit message packet without room for its tag")
    refused("packet", b"\x0b" + bytes(52), "a transit envelope with coded bytes too short")
    right = join(initiation("end-to-end", "aes-256-gcm", 0, 0, 1, fill(4, 33), bytes(16)))
    refused("packet", right[:-1], "an initiation a byte too short")
    refused_changes("packet", right, (1, 2, "version 2"), (2, 0, "purpose 0"), (2, 4, "purpose 4"), (3, 3, "suite 3"))
    refused("packet", join(response(5, fill(10, 29))), "a response a byte too short")
    refused("packet", join(cookie(5))[:-1], "a cookie a byte too short")
    refused("packet", join(cookie(5)) + b"\0", "a cookie a byte too long")


# --- what is inside packets, and other parts ----------------------------------------------------------------


def print_insides():
    section("What is inside packets")
    for ecn, unprotected, datagram in [("not-capable", 0, b""), ("congestion-experienced", 0b100101, fill(3, 12))]:
        marks = bytes([unprotected << 2 | ECN.index(ecn)]), [f"ecn {ecn}", f"unprotected {unprotected}"]
        part("plaintext", number("sent", 4, 0x61626364), marks, data("datagram", datagram))
    part("plaintext-with-dscp", number("sent", 4, 5), marks, number("dscp", 1, 46), data("datagram", fill(3, 12)))
    part("coded", source_flags(2, "first"), data("sealed", fill(11, 21)))
    part("associated-data", number("flow", 2, 0x7172), number("sequence-low", 4, 0x73747576), source_flags(3, "second", 0x10))
    part("initiation-payload", number("handshake-timestamp", 8, 1_700_000_000_123_456_789), number("incarnation", 8, 0x8182838485868788),
         number("epoch", 1, 200), data("messages", framed(20, b"\0\x01\0\0\0\x02")))
    part("response-payload", number("index", 4, 0x91929394), number("capabilities", 2, 1),
         number("incarnation", 8, 5), data("messages", b""))
    refused("plaintext", bytes(4), "no marks")
    refused("coded", b"\x00" + bytes(20), "a byte too short")
    refused("initiation-payload", bytes(16), "no epoch")
    refused("response-payload", bytes(13), "half an incarnation")


def mapped(ip, port):
    ip = ip_address(ip)
    octets = ip.packed if ip.version == 6 else bytes(10) + b"\xff\xff" + ip.packed
    return octets + port.to_bytes(2, "big"), [f"address {ip} {port}"]


def grant_fields(receiver, sharing, receiver_key):
    kind, receiver_number = receiver
    on_wire = receiver_number | (1 << 31 if kind == "group" else 0)
    return [silent(b"\x01"), number("services", 1, 0b10110), number("sharing", 1, sharing),
            number("ingress-shard", 1, 3), number("egress-shard", 1, 255), number("first-flow", 2, 0x0102),
            number("last-flow", 2, 0x0304), number("sender", 4, 0x05060708),
            (on_wire.to_bytes(4, "big"), [f"receiver {kind} {receiver_number}"]),
            number("ingress-relay", 4, 0x090A0B0C), number("egress-relay", 4, 0xFFFFFFFF),
            number("coding-group", 4, 0x0D0E0F10), number("tenant", 4, 0x11121314),
            number("rate", 4, 10_000), number("not-after", 8, 1_800_000_000),
            data("sender-key", fill(1, 32)), data("receiver-key", receiver_key)]


def credential_fields(role, member):
    return [silent(b"\x01"), word("role", {"agent": 1, "relay": 2}, role), number("number", 4, member),
            number("not-after", 8, 1_900_000_000), data("key", fill(3, 32))]


def print_signed(name, fields):
    part(name, *fields, data("signature", fill(13, 64)))


def print_other_parts():
    section("Addresses, grants, credentials")
    part("mapped-address", mapped("192.0.2.7", 0x1234))
    part("mapped-address", mapped("2001:db8::7", 65535))
    print_signed("grant", grant_fields(("agent", 7), 0, fill(2, 32)))
    print_signed("grant", grant_fields(("group", 8), 1, bytes(32)))
    print_signed("credential", credential_fields("agent", 0x7FFFFFFF))
    print_signed("credential", credential_fields("relay", 0xFFFFFFFF))

    right = join(grant_fields(("agent", 7), 0, fill(2, 32))) + fill(13, 64)
    refused("grant", right[:-1], "a byte too short")
    refused("grant", right + b"\0", "a byte too long")
    refused_changes("grant", right, (0, 2, "version 2"), (2, 2, "sharing 2"), (7, 0, "the last flow before the first"),
                    (9, 0x80, "a sender that is no agent"))
    right = join(credential_fields("agent", 7)) + fill(13, 64)
    refused("credential", right[:-1], "a byte too short")
    refused("credential", right + b"\0", "a byte too long")
    refused_changes("credential", right, (0, 0, "version 0"), (1, 3, "role 3"), (2, 0x80, "a number of no agent"))


# --- messages -----------------------------------------------------------------------------------------------

UNICAST = flow_key(0x01020304, ("agent", 0x05060708), 0x090A)
MULTICAST = flow_key(0x7FFFFFFF, ("group", 5), 65535)


def block_shape(name, shape):
    return bytes(shape), [f"{name} {shape[0]} {shape[1]}" if any(shape) else f"{name} -"]


def far_relay(relay, shard):
    return relay.to_bytes(4, "big") + bytes([shard]), [f"far-relay {relay} {shard}" if relay else "far-relay -"]


def register(key, role, service, shapes, options, rate, budget, consent, far, grant, revised=(b"", ["revision -"])):
    in_stream, batch = shapes
    burst, average, seconds = consent
    consent_bytes = bytes([burst]) + average.to_bytes(2, "big") + bytes([seconds])
    names = ["relay-side-duplication", "sender-makes-repairs", "coded-with-other-tenants", "selective", "adaptive-redundancy"]
    return [key, word("role", FLOW_ROLES, role), word("service", SERVICES, service),
            block_shape("in-stream", in_stream), block_shape("batch", batch),
            flag_bits(*[(name, name in options) for name in names]),
            number("rate", 4, rate), number("budget", 4, budget),
            (consent_bytes, [f"consent {burst} {average} {seconds}"]),
            far_relay(*far), silent(len(grant).to_bytes(2, "big")), data("grant", grant), revised]


def terms(service, in_stream, batch, options, rate, budget):
    return [word("service", SERVICES, service), block_shape("in-stream", in_stream), block_shape("batch", batch),
            flag_bits(*[name and (name, name in options) for name in OFFER_OPTIONS]), number("rate", 4, rate), number("budget", 4, budget)]


def offer(flow, forth, back, subject):
    return [number("flow", 2, flow), *forth, *back, silent(bytes([len(subject)])), data("subject", subject)]


VIDEO = terms("coding", (16, 1), (8, 2), ["selective", "mixture"], 4_000, 200_000)
NOTHING = terms("internet", (0, 0), (0, 0), [], 0, 0)


def early_packet(flow, sequence, fragment, waited, sent, ecn, unprotected, datagram, *dscp):
    marks = bytes([unprotected << 2 | ecn]), [f"ecn {ecn}", f"unprotected {unprotected}"]
    fragment = bytes([FRAGMENTS.index(fragment) + 64 * len(dscp)]), [f"fragment {fragment}"]
    return [number("flow", 2, flow), number("sequence", 8, sequence), fragment, number("waited", 4, waited),
            number("sent", 4, sent), marks, *(number("dscp", 1, value) for value in dscp), data("datagram", datagram)]


def print_offers():
    section("Messages of offers")
    message("offer", *offer(0x0102, VIDEO, NOTHING, b"video\x01\x02\x03\x04"))
    for option in filter(None, OFFER_OPTIONS):
        back = terms("both", (32, 8), (32, 8), [option], 2**32 - 1, 2**32 - 1)
        message("offer", *offer(65535, NOTHING, back, b""))
    message("offer", *offer(0, VIDEO, VIDEO, fill(1, 255)))
    for bits in (1, 2, 3):
        limits = [number(name, 4, value) for _ in range(bits.bit_count()) for name, value in (("acceptable", 50_000), ("gain", 10_000))]
        message("offer", *offer(2, VIDEO, NOTHING, b"game"), silent(bytes([bits])), *limits)
    for status in OFFER_STATUSES:
        message("offer-reply", number("flow", 2, 0x0304), word("status", OFFER_STATUSES, status))
    message("early-packet", *early_packet(0x0102, 1, "whole", 60_000, 0x03040506, 0, 0, b"first"))
    message("early-packet", *early_packet(65535, 2**64 - 2, "first", 2**32 - 1, 2**32 - 1, 3, 63, fill(1, 30)))
    message("early-packet", *early_packet(65535, 2**64 - 1, "second", 0, 0, 2, 1, b"", 46))


def selective(value, ignored=0):
    byte, fields = flag_bits(None, None, None, ("selective", value), ("adaptive-redundancy", value))
    return bytes([byte[0] | ignored]), fields


def print_registration():
    section("Messages of registration")
    message("register", *register(UNICAST, "sender", "both", ((5, 1), (10, 2)), ["sender-makes-repairs", "selective", "adaptive-redundancy"],
            10_000, 150_000, (0, 0, 0), (0x0D0E0F10, 4), join(grant_fields(("agent", 7), 0, fill(2, 32))) + fill(13, 64)))
    message("register", *register(MULTICAST, "receiver", "internet", ((0, 0), (0, 0)), [], 0, 0, (25, 100, 10), (7, 0), b"", number("revision", 1, 0)))
    message("register", *register(UNICAST, "receiver", "coding", ((32, 8), (32, 8)), ["relay-side-duplication",
            "coded-with-other-tenants"], 2**32 - 1, 2**32 - 1, (255, 65535, 255), (2**32 - 1, 255), b"\x2a", number("revision", 1, 255)))
    for status in STATUSES:
        value = 513 if status == "accepted" else 0
        outcome = bytes([STATUSES[status]]) + value.to_bytes(2, "big"), [f"status {status}", f"alias {value or '-'}"]
        activity = (b"\x05\x07", ["group-activity 5 7"]) if status == "accepted" else (b"", ["group-activity -"])
        answer = [UNICAST, word("role", FLOW_ROLES, "sender"), far_relay(0x0D0E0F10, 4), outcome, number("revision", 1, 7)]
        message("register-reply", *answer, number("far-round-trip", 4, 81_000), activity)
    message("aliases", silent(b"\x00"))
    message("aliases", silent(b"\x02"), alias(0x0102), UNICAST, word("service", SERVICES, "caching"), selective(False), number("rate", 4, 5_000),
            alias(65535), MULTICAST, word("service", SERVICES, "forwarding"), selective(True), number("rate", 4, 0))
    known = [silent(b"\x02"), alias(0x0102), number("known", 1, 1), alias(7), number("known", 1, 0)]
    message("aliases-reply", *known)
    message("aliases-reply", *known, number("network", 4, 0x01020304), number("network", 4, 0))
    message("unregister", MULTICAST, word("role", FLOW_ROLES, "receiver"), far_relay(0, 0))
    message("unregister", UNICAST, word("role", FLOW_ROLES, "sender"), far_relay(0x0D0E0F10, 4))
    message("unregister-reply", UNICAST, word("role", FLOW_ROLES, "sender"), far_relay(1, 0))


def in_stream_repair(number_of_alias, first, offsets, at, payload):
    mask = sum(1 << offset for offset in offsets)
    return [alias(number_of_alias), number("first-low", 4, first), number("mask", 4, mask), repair_index(*at),
            data("length-symbol", b"\x02\x58"), data("payload", payload)]


def cross_stream_repair(batch, at, entries, digests, payload):
    cover = bytes([len(entries) | (0x80 if digests else 0)]), []
    encoded = b"".join(a.to_bytes(2, "big") + s.to_bytes(4, "big") for a, s in entries)
    return [number("batch", 4, batch), repair_index(*at), cover, data("length-symbol", b"\xab\xcd"),
            (encoded, [f"entry {a} {s}" for a, s in entries]),
            (b"".join(digests), [f"digest {digest.hex()}" for digest in digests]), data("payload", payload)]


def nack(number_of_alias, open_from, timer, answers, repair_lifetime, *pairs, queue_grows=False):
    flags, fields = flag_bits(None, ("noticed-by-timer", timer), ("answers-confirm", answers), ("queue-grows", queue_grows))
    opened = [f"open-from-low {'-' if open_from is None else open_from}"]
    return [alias(number_of_alias), (bytes([flags[0] | (open_from is not None)]), fields),
            ((open_from or 0).to_bytes(4, "big"), opened), number("repair-lifetime", 4, repair_lifetime), ranges(*pairs)]


def flow_losses(number_of_alias, is_open, queue_grows, *losses):
    counts = b"".join(count.to_bytes(2, "big", signed=True) for count in losses)
    return [alias(number_of_alias), flag_bits(("open-ended", is_open), ("queue-grows", queue_grows)),
            (counts, [f"losses {' '.join(map(str, losses))}"])]


def print_repair():
    section("Messages of repair")
    message("in-stream-repair", *in_stream_repair(0x0102, 0x03040506, range(5), (0, 1), fill(1, 30)))
    message("in-stream-repair", *in_stream_repair(9, 2**32 - 2, (0, 1, 3, 31), (7, 8), b""))
    entries = [(1, 0x01020304), (2, 2**32 - 1), (65535, 0)]
    message("cross-stream-repair", *cross_stream_repair(0x0708090A, (1, 2), entries, [], fill(2, 25)))
    digests = [fill(start, 4) for start in (1, 2, 3)]
    message("cross-stream-repair", *cross_stream_repair(2**32 - 1, (0, 1), entries, digests, fill(3, 25)))
    most = [(alias_number, 100 + alias_number) for alias_number in range(1, 33)]
    message("cross-stream-repair", *cross_stream_repair(0, (7, 8), most, [fill(n, 4) for n in range(32)], b""))
    message("nack", *nack(0x0102, None, False, False, 25_000, (7, 3), (12, 1)))
    message("nack", *nack(3, 0xFFFFFFFE, True, False, 0))
    message("nack", *nack(4, 2, True, True, 2**32 - 1, (2**32 - 2, 2), (0, 1), (1, 8192)))
    message("nack", *nack(5, None, False, False, 9, (8, 1), queue_grows=True))
    message("copy-nack", alias(5), ranges((0, 1)))
    message("copy-nack", alias(6), ranges(*[(3 * n, 2) for n in range(32)]))
    message("ack", alias(7), number("from-low", 4, 0xA1A2A3A4))
    message("cooperative-request", alias(8), number("repair-lifetime", 4, 30_000), ranges((40, 2), (50, 1)))
    message("cooperative-refusal", alias(9), ranges((41, 1)))
    message("confirm", alias(10), ranges())
    reported = [number(name, 4, 0x01010101 * (n + 1)) for n, name in enumerate(REPORTED)]
    for relays in ([], [(0x01020304, 5, 31_000)], [(2, 0, 2**32 - 1), (3, 0, 0), (4, 255, 1), (5, 1, 7)]):
        trips = [field for relay, shard, trip in relays for field in (far_relay(relay, shard), number("relay-round-trip", 4, trip))]
        message("report", UNICAST, *reported, number("detection", 4, 25_000), silent(bytes([len(relays)])), *trips, number("covered", 4, 0x0C0D0E0F))
    for known in (["direct"], ["relayed"], ["direct", "relayed"]):
        delays = [number(f"{path}-{name}", 4, 2**32 - 3 + n) for path in known for n, name in enumerate(("least", "p95"))]
        paths = silent(bytes([("direct" in known) | ("relayed" in known) << 1]))
        message("report", UNICAST, *reported, number("detection", 4, 25_000), silent(b"\0"), number("covered", 4, 1), paths, *delays)
    message("silence", UNICAST, number("from-low", 4, 0xFFFFFFFE), number("elapsed", 4, 25_000), number("direct", 4, 7))
    message("source-nack", UNICAST, ranges((7, 3), (2**32 - 2, 4)))
    message("source-ack", UNICAST, number("from-low", 4, 7))
    message("service-change", UNICAST, number("number", 1, 255), word("service", SERVICES, "retransmission"))
    message("service-change-reply", UNICAST, number("number", 1, 9))
    message("loss-report", silent(b"\x02"), *flow_losses(0x0102, True, False, 7, 0, -32768, 32767), *flow_losses(65535, False, True, -1, 2, 0, 0))


def print_paths():
    section("Messages of sessions and paths")
    for round_trip in (0, 0x090A0B0C):
        message("probe", number("number", 4, 0x01020304), number("sent", 4, 0x05060708),
                number("round-trip", 4, round_trip))
    for where in [("198.51.100.9", 4500), ("2001:db8::9", 65535)]:
        reply = [number(name, 4, n + 1) for n, name in enumerate(("number", "sent", "received", "envelopes"))]
        for later in ([], [number("long-packets", 4, 0x0A0B0C0D)], [number("long-packets", 4, 0), number("transit-packets", 4, 7)]):
            message("probe-reply", *reply, address("address", *where), *later)
    message("path-challenge", data("token", fill(1, 8)))
    message("path-response", data("token", fill(1, 8)))
    for kind in (4, 5, 6, 8):
        message("relayed-packet", number("agent", 4, 0x01020304), data("packet", bytes([kind]) + fill(2, 9)))
        message("inter-relay-packet", number("from", 4, 0x01020304), number("to", 4, 0x7FFFFFFF),
                data("packet", bytes([kind]) + fill(2, 9)))
    for known in ([], [("192.0.2.1", 1), ("::1", 2), ("203.0.113.3", 65535)]):
        message("candidates", silent(bytes([len(known)])), *[address("address", *one) for one in known])
    for reason in REASONS:
        message("close", word("reason", REASONS, reason))
    message("transit-request", far_relay(0, 0), number("index", 4, 0))
    message("transit-request", far_relay(0x0D0E0F10, 4), number("index", 4, 0x047FFFFF))
    message("transit-reply", far_relay(7, 1), number("index", 4, 5), number("label", 1, 127), number("rate", 4, 1), silent(b"\0"))
    for known in ([], [(1, 0, 31_000), (2**32 - 1, 255, 2**32 - 1)]):
        trips = [field for relay, shard, trip in known for field in (far_relay(relay, shard), number("relay-round-trip", 4, trip))]
        message("transit-reply", far_relay(0, 0), number("index", 4, 0), number("label", 1, 0), number("rate", 4, 9), silent(bytes([len(known)])), *trips)
    message("unknown", (b"", ["type 250"]), data("body", fill(0, 5)))


def print_accepted():
    section("Messages that a later version may send, and bits and fields without a meaning")
    later = silent(fill(0, 3))
    accepted("ack", alias(7), number("from-low", 4, 1), later)
    for names, none, absent in ((REPORTED[:-1], b"", ["resent 0", "detection 0"]), (REPORTED, b"", ["detection 0"]), ([*REPORTED, "detection"], b"\0", [])):
        accepted("report", UNICAST, *[number(name, 4, 1) for name in names], silent(none), (b"", [*absent, "covered 1"]))
    accepted("nack", *nack(1, None, False, False, 5, (7, 3)), later)
    accepted("close", word("reason", REASONS, "leaving"), later)
    accepted("transit-request", far_relay(7, 1), number("index", 4, 5), later)
    accepted("aliases", silent(b"\x01"), alias(7), UNICAST, word("service", SERVICES, "both"), selective(True, 0b1110_0111),
             number("rate", 4, 1), later)
    accepted("aliases-reply", silent(b"\x01"), alias(7), number("known", 1, 0), later)
    options = register(UNICAST, "sender", "both", ((5, 1), (10, 2)), ["selective"], 1, 1, (0, 0, 0), (1, 0), b"")
    options[5] = (bytes([0b1110_1000]), options[5][1])
    accepted("register", *options)
    accepted("offer", *offer(1, VIDEO, NOTHING, b"a"), later)
    accepted("offer-reply", number("flow", 2, 1), word("status", OFFER_STATUSES, "not-yet"), later)
    ignored = nack(1, None, False, True, 5)
    ignored[1] = (bytes([0b1111_0100]), ignored[1][1])
    ignored[2] = (b"\x12\x34\x56\x78", ignored[2][1])
    accepted("nack", *ignored)
    unused_bit = cross_stream_repair(1, (0, 1), [(1, 2)], [], b"\x01")
    unused_bit[2] = (bytes([1 | 0x40]), [])
    accepted("cross-stream-repair", *unused_bit)


def print_refused_messages():
    section("Messages that are not legal")
    refused("message", b"\x14", "type without length")
    refused("message", b"\x14\x00\x06\x00\x01", "a body that is cut off")
    key = register(UNICAST, "sender", "both", ((5, 1), (10, 2)), [], 1, 1, (0, 0, 0), (1, 0), b"")
    for place_of_part, wrong, why in [
        (0, b"\x80" + UNICAST[0][1:], "a sender that is no agent"), (1, b"\0", "role 0"), (1, b"\x03", "role 3"),
        (2, b"\x07", "service 7"), (3, b"\x05\x00", "source packets without repair packets"),
        (3, b"\x00\x01", "repair packets without source packets"), (3, b"\x21\x01", "33 source packets"),
        (4, b"\x0a\x09", "9 repair packets"), (10, b"\x00\x01", "a grant that is cut off"),
    ]:
        refused_message("register", why, *key[:place_of_part], silent(wrong), *key[place_of_part + 1 :])
    role = silent(b"\x01" + bytes(5))
    refused_message("register-reply", "accepted without an alias", UNICAST, role, silent(b"\0\0\0"))
    refused_message("register-reply", "refused with an alias", UNICAST, role, silent(b"\x01\0\x01"))
    refused_message("loss-report", "two flows announced, one there", silent(b"\x02\0\x01\0" + bytes(8)))
    refused_message("report", "five relays", UNICAST, silent(bytes(4 * len(REPORTED) + 4) + b"\5" + bytes(45)))
    refused_message("register-reply", "status 9", UNICAST, role, silent(b"\x09\0\0"))
    refused_message("aliases", "alias 0", silent(b"\x01\0\0"), UNICAST, silent(b"\x01\0\0\0\0\0"))
    refused_message("aliases", "two announced, one there", silent(b"\x02\0\x01"), UNICAST, silent(b"\x01\0\0\0\0\0"))
    refused_message("aliases-reply", "known 2", silent(b"\x01\0\x01\x02"))
    refused_message("unregister", "no role", UNICAST)
    refused_message("unregister", "a far relay that is cut off", UNICAST, silent(b"\x01" + bytes(4)))
    refused_message("unregister-reply", "role 3", UNICAST, silent(b"\x03" + bytes(5)))
    print_refused_offers()
    print_refused_repairs()
    refused_message("relayed-packet", "a source packet", silent(b"\0\0\0\x01\x07"))
    refused_message("relayed-packet", "no packet", silent(b"\0\0\0\x01"))
    refused_message("relayed-packet", "no agent", silent(b"\x80\0\0\x01\x08"))
    refused_message("inter-relay-packet", "an envelope", silent(b"\0\0\0\x01\0\0\0\x02\x09"))
    refused_message("inter-relay-packet", "no packet", silent(b"\0\0\0\x01\0\0\0\x02"))
    refused_message("inter-relay-packet", "to no agent", silent(b"\0\0\0\x01\x80\0\0\x02\x08"))
    refused_message("candidates", "9 addresses", silent(b"\x09"), *[address("", "192.0.2.1", 1)] * 9)
    refused_message("candidates", "family 5", silent(b"\x01\x05\0\0\0\0\0\0"))
    refused_message("probe-reply", "an address that is cut off", silent(bytes(16) + b"\x06" + bytes(17)))
    refused_message("probe", "no round trip", silent(bytes(8)))
    refused_message("path-challenge", "seven bytes", silent(bytes(7)))
    refused_message("close", "reason 3", silent(b"\x03"))
    refused_message("transit-request", "the label of another relay", far_relay(7, 1), silent(b"\x01\x80\0\0"))
    refused_message("transit-reply", "label 128", far_relay(7, 1), silent(bytes(4) + b"\x80" + bytes(5)))
    refused_message("transit-reply", "one relay announced, none there", far_relay(7, 1), silent(bytes(9) + b"\x01"))


def print_refused_offers():
    right = offer(1, VIDEO, NOTHING, b"abc")
    for place_of_part, wrong, why in [
        (1, b"\x07", "service 7 forth"), (7, b"\xff", "service 255 back"), (8, b"\x05\x00", "no repair packets back"),
        (3, b"\x00\x01", "no source packets forth"), (13, b"\x04", "a subject that is cut off"),
    ]:
        refused_message("offer", why, *right[:place_of_part], silent(wrong), *right[place_of_part + 1 :])
    refused_message("offer", "no subject", *right[:13])
    refused_message("offer-reply", "status 7", silent(b"\0\x01\x07"))
    refused_message("offer-reply", "no status", silent(b"\0\x01"))
    early = early_packet(1, 2, "whole", 3, 4, 0, 0, b"")
    refused_message("early-packet", "fragment 3", *early[:2], silent(b"\x03"), *early[3:])
    refused_message("early-packet", "no marks", *early[:5])
    refused_message("early-packet", "a sequence number that is cut off", early[0], silent(bytes(7)))


def print_refused_repairs():
    repair = in_stream_repair(1, 2, (0,), (0, 1), b"\x01")
    refused_message("in-stream-repair", "bit 0 of the mask not set", *repair[:2], silent(b"\0\0\0\x02"), *repair[3:])
    for byte, why in [(0x00, "no repair packets"), (0x11, "the second of one"), (0x09, "nine repair packets")]:
        refused_message("in-stream-repair", why, *repair[:3], silent(bytes([byte])), *repair[4:])
    repair = cross_stream_repair(1, (0, 1), [(1, 2)], [], b"\x01")
    refused_message("cross-stream-repair", "no packets", *repair[:2], silent(b"\0"), *repair[3:])
    refused_message("cross-stream-repair", "33 packets", *repair[:2], silent(b"\x21"), *repair[3:], silent(bytes(250)))
    refused_message("cross-stream-repair", "alias 0", *repair[:4], silent(bytes(6)), repair[6])
    refused_message("cross-stream-repair", "digests that are cut off", *repair[:2], silent(b"\x81"), *repair[3:])
    one = alias(1)
    refused_message("copy-nack", "alias 0", silent(b"\0\0"), ranges((1, 1)))
    refused_message("copy-nack", "33 ranges", one, ranges(*[(2 * n, 1) for n in range(33)]))
    refused_message("copy-nack", "a range that is cut off", one, silent(b"\x01\0\0\0\0\0"))
    refused_message("cooperative-refusal", "an empty range", one, ranges((1, 0)))
    refused_message("cooperative-refusal", "a range too long", one, ranges((1, 8193)))
    refused_message("confirm", "ranges that overlap", one, ranges((5, 2), (6, 1)))
    refused_message("confirm", "the third range before the second", one, ranges((5, 1), (9, 1), (7, 1)))
    refused_message("nack", "ranges that overlap across the wrap", *nack(1, None, False, False, 1, (2**32 - 1, 4), (2, 1)))
    refused_message("nack", "a range that reaches the first again", *nack(1, None, False, False, 1, (10, 1), (9, 2)))


print(HEADER)
for print_part in [print_packets, print_refused_packets, print_insides, print_other_parts, print_registration,
                   print_offers, print_repair, print_paths, print_accepted, print_refused_messages]:
    print_part()
