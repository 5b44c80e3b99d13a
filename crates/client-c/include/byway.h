/*
 * Byway as a library: an agent inside the application, which marks packets, states latency budgets and sees true loss.
 * docs/client.md explains it, and crates/client-c/examples/call.c is a program to begin with.
 *
 * This file is made by cbindgen of crates/client-c/src: change it there.
 *
 * Memory: what a function makes is freed by the function named for it, and by nothing else. What is passed in is read during the
 * call and belongs to the caller. Pointers that come out point into the client, and are good until the next call with it.
 * Threads: a network or a client may be used by one thread at a time, whichever.
 * Errors: each function that can fail gives a byway_error. Null pointers and lengths out of range are errors. A failure inside
 * the library is BYWAY_ERROR_FAILED, and the client is of no use afterwards but to be freed.
 * Texts: UTF-8, ended by a zero byte.
 * Times: in nanoseconds since any start, the same for all calls with one client. They never fall.
 */

#ifndef BYWAY_H
#define BYWAY_H

#include <stddef.h>
#include <stdint.h>

/*
 The cheapest service whose deliveries are expected within the latency budget.
 */
#define BYWAY_SERVICE_BY_BUDGET 0

/*
 The direct path alone.
 */
#define BYWAY_SERVICE_INTERNET 1

/*
 Repair packets.
 */
#define BYWAY_SERVICE_CODING 2

/*
 Repair from copies near the receiver.
 */
#define BYWAY_SERVICE_CACHING 3

/*
 Through relays, and not directly.
 */
#define BYWAY_SERVICE_FORWARDING 4

/*
 Through relays and directly.
 */
#define BYWAY_SERVICE_BOTH 5

/*
 Datagrams whose order does not matter.
 */
#define BYWAY_TRAFFIC_DATAGRAMS 0

/*
 TCP or QUIC.
 */
#define BYWAY_TRAFFIC_CONGESTION_CONTROLLED 1

/*
 Both, and nobody can tell which packets are which.
 */
#define BYWAY_TRAFFIC_MIXTURE 2

/*
 All packets are copied to the relay; of congestion-controlled traffic, those that are marked.
 */
#define BYWAY_COPIES_USUAL 0

/*
 All packets are copied.
 */
#define BYWAY_COPIES_ALL 1

/*
 Packets are copied that are marked.
 */
#define BYWAY_COPIES_MARKED 2

/*
 The relay gets the packets, and sends them on; nothing leaves by the direct path.
 */
#define BYWAY_COPIES_BY_RELAY 3

/*
 The relay gets repair packets instead of copies.
 */
#define BYWAY_COPIES_OWN_REPAIRS 4

/*
 There is nothing more.
 */
#define BYWAY_OUTPUT_NONE 0

/*
 A datagram is to be sent: bytes, length, to, ecn, is_scavenger.
 */
#define BYWAY_OUTPUT_TRANSMIT 1

/*
 A datagram came for the application: flow, bytes, length, delivery.
 */
#define BYWAY_OUTPUT_DELIVERED 2

/*
 Something is to be known: event, and what is said there.
 */
#define BYWAY_OUTPUT_EVENT 3

/*
 It came on the direct path.
 */
#define BYWAY_DELIVERY_DIRECT 0

/*
 It came through relays, unasked.
 */
#define BYWAY_DELIVERY_FORWARDED 1

/*
 It was restored from the flow's own repair packets.
 */
#define BYWAY_DELIVERY_IN_STREAM 2

/*
 It was restored with other receivers' help.
 */
#define BYWAY_DELIVERY_COOPERATIVE 3

/*
 It came from a relay's cache.
 */
#define BYWAY_DELIVERY_CACHED 4

/*
 There is a session with a peer: peer.
 */
#define BYWAY_EVENT_PEER_ESTABLISHED 1

/*
 A peer does not answer: peer.
 */
#define BYWAY_EVENT_PEER_LOST 2

/*
 A peer left: peer.
 */
#define BYWAY_EVENT_PEER_LEFT 3

/*
 The peer takes part in what was registered: flow.
 */
#define BYWAY_EVENT_ACCEPTED 4

/*
 The peer does not take part in what was registered: flow, refusal.
 */
#define BYWAY_EVENT_REFUSED 5

/*
 A peer's application registered what is exposed here: flow, peer.
 */
#define BYWAY_EVENT_INCOMING 6

/*
 A peer's application was refused: peer, refusal.
 */
#define BYWAY_EVENT_DECLINED 7

/*
 Flows are closed, by the peer or because nobody used them: flow.
 */
#define BYWAY_EVENT_CLOSED 8

/*
 A relay does not serve flows, or cannot for now: flow.
 */
#define BYWAY_EVENT_RELAY_REFUSED 9

/*
 Flows use another path through relays: flow.
 */
#define BYWAY_EVENT_PATH_CHANGED 10

/*
 The client has left.
 */
#define BYWAY_EVENT_LEFT 11

/*
 Something that this version of the header has no number for.
 */
#define BYWAY_EVENT_OTHER 12

/*
 Nothing of that name is exposed.
 */
#define BYWAY_REFUSAL_UNKNOWN 1

/*
 It is not exposed to this peer.
 */
#define BYWAY_REFUSAL_NOT_ALLOWED 2

/*
 There is no room for more flows.
 */
#define BYWAY_REFUSAL_NO_ROOM 3

/*
 Not yet.
 */
#define BYWAY_REFUSAL_NOT_YET 4

/*
 The number of the flows is taken: register again.
 */
#define BYWAY_REFUSAL_NUMBER_TAKEN 5

/*
 The address that the subject names is on no machine of the peer.
 */
#define BYWAY_REFUSAL_NOT_HERE 6

/*
 What became of a call.
 */
typedef enum {
  /*
   It did what it is for.
   */
  BYWAY_ERROR_OK = 0,
  /*
   A pointer is null that must not be.
   */
  BYWAY_ERROR_NULL_POINTER = 1,
  /*
   A text is not UTF-8, or not what is expected: a key, an address, a name.
   */
  BYWAY_ERROR_BAD_TEXT = 2,
  /*
   A number or a length is out of its range.
   */
  BYWAY_ERROR_OUT_OF_RANGE = 3,
  /*
   The network contradicts itself, or does not have this client: byway_last_error says how.
   */
  BYWAY_ERROR_BAD_NETWORK = 4,
  /*
   The peer is not in the network, or not paired with this client.
   */
  BYWAY_ERROR_UNKNOWN_PEER = 5,
  /*
   There are as many as may be.
   */
  BYWAY_ERROR_NO_ROOM = 6,
  /*
   The flows are closed, or there never were such.
   */
  BYWAY_ERROR_CLOSED = 7,
  /*
   The peer has not accepted the flows yet.
   */
  BYWAY_ERROR_NOT_ACCEPTED = 8,
  /*
   The client has no socket: the application sends and receives.
   */
  BYWAY_ERROR_NO_SOCKET = 9,
  /*
   The client has a socket: byway_client_step sends and receives.
   */
  BYWAY_ERROR_HAS_SOCKET = 10,
  /*
   The system refuses: byway_last_error says why.
   */
  BYWAY_ERROR_SYSTEM = 11,
  /*
   The client has left its network.
   */
  BYWAY_ERROR_HAS_LEFT = 12,
  /*
   Something went wrong inside the library. The client is of no use any more.
   */
  BYWAY_ERROR_FAILED = 13,
} byway_error;

/*
 A client.
 */
typedef struct byway_client byway_client;

/*
 A static network: the [network] table of its nodes' files.
 */
typedef struct byway_network byway_network;

/*
 What an application asks for. With all fields zero, it is what byway_client_register does without one.
 */
typedef struct {
  /*
   From sending to delivery in microseconds, 1,000 to 10,000,000; 0 if none is stated.
   */
  uint64_t latency_budget_us;
  /*
   What each direction sends at most in bits per second, from 1,000 on; 0 for 4,000,000.
   */
  uint64_t rate_bps;
  /*
   BYWAY_SERVICE_...
   */
  int32_t service;
  /*
   BYWAY_TRAFFIC_...
   */
  int32_t traffic;
  /*
   BYWAY_COPIES_...
   */
  int32_t copies;
  /*
   Whether copies wait for the first losses: 0 or 1.
   */
  int32_t standby;
} byway_registration;

/*
 What a registration leads to.
 */
typedef struct {
  /*
   The flows: one to the peer, and one back.
   */
  uint64_t flow;
  /*
   Their service: BYWAY_SERVICE_...
   */
  int32_t service;
  /*
   The service and the reason for it, in words.
   */
  char reason[256];
} byway_registered;

/*
 Where a datagram comes from or goes to.
 */
typedef struct {
  /*
   The IP address as it is on the wire: four bytes and zeros behind, or sixteen.
   */
  uint8_t ip[16];
  /*
   The scope of an IPv6 address that is link-local, else 0.
   */
  uint32_t scope;
  /*
   The UDP port, as the machine has numbers.
   */
  uint16_t port;
  /*
   4 or 6.
   */
  uint8_t family;
} byway_address;

/*
 What a client wants done, or says. Fields that its kind does not name are zero.
 */
typedef struct {
  /*
   BYWAY_OUTPUT_...
   */
  int32_t kind;
  /*
   BYWAY_EVENT_...
   */
  int32_t event;
  /*
   The flows.
   */
  uint64_t flow;
  /*
   A datagram: good until the next call with the client.
   */
  const uint8_t *bytes;
  /*
   Its length.
   */
  size_t length;
  /*
   Where it goes.
   */
  byway_address to;
  /*
   The number of a peer: byway_client_peer_name has its name.
   */
  uint32_t peer;
  /*
   BYWAY_DELIVERY_...
   */
  int32_t delivery;
  /*
   BYWAY_REFUSAL_...
   */
  int32_t refusal;
  /*
   The ECN field of the IP header, 0 to 3.
   */
  uint8_t ecn;
  /*
   1 if it goes behind others, 0 if it is urgent.
   */
  uint8_t is_scavenger;
} byway_output;

/*
 What became of the packets of two flows. Counters are of packets: a datagram of more than 1,354 bytes is two.
 */
typedef struct {
  /*
   1 if the peer has reported anything of what is sent to it; else the fields of what is sent are zero.
   */
  int32_t has_sent;
  /*
   The service of what is sent, now: BYWAY_SERVICE_...
   */
  int32_t service;
  /*
   1 if the peer is reached directly, as far as is known.
   */
  int32_t is_direct;
  /*
   What is sent: the longest row of lost packets.
   */
  uint32_t sent_longest_burst;
  /*
   What is sent: first delivered by the direct path.
   */
  uint64_t sent_direct;
  /*
   What is sent: lost on the direct path, before any repair.
   */
  uint64_t sent_lost;
  /*
   Of these, repaired in time.
   */
  uint64_t sent_repaired;
  /*
   What is sent: first delivered by relays, unasked.
   */
  uint64_t sent_forwarded;
  /*
   What is sent: came too late.
   */
  uint64_t sent_late;
  /*
   The true loss of the direct path in packets of a million.
   */
  uint64_t sent_lost_per_million;
  /*
   How much later than the fastest packets came within the last interval: half, 95 % and 99 % at most, in microseconds.
   */
  uint64_t sent_delay_p50_us;
  /*
   See sent_delay_p50_us.
   */
  uint64_t sent_delay_p95_us;
  /*
   See sent_delay_p50_us.
   */
  uint64_t sent_delay_p99_us;
  /*
   What came: by the direct path.
   */
  uint64_t received_direct;
  /*
   What came: noticed to be lost on the direct path.
   */
  uint64_t received_lost;
  /*
   Of these, repaired in time.
   */
  uint64_t received_repaired;
  /*
   What came: first by relays, unasked.
   */
  uint64_t received_forwarded;
  /*
   What came: too late, and was not delivered.
   */
  uint64_t received_late;
  /*
   How long repairs in time took in the mean, in microseconds; 0 if there were none.
   */
  uint64_t received_repair_time_us;
} byway_report;

/*
 The IP bytes of a client by what they carry, since it was made.
 */
typedef struct {
  /*
   Originals, to peers.
   */
  uint64_t direct_sent;
  /*
   Copies and repair packets, to relays.
   */
  uint64_t copies_sent;
  /*
   What is given for others' repairs, to relays.
   */
  uint64_t answers_sent;
  /*
   Handshakes, requests, reports and probes.
   */
  uint64_t messages_sent;
  /*
   Originals, from peers.
   */
  uint64_t direct_received;
  /*
   Repairs, from relays.
   */
  uint64_t repairs_received;
  /*
   What relays deliver unasked.
   */
  uint64_t forwarded_received;
  /*
   Handshakes, reports, probes and in-stream repair packets.
   */
  uint64_t messages_received;
} byway_segments;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/*
 What an error means, in words: a text that is always there. A number that is no error has one, too.
 */
const char *byway_error_text(int32_t error);

/*
 What the last call of this thread that failed has to say, with names and values: a text that is good until the next call
 that fails. Empty if none has failed.
 */
const char *byway_last_error(void);

/*
 Makes an empty network. It is freed by byway_network_free.
 */
byway_error byway_network_new(byway_network **network);

/*
 Frees a network. Clients that were made of it stay. Null is freed by doing nothing.
 */
void byway_network_free(byway_network *network);

/*
 Adds a relay: its name, its number, its public key, its address such as 198.51.100.1:4600 or [2001:db8::1]:4600 (one that the
 application's socket can send to), and how many shards it has, 1 unless its file says otherwise.
 */
byway_error byway_network_add_relay(byway_network *network,
                                    const char *name,
                                    uint32_t number,
                                    const char *key,
                                    const char *address,
                                    uint16_t shards);

/*
 Adds an agent: its name, its number, its public key, its addresses and the names of its relays, the nearest first. Addresses
 and relays are lists with spaces between; null is an empty one.
 */
byway_error byway_network_add_agent(byway_network *network,
                                    const char *name,
                                    uint32_t number,
                                    const char *key,
                                    const char *addresses,
                                    const char *relays);

/*
 Lets two agents talk to each other, by their names. Pairs of one group have their flows coded together; 1 unless the files say
 otherwise.
 */
byway_error byway_network_add_pair(byway_network *network,
                                   const char *one,
                                   const char *other,
                                   uint32_t group);

/*
 Makes a client that touches no socket and no clock: the application sends and receives for it. It is freed by
 byway_client_free.

 It is the agent of this name in the network, with this secret: the text of a key file that `byway keygen` made. The seed is 32
 secret random bytes, others for each client. started_unix_ns, the time of the start in nanoseconds of Unix time, must rise from
 one start to the next. After it, as after each call that is told the time, call byway_client_poll until there is nothing more.
 */
byway_error byway_client_new(const byway_network *network,
                             const char *name,
                             const char *secret,
                             const uint8_t *seed,
                             uint64_t started_unix_ns,
                             uint64_t now_ns,
                             byway_client **client);

/*
 Makes a client with a UDP socket and a clock of its own, and without a thread: call byway_client_step, then byway_client_poll
 until there is nothing more, and so on. It is freed by byway_client_free. Times that other functions are told are not looked at.

 It listens on an address such as 0.0.0.0:0 or [::]:4610, and sends to addresses of that family only. The rest is as for
 byway_client_new.
 */
byway_error byway_client_open(const byway_network *network,
                              const char *name,
                              const char *secret,
                              const uint8_t *seed,
                              const char *listen,
                              byway_client **client);

/*
 Frees a client. Peers are not told: call byway_client_leave before. Null is freed by doing nothing.
 */
void byway_client_free(byway_client *client);

/*
 Lets peers register flows under this name. The peers are a list of names with spaces between; null for all of the network. What
 is not exposed is refused.
 */
byway_error byway_client_expose(byway_client *client,
                                const char *name,
                                const char *peers);

/*
 Asks a peer for flows to what it exposes under this name, and back. What is asked for may be null, for what is usual. The answer
 follows as BYWAY_EVENT_ACCEPTED or BYWAY_EVENT_REFUSED.
 */
byway_error byway_client_register(byway_client *client,
                                  const char *peer,
                                  const char *name,
                                  const byway_registration *registration,
                                  uint64_t now_ns,
                                  byway_registered *registered);

/*
 A datagram came from the network, for a client without a socket. The bytes are overwritten. The ECN field is that of the IP
 header, 0 if it is not known.
 */
byway_error byway_client_received(byway_client *client,
                                  const byway_address *from,
                                  uint8_t ecn,
                                  uint8_t *datagram,
                                  size_t length,
                                  uint64_t now_ns);

/*
 Sends a datagram of up to 1,500 bytes. One that is marked (not 0) is worth a copy: with BYWAY_COPIES_MARKED, relays get those
 alone.
 */
byway_error byway_client_send(byway_client *client,
                              uint64_t flow,
                              const uint8_t *datagram,
                              size_t length,
                              int marked,
                              uint64_t now_ns);

/*
 The deadline of a client without a socket has come. A call too many does no harm.
 */
byway_error byway_client_timer(byway_client *client, uint64_t now_ns);

/*
 The next output; of kind BYWAY_OUTPUT_NONE if there is nothing more. A client with a socket transmits by itself.
 */
byway_error byway_client_poll(byway_client *client,
                              byway_output *output);

/*
 When to call byway_client_timer, of a client without a socket; when to call byway_client_step, of one with a socket. UINT64_MAX
 for never, as long as nothing comes.
 */
byway_error byway_client_deadline(byway_client *client,
                                  uint64_t *deadline_ns);

/*
 What became of the packets of two flows.
 */
byway_error byway_client_report(byway_client *client, uint64_t flow, byway_report *report);

/*
 How many bytes went over the direct path, and to and from relays.
 */
byway_error byway_client_segments(byway_client *client, byway_segments *segments);

/*
 Writes what flows are for into a text of this size: the name that is exposed here or there, cut off where there is no more room.
 */
byway_error byway_client_subject(byway_client *client,
                                 uint64_t flow,
                                 char *name,
                                 size_t size);

/*
 Writes the name of a peer into a text of this size, cut off where there is no more room.
 */
byway_error byway_client_peer_name(byway_client *client, uint32_t peer, char *name, size_t size);

/*
 Closes two flows. The peer is told. What is closed already is not closed again.
 */
byway_error byway_client_close_flow(byway_client *client, uint64_t flow, uint64_t now_ns);

/*
 Leaves the network: peers and relays are told, until BYWAY_EVENT_LEFT.
 */
byway_error byway_client_leave(byway_client *client, uint64_t now_ns);

/*
 Waits until something comes, something is due, or so many microseconds have passed; then sends and receives all there is. It
 receives nothing as long as byway_client_poll has something to give.
 */
byway_error byway_client_step(byway_client *client,
                              uint64_t timeout_us);

/*
 The descriptor of the client's socket, for a loop of the application's own: when it can be read, call byway_client_step with no
 time to wait. It belongs to the client.
 */
byway_error byway_client_fd(byway_client *client,
                            int *fd);

/*
 The time by the clock of a client with a socket, to which byway_client_deadline refers.
 */
byway_error byway_client_now(byway_client *client, uint64_t *now_ns);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* BYWAY_H */
