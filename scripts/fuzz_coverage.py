#!/usr/bin/env python3
"""A row of docs/fuzzing.md: the lines and regions of Byway's core that one target's corpus reaches.

Usage: llvm-cov export --summary-only ... | scripts/fuzz_coverage.py TARGET
"""

import json
import re
import sys

# Tests measure themselves, the ciphers of a fuzzing build are stand-ins, and one machine has few of the engines.
UNMEASURED = re.compile(r"/tests?/|/tests\.rs$|/seal/primitives/|/engines/")

PARTS = ["code", "wire", "proto/agent", "proto/relay", "proto/session", "proto/parts", "state", "view"]


def part_of(path):
    """The part of the core that a file belongs to, or None."""
    match = re.search(r"/crates/(code|wire|proto|state|view)/src/(\w+)", path)
    if match is None or UNMEASURED.search(path):
        return None
    part = f"proto/{match[2]}" if match[1] == "proto" else match[1]
    return part if part in PARTS else None


def cell(lines, regions):
    if lines[1] == 0:
        return "-"
    return " / ".join(f"{100 * covered / count:.0f} %" for covered, count in (lines, regions))


def main():
    totals = {part: {"lines": [0, 0], "regions": [0, 0]} for part in PARTS}
    for file in json.load(sys.stdin)["data"][0]["files"]:
        part = part_of(file["filename"])
        for kind, total in totals.get(part, {}).items():
            total[0] += file["summary"][kind]["covered"]
            total[1] += file["summary"][kind]["count"]
    cells = [cell(total["lines"], total["regions"]) for total in totals.values()]
    print(f"| {sys.argv[1]} | {' | '.join(cells)} |")


main()
