#!/usr/bin/env python3
"""Prints the test vectors of Byway's block code: an implementation of block-code.md made to be read, not to be fast."""


def multiply(a, b):
    product = 0
    while b:
        if b & 1:
            product ^= a
        a <<= 1
        if a & 0x100:
            a ^= 0x11D
        b >>= 1
    return product


INVERSE = {a: b for a in range(1, 256) for b in range(1, 256) if multiply(a, b) == 1}


def coefficient(row, column):
    return multiply(255 ^ column, INVERSE[(255 - row) ^ column])


def repair(sources, row):
    total = bytearray(2 + max(map(len, sources)))
    for column, source in enumerate(sources):
        for place, byte in enumerate(len(source).to_bytes(2, "big") + source):
            total[place] ^= multiply(coefficient(row, column), byte)
    return total[:2].hex(), total[2:].hex() or "-"


def print_batch(name, sources, repairs):
    print(f"\nbatch {name}")
    for source in sources:
        print("source", source.hex() or "-")
    for row in range(repairs):
        print("repair", row, *repair(sources, row))


print("""# Test vectors of Byway's block code; docs/block-code.md defines every term.
#
#   coefficients ROW HEX              the coefficients of repair packet ROW for source packets 0 to 31
#   batch NAME                        begins a batch
#   source HEX                        its next source packet ("-": an empty packet)
#   repair INDEX LENGTH-SYMBOL HEX    one of its repair packets: two bytes of length column, then the payload
""")
for row in range(8):
    print("coefficients", row, bytes(coefficient(row, column) for column in range(32)).hex())

print_batch("one-packet", [b"\x01"], 2)
print_batch("empty-packets", [b"", b""], 1)
print_batch("words", [b"the path", b"", b"goes dark", b"for seconds"], 3)
print_batch("length-over-a-byte", [bytes((7 * n + 1) & 255 for n in range(300)), b"\xff" * 2], 2)
print_batch("ten-and-two", [bytes((17 * j + 3 * n + 5) & 255 for n in range(40)) for j in range(10)], 2)
print_batch("largest", [bytes((j * j + 11 * n) & 255 for n in range(8 + j % 3)) for j in range(32)], 8)
