/*
 * Example: a call of 50 marked packets a second to a peer, with reports of its true loss and its
 * repairs. Build it in the root of the repository:
 *
 *   cargo build --release -p byway-client-c
 *   cc -Wall -o call crates/client-c/examples/call.c -Icrates/client-c/include target/release/libbyway_client_c.a -lpthread -ldl -lm
 *
 *   ./call network.txt alice alice.key bob    # calls Bob's "call" for ten seconds; a last argument sets the seconds
 *
 * docs/client.md has a network for it. Its file has lines such as
 *
 *   relay east 1 <public key> 127.0.0.1:4600
 *   agent alice 1 <public key> 127.0.0.1:4610 east
 *   pair alice bob
 */

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "byway.h"

#define PACKETS_PER_SECOND 50
#define SECOND_NS UINT64_C(1000000000)

/* Exits if a call failed. */
static void check(byway_error error, const char *what) {
  if (error != BYWAY_ERROR_OK) {
    fprintf(stderr, "%s: %s: %s\n", what, byway_error_text(error), byway_last_error());
    exit(1);
  }
}

static void give_up(const char *what) {
  fprintf(stderr, "%s\n", what);
  exit(1);
}

/* Reads the network, and writes the address of the agent `own` to `listen`. */
static void read_network(const char *path, const char *own, byway_network *network, char listen[128]) {
  char line[512], name[64], other[64], key[65], address[128], relay[64];
  unsigned number;
  FILE *file = fopen(path, "r");
  if (file == NULL) give_up("the network's file cannot be read");
  strcpy(listen, "0.0.0.0:0");
  while (fgets(line, sizeof line, file) != NULL) {
    if (sscanf(line, "relay %63s %u %64s %127s", name, &number, key, address) == 4) {
      check(byway_network_add_relay(network, name, number, key, address, 1), line);
    } else if (sscanf(line, "agent %63s %u %64s %127s %63s", name, &number, key, address, relay) == 5) {
      check(byway_network_add_agent(network, name, number, key, address, relay), line);
      if (strcmp(name, own) == 0) strcpy(listen, address);
    } else if (sscanf(line, "pair %63s %63s", name, other) == 2) {
      check(byway_network_add_pair(network, name, other, 1), line);
    } else {
      give_up("the network's file has a line that is none");
    }
  }
  fclose(file);
}

static void read_bytes(const char *path, void *bytes, size_t most, size_t least) {
  FILE *file = fopen(path, "rb");
  size_t length = file == NULL ? 0 : fread(bytes, 1, most, file);
  if (file != NULL) fclose(file);
  if (length < least) {
    fprintf(stderr, "%s has too few bytes, or cannot be read\n", path);
    exit(1);
  }
}

static uint64_t now(byway_client *client) {
  uint64_t now_ns;
  check(byway_client_now(client, &now_ns), "the time");
  return now_ns;
}

/* Steps until this event, or until end_ns if the event is 0. Returns the number of datagrams delivered. */
static unsigned wait_for(byway_client *client, int32_t event, uint64_t end_ns) {
  unsigned came = 0;
  for (;;) {
    uint64_t at = now(client);
    byway_output output;
    if (event == 0 && at >= end_ns) return came;
    check(byway_client_step(client, event == 0 ? (end_ns - at + 999) / 1000 : 1000000), "waiting");
    for (;;) {
      check(byway_client_poll(client, &output), "what came");
      if (output.kind == BYWAY_OUTPUT_NONE) break;
      if (output.kind == BYWAY_OUTPUT_DELIVERED) came++;
      if (output.kind != BYWAY_OUTPUT_EVENT) continue;
      if (output.event == BYWAY_EVENT_REFUSED) give_up("the peer refused the flows: it exposes no \"call\" to this agent");
      if (output.event == event) return came;
    }
  }
}

/* Names of BYWAY_SERVICE_... */
static const char *const SERVICES[] = {"automatic", "internet", "coding", "caching", "forwarding", "both", "pull", "retransmission"};

static void print_report(byway_client *client, uint64_t flow, unsigned sent, unsigned back) {
  byway_report report;
  check(byway_client_report(client, flow, &report), "the report");
  if (!report.has_sent) return;
  printf("%s: sent %u, lost %" PRIu64 " (%.2f %%), repaired %" PRIu64 ", late %" PRIu64 "; echoed %u, %" PRIu64 " of them repaired\n",
         SERVICES[report.service], sent, report.sent_lost, (double)report.sent_lost_per_million / 10000, report.sent_repaired, report.sent_late, back,
         report.received_repaired);
  fflush(stdout);
}

static void call(byway_client *client, const char *peer, unsigned seconds) {
  /* Packets are useful for 150 ms, so later repairs are pointless. */
  byway_registration wanted = {.latency_budget_us = 150000};
  uint8_t packet[160] = {0};
  uint64_t flow, begun, next_report;
  unsigned sent, back = 0;

  wait_for(client, BYWAY_EVENT_PEER_ESTABLISHED, 0);
  check(byway_client_register(client, peer, "call", &wanted, 0, &flow), "the registration");
  wait_for(client, BYWAY_EVENT_ACCEPTED, 0);

  begun = now(client);
  next_report = begun + SECOND_NS;
  for (sent = 0; sent < seconds * PACKETS_PER_SECOND;) {
    memcpy(packet, &sent, sizeof sent);
    check(byway_client_send(client, flow, packet, sizeof packet, 1, 0), "sending");
    sent++;
    back += wait_for(client, 0, begun + sent * (SECOND_NS / PACKETS_PER_SECOND));
    if (now(client) >= next_report) {
      next_report += SECOND_NS;
      print_report(client, flow, sent, back);
    }
  }
  /* The peer's last report arrives within a second. */
  back += wait_for(client, 0, now(client) + SECOND_NS);
  print_report(client, flow, sent, back);
  check(byway_client_leave(client, 0), "leaving");
  wait_for(client, BYWAY_EVENT_LEFT, 0);
}

int main(int count, char **arguments) {
  char secret[128] = {0}, listen[128];
  uint8_t seed[32];
  byway_network *network;
  byway_client *client;
  if (count != 5 && count != 6) give_up("say: call NETWORK-FILE NAME KEY-FILE PEER [SECONDS]");

  check(byway_network_new(&network), "the network");
  read_network(arguments[1], arguments[2], network, listen);
  read_bytes(arguments[3], secret, sizeof secret - 1, 64);
  read_bytes("/dev/urandom", seed, sizeof seed, sizeof seed);
  check(byway_client_open(network, arguments[2], secret, seed, listen, &client), "the client");
  byway_network_free(network);

  call(client, arguments[4], count == 6 ? (unsigned)strtoul(arguments[5], NULL, 10) : 10);
  byway_client_free(client);
  return 0;
}
