#!/usr/bin/env python3
"""Measures new client ports: each asks one question and waits for one answer, at a fixed rate.

Starts two relays and two agents on the loopback in static mode, an echo as what is exposed, and a client that takes a new
port for each question. Prints the share that was answered, delays, and of both agents the resident memory, mappings and
counters before, on the way and after.

  scripts/measure_ports.py target/release/byway --ports 10000 --rate 50

With --silent, nothing answers: a flood of ports, from which the agents' memory is of interest.
"""

import argparse
import json
import pathlib
import select
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request

NETWORK = "127.77.3"
COUNTERS = ("proxy_evicted_unanswered", "proxy_evicted_answered", "proxy_evicted_idle", "proxy_evicted_share",
            "proxy_mappings_refused", "proxy_mappings_full", "proxy_peer_mappings_full",
            "proxy_pending_stale", "proxy_unsolicited", "flows_unknown", "registrations_refused")


def at(host, port):
    return f"{NETWORK}.{host}:{port}"


def keygen(byway, folder, name):
    made = subprocess.run([byway, "keygen", str(folder / f"{name}.key"), "--json"], check=True, capture_output=True)
    return json.loads(made.stdout)["public_key"]


def network(byway, folder):
    text = ""
    for number, relay in ((1, "east"), (2, "west")):
        text += (f'[[network.relays]]\nname = "{relay}"\nnumber = {number}\nkey = "{keygen(byway, folder, relay)}"\n'
                 f'addresses = ["{at(number, 4600)}"]\n')
    for number, agent, relay in ((1, "alice", "east"), (2, "bob", "west")):
        text += (f'[[network.agents]]\nname = "{agent}"\nnumber = {number}\nkey = "{keygen(byway, folder, agent)}"\n'
                 f'addresses = ["{at(10 + number, 4600)}"]\nrelays = ["{relay}"]\n')
    return text + '[[network.pairs]]\nagents = ["alice", "bob"]\n'


def start(byway, folder, nodes, role, name, host, rest):
    text = (f'[{role}]\nname = "{name}"\nkey_file = "{folder / name}.key"\nstate = "{folder / name}"\n'
            f'listen = ["{at(host, 4600)}"]\n[observe]\nlisten = "{at(host, 4680)}"\n{rest}')
    file = folder / f"{name}.toml"
    file.write_text(text)
    log = open(folder / f"{name}.log", "w")
    nodes[name] = (subprocess.Popen([byway, role, "--config", str(file)], stderr=log, stdout=log), host)


def status(host):
    with urllib.request.urlopen(f"http://{at(host, 4680)}/v1/status", timeout=10) as answer:
        return json.load(answer)


def wait_until(is_so, patience=30):
    end = time.monotonic() + patience
    while time.monotonic() < end:
        try:
            if is_so():
                return
        except OSError:
            pass
        time.sleep(0.05)
    sys.exit("the nodes are not ready in time: see their logs")


def resident_kib(process):
    for line in pathlib.Path(f"/proc/{process.pid}/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1])
    return 0


def cpu_seconds(process):
    fields = pathlib.Path(f"/proc/{process.pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / 100


def look(nodes, when):
    for name, (process, host) in nodes.items():
        said = status(host)
        counted = {c["reason"]: c["count"] for c in said.get("counters", []) + said.get("drops", [])}
        shown = {key: counted[key] for key in COUNTERS if counted.get(key)}
        paths = [path for mapping in said.get("mappings", []) for path in mapping["paths"]]
        accepted = sum(path["state"] == "accepted" for path in paths)
        sockets = len(list(pathlib.Path(f"/proc/{process.pid}/fd").iterdir()))
        print(f"{when:>8} {name:>5}: {resident_kib(process):7} KiB, {len(said.get('mappings', [])):5} mappings, "
              f"{accepted} of {len(paths)} paths accepted, {sockets} files, {cpu_seconds(process):.1f} s of CPU, {shown}", flush=True)


def echo(is_silent):
    target = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    target.bind((f"{NETWORK}.20", 7))
    def serve():
        while True:
            datagram, asker = target.recvfrom(2048)
            if not is_silent:
                target.sendto(datagram, asker)
    threading.Thread(target=serve, daemon=True).start()


def ask(arguments, looks):
    """Asks from ports that differ, one after another; an answer counts within two seconds."""
    begun, waiting, delays, number = time.monotonic(), {}, [], 0
    poller = select.epoll()
    while number < arguments.ports or waiting:
        now = time.monotonic()
        due = begun + number / arguments.rate
        if number < arguments.ports and now >= due:
            asker = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            host, port = 30 + number // 50_000, 10_000 + number % 50_000
            asker.bind((f"{NETWORK}.{host}", port))
            asker.sendto(number.to_bytes(4, "big"), (f"{NETWORK}.11", 5000))
            poller.register(asker, select.EPOLLIN)
            waiting[asker.fileno()] = (asker, number, now)
            number += 1
            if number % looks == 0:
                yield number
            continue
        for descriptor, _ in poller.poll(max(min(due - now, 0.05), 0) if number < arguments.ports else 0.05):
            asker, which, asked = waiting.pop(descriptor)
            if asker.recv(64) == which.to_bytes(4, "big"):
                delays.append(time.monotonic() - asked)
            poller.unregister(asker)
            asker.close()
        for descriptor in [d for d, (_, _, asked) in waiting.items() if time.monotonic() - asked > 2]:
            asker = waiting.pop(descriptor)[0]
            poller.unregister(asker)
            asker.close()
    delays.sort()
    share = len(delays) / arguments.ports
    middle, last = (delays[len(delays) // 2], delays[len(delays) * 99 // 100]) if delays else (0, 0)
    print(f"answered: {len(delays)} of {arguments.ports} ({share:.4%}) at {arguments.rate}/s in {time.monotonic() - begun:.0f} s, "
          f"median {middle * 1000:.1f} ms, p99 {last * 1000:.1f} ms", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("byway", help="the program, as built")
    parser.add_argument("--ports", type=int, default=10_000, help="how many new ports ask [default: 10000]")
    parser.add_argument("--rate", type=float, default=50, help="how many a second [default: 50]")
    parser.add_argument("--service", default="caching", help="the forward's service [default: caching]")
    parser.add_argument("--silent", action="store_true", help="nothing answers")
    parser.add_argument("--settings", default="", help="more lines of both agents' files, such as '[mappings]\\nmax = 100'")
    arguments = parser.parse_args()
    nodes = {}
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        try:
            rest = network(arguments.byway, folder) + arguments.settings.replace("\\n", "\n")
            echo(arguments.silent)
            for number, relay in ((1, "east"), (2, "west")):
                start(arguments.byway, folder, nodes, "relay", relay, number, rest)
            exposed = f'[[expose]]\nname = "echo"\ntarget = "{at(20, 7)}"\n'
            forward = f'[[forward]]\nlisten = "{at(11, 5000)}"\npeer = "bob"\nto = "echo"\nservice = "{arguments.service}"\n'
            start(arguments.byway, folder, nodes, "agent", "bob", 12, exposed + rest)
            start(arguments.byway, folder, nodes, "agent", "alice", 11, forward + rest)
            wait_until(lambda: status(11)["peers"][0]["is_alive"])
            look(nodes, "before")
            for asked in ask(arguments, max(arguments.ports // 5, 1)):
                look(nodes, str(asked))
            look(nodes, "after")
            for agent in ("alice", "bob"):
                said = [line for line in (folder / f"{agent}.log").read_text().splitlines() if "WARN" in line or "ERROR" in line]
                print(f"{agent}: {len(said)} warnings and errors", *said[:5], sep="\n  ")
        finally:
            for process, _ in nodes.values():
                process.terminate()
            for process, _ in nodes.values():
                process.wait()


if __name__ == "__main__":
    main()
