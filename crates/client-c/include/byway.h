/*
 * Byway as a library: an agent inside the application. The application can mark packets, set latency
 * budgets and measure the true loss of the direct path. docs/client.md is the guide, and
 * crates/client-c/examples/call.c an example.
 *
 * cbindgen generates this file from crates/client-c/src: change the sources.
 *
 * Memory: free an object only with the function that its documentation names. The library reads
 * arguments during the call; they belong to the caller. Returned pointers point into the client,
 * and are valid until the next call with it.
 * Threads: only one thread at a time may use a network or a client; it may be any thread.
 * Errors: each function that can fail returns a byway_error. Null pointers and lengths out of range
 * are errors. After BYWAY_ERROR_FAILED, an internal failure, the client can only be freed.
 * Texts: UTF-8, with a zero byte at the end.
 * Times: nanoseconds since any start, the same for all calls with one client. They must not decrease.
 */

#ifndef BYWAY_H
#define BYWAY_H

#include <stddef.h>
#include <stdint.h>

/*
 The cheapest service that repairs the losses within the latency budget, selected again and
 again.
 */
#define BYWAY_SERVICE_AUTOMATIC 0

/*
 Service without relays: the direct path alone.
 */
#define BYWAY_SERVICE_INTERNET 1

/*
 Repair packets, in-stream and cross-stream.
 */
#define BYWAY_SERVICE_CODING 2

/*
 Repair from copies in a relay's cache near the receiver.
 */
#define BYWAY_SERVICE_CACHING 3

/*
 Delivery through relays, without the direct path.
 */
#define BYWAY_SERVICE_FORWARDING 4

/*
 Delivery through relays and on the direct path.
 */
#define BYWAY_SERVICE_BOTH 5

/*
 Repair from copies that wait near the sender until a packet is missing.
 */
#define BYWAY_SERVICE_PULL 6

/*
 Repair by the sender, through relays, when a packet is missing.
 */
#define BYWAY_SERVICE_RETRANSMISSION 7

/*
 Datagrams that may be delivered out of order.
 */
#define BYWAY_TRAFFIC_DATAGRAMS 0

/*
 Traffic of TCP or QUIC, which controls congestion itself.
 */
#define BYWAY_TRAFFIC_CONGESTION_CONTROLLED 1

/*
 Datagrams and congestion-controlled traffic, which the agent cannot distinguish.
 */
#define BYWAY_TRAFFIC_MIXTURE 2

/*
 All packets are copied to the relay. Of congestion-controlled traffic, only marked packets are
 copied.
 */
#define BYWAY_COPIES_USUAL 0

/*
 All packets of the flow are copied to the relay.
 */
#define BYWAY_COPIES_ALL 1

/*
 Only marked packets are copied.
 */
#define BYWAY_COPIES_MARKED 2

/*
 All packets go to the relay, which forwards them. The direct path is not used.
 */
#define BYWAY_COPIES_BY_RELAY 3

/*
 Sender FEC: the relay gets repair packets instead of copies.
 */
#define BYWAY_COPIES_SENDER_FEC 4

/*
 As many repair packets as the losses of the latest half minute require, and none without losses.
 */
#define BYWAY_REDUNDANCY_ADAPTIVE 1

/*
 The same number of repair packets for each batch and block.
 */
#define BYWAY_REDUNDANCY_FIXED 0

/*
 There are no more outputs.
 */
#define BYWAY_OUTPUT_NONE 0

/*
 A datagram to send: bytes, length, to, ecn, is_scavenger.
 */
#define BYWAY_OUTPUT_TRANSMIT 1

/*
 A datagram for the application: flow, bytes, length, delivery.
 */
#define BYWAY_OUTPUT_DELIVERED 2

/*
 An event: event, and the fields that its constant names.
 */
#define BYWAY_OUTPUT_EVENT 3

/*
 Delivered by the direct path.
 */
#define BYWAY_DELIVERY_DIRECT 0

/*
 Delivered by relays, without a NACK.
 */
#define BYWAY_DELIVERY_FORWARDED 1

/*
 Repaired by the flow's own repair packets.
 */
#define BYWAY_DELIVERY_IN_STREAM 2

/*
 Repaired with packets from receivers of other flows.
 */
#define BYWAY_DELIVERY_COOPERATIVE 3

/*
 Repaired from a relay's cache.
 */
#define BYWAY_DELIVERY_CACHED 4

/*
 The sender sent the lost packet again through relays.
 */
#define BYWAY_DELIVERY_RESENT 5

/*
 A session with a peer is established: peer.
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
 The peer accepted a registration: flow.
 */
#define BYWAY_EVENT_ACCEPTED 4

/*
 The peer refused a registration: flow, refusal.
 */
#define BYWAY_EVENT_REFUSED 5

/*
 A peer's application registered flows for an exposed name: flow, peer.
 */
#define BYWAY_EVENT_INCOMING 6

/*
 The client refused the registration of a peer's application: peer, refusal.
 */
#define BYWAY_EVENT_DECLINED 7

/*
 The peer closed a pair of flows, or the pair was idle: flow.
 */
#define BYWAY_EVENT_CLOSED 8

/*
 A relay refused a pair of flows, permanently or for now: flow.
 */
#define BYWAY_EVENT_RELAY_REFUSED 9

/*
 A pair of flows changed to another relay path: flow.
 */
#define BYWAY_EVENT_PATH_CHANGED 10

/*
 The client has left the network.
 */
#define BYWAY_EVENT_LEFT 11

/*
 An event without a constant in this version of the header.
 */
#define BYWAY_EVENT_OTHER 12

/*
 The name is not exposed.
 */
#define BYWAY_REFUSAL_UNKNOWN 1

/*
 The name is not exposed to this agent.
 */
#define BYWAY_REFUSAL_NOT_ALLOWED 2

/*
 The limit of flows is reached.
 */
#define BYWAY_REFUSAL_FULL 3

/*
 The peer cannot decide yet.
 */
#define BYWAY_REFUSAL_NOT_YET 4

/*
 The flow number is in use: register again.
 */
#define BYWAY_REFUSAL_NUMBER_IN_USE 5

/*
 The address in the subject does not belong to a machine of the peer.
 */
#define BYWAY_REFUSAL_NOT_HERE 6

/*
 Result of a call of the C interface.
 */
typedef enum {
  /*
   The call succeeded.
   */
  BYWAY_ERROR_OK = 0,
  /*
   A required pointer is null.
   */
  BYWAY_ERROR_NULL_POINTER = 1,
  /*
   A text is not UTF-8, or not valid as a key, an address or a name.
   */
  BYWAY_ERROR_BAD_TEXT = 2,
  /*
   A number or a length is out of range.
   */
  BYWAY_ERROR_OUT_OF_RANGE = 3,
  /*
   The network is inconsistent, or does not contain this client: see byway_last_error.
   */
  BYWAY_ERROR_BAD_NETWORK = 4,
  /*
   The peer is not in the network, or not paired with this client.
   */
  BYWAY_ERROR_UNKNOWN_PEER = 5,
  /*
   A limit of the client or the peer is reached: flows, names or nodes.
   */
  BYWAY_ERROR_FULL = 6,
  /*
   The flows are closed, or have never existed.
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
   The system reports an error: see byway_last_error.
   */
  BYWAY_ERROR_SYSTEM = 11,
  /*
   The client has left its network.
   */
  BYWAY_ERROR_HAS_LEFT = 12,
  /*
   The library failed internally. The client cannot be used any more, only freed.
   */
  BYWAY_ERROR_FAILED = 13,
} byway_error;

/*
 Client of the C interface, with or without a socket.
 */
typedef struct byway_client byway_client;

/*
 A static network: the [network] table of its nodes' files.
 */
typedef struct byway_network byway_network;

/*
 An application's request for a pair of flows. All fields zero are the defaults of
 byway_client_register.
 */
typedef struct {
  /*
   Latency budget from sending to delivery in microseconds, 1,000 to 10,000,000; 0 means
   250,000.
   */
  uint64_t latency_budget_us;
  /*
   Upper bound of each direction's rate in bits per second, at least 1,000; 0 means 4,000,000.
   */
  uint64_t rate_bps;
  /*
   Service of the flow that this end sends, or its automatic selection: BYWAY_SERVICE_...
   */
  int32_t service;
  /*
   Kind of traffic: BYWAY_TRAFFIC_...
   */
  int32_t traffic;
  /*
   Packets that are copied to the relay: BYWAY_COPIES_...
   */
  int32_t copies;
  /*
   Rule for the number of repair packets, if the service is coding: BYWAY_REDUNDANCY_...
   */
  int32_t redundancy;
  /*
   1 if relays may code the flows with those of other tenants that agree as well, if the
   service is coding; otherwise 0. The number of repair packets is then fixed.
   */
  int32_t coded_with_other_tenants;
} byway_registration;

/*
 Network address of a datagram's source or destination.
 */
typedef struct {
  /*
   IP address in network byte order: four bytes followed by zeros, or sixteen bytes.
   */
  uint8_t ip[16];
  /*
   Scope of a link-local IPv6 address, otherwise 0.
   */
  uint32_t scope;
  /*
   UDP port, in host byte order.
   */
  uint16_t port;
  /*
   Address family: 4 or 6.
   */
  uint8_t family;
} byway_address;

/*
 Output of a client. Fields that its kind does not name are zero.
 */
typedef struct {
  /*
   Kind of the output: BYWAY_OUTPUT_...
   */
  int32_t kind;
  /*
   Kind of the event: BYWAY_EVENT_...
   */
  int32_t event;
  /*
   Pair of flows that the output concerns.
   */
  uint64_t flow;
  /*
   A datagram, valid until the next call with the client.
   */
  const uint8_t *bytes;
  /*
   Length of the datagram in bytes.
   */
  size_t length;
  /*
   Destination address of a datagram to send.
   */
  byway_address to;
  /*
   Number of a peer; byway_client_peer_name returns its name.
   */
  uint32_t peer;
  /*
   Path of the delivered datagram, or kind of its repair: BYWAY_DELIVERY_...
   */
  int32_t delivery;
  /*
   Reason for a refusal: BYWAY_REFUSAL_...
   */
  int32_t refusal;
  /*
   The ECN field of the IP header, 0 to 3.
   */
  uint8_t ecn;
  /*
   1 if the datagram is sent after all others, otherwise 0.
   */
  uint8_t is_scavenger;
} byway_output;

/*
 Delivery statistics of a pair of flows, as measured by the receiver of each direction. They
 count packets: a datagram of more than 1,354 bytes takes two packets.
 */
typedef struct {
  /*
   1 if the peer has sent a report. Otherwise the fields of the sent flow are zero.
   */
  int32_t has_sent;
  /*
   Current service of the sent flow: BYWAY_SERVICE_...
   */
  int32_t service;
  /*
   1 if the session with the peer uses the direct path, as far as known.
   */
  int32_t is_direct;
  /*
   Sent flow: packets in the longest burst of losses.
   */
  uint32_t sent_longest_burst;
  /*
   Sent flow: packets first delivered by the direct path.
   */
  uint64_t sent_direct;
  /*
   Sent flow: packets lost on the direct path, before any repair.
   */
  uint64_t sent_lost;
  /*
   Sent flow: lost packets that were repaired in time.
   */
  uint64_t sent_repaired;
  /*
   Sent flow: packets first delivered by relays, without a NACK.
   */
  uint64_t sent_forwarded;
  /*
   Sent flow: packets that arrived after the latency budget.
   */
  uint64_t sent_late;
  /*
   Loss rate of the direct path before any repair, in packets per million.
   */
  uint64_t sent_lost_per_million;
  /*
   Median of the delays above that of the fastest packets, in the last reported interval, in
   microseconds.
   */
  uint64_t sent_delay_p50_us;
  /*
   95th percentile of the delays above that of the fastest packets, in microseconds.
   */
  uint64_t sent_delay_p95_us;
  /*
   99th percentile of the delays above that of the fastest packets, in microseconds.
   */
  uint64_t sent_delay_p99_us;
  /*
   Received flow: packets delivered by the direct path.
   */
  uint64_t received_direct;
  /*
   Received flow: packets detected as lost on the direct path.
   */
  uint64_t received_lost;
  /*
   Received flow: lost packets that were repaired in time.
   */
  uint64_t received_repaired;
  /*
   Received flow: packets first delivered by relays, without a NACK.
   */
  uint64_t received_forwarded;
  /*
   Received flow: packets that arrived after the latency budget, and were not delivered.
   */
  uint64_t received_late;
  /*
   Mean time of repairs in time, in microseconds; 0 without repairs.
   */
  uint64_t received_repair_time_us;
} byway_report;

/*
 Numbers of IP bytes that a client sent and received since it was created, by content.
 */
typedef struct {
  /*
   Bytes of source packets to peers.
   */
  uint64_t direct_sent;
  /*
   Bytes of copies and repair packets to relays.
   */
  uint64_t copies_sent;
  /*
   Bytes of packets for the repair of other flows, to relays.
   */
  uint64_t answers_sent;
  /*
   Bytes of handshakes, requests, reports and probes sent.
   */
  uint64_t messages_sent;
  /*
   Bytes of source packets from peers.
   */
  uint64_t direct_received;
  /*
   Bytes of repairs from relays.
   */
  uint64_t repairs_received;
  /*
   Bytes of packets that relays deliver without a NACK.
   */
  uint64_t forwarded_received;
  /*
   Bytes of handshakes, reports, probes and in-stream repair packets received.
   */
  uint64_t messages_received;
} byway_segments;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/*
 Returns the meaning of an error, as a static text. Unknown numbers have a text, too.
 */
const char *byway_error_text(int32_t error);

/*
 Returns the text of this thread's last failed call, with names and values. The text is valid
 until the next failed call. Empty if no call has failed.
 */
const char *byway_last_error(void);

/*
 Creates an empty network. Free it with byway_network_free.
 */
byway_error byway_network_new(byway_network **network);

/*
 Frees a network. For null, it does nothing. Clients created from the network remain valid.
 */
void byway_network_free(byway_network *network);

/*
 Adds a relay: its name, number, public key, address and number of shards (the default in files
 is 1). The address has a form such as 198.51.100.1:4600 or [2001:db8::1]:4600. The application's
 socket must be able to send to it.
 */
byway_error byway_network_add_relay(byway_network *network,
                                    const char *name,
                                    uint32_t number,
                                    const char *key,
                                    const char *address,
                                    uint16_t shards);

/*
 Adds an agent: its name, number, public key, addresses, and the names of its relays, the nearest
 first. Addresses and relays are lists with spaces between; null is an empty list.
 */
byway_error byway_network_add_agent(byway_network *network,
                                    const char *name,
                                    uint32_t number,
                                    const char *key,
                                    const char *addresses,
                                    const char *relays);

/*
 Permits two agents, by name, to exchange flows. Flows of pairs in one group are coded together;
 the default in files is 1.
 */
byway_error byway_network_add_pair(byway_network *network,
                                   const char *one,
                                   const char *other,
                                   uint32_t group);

/*
 Creates a client without a socket and a clock: the application sends and receives for it. Free
 it with byway_client_free.

 It is the agent of this name in the network. Its secret is the text of a key file of
 `byway keygen`. The seed is 32 secret random bytes, different for each client. started_unix_ns
 is the time of the start in nanoseconds of Unix time, and must increase from start to start.

 After this function, and after each one with a time, call byway_client_poll until it returns
 BYWAY_OUTPUT_NONE.
 */
byway_error byway_client_new(const byway_network *network,
                             const char *name,
                             const char *secret,
                             const uint8_t *seed,
                             uint64_t started_unix_ns,
                             uint64_t now_ns,
                             byway_client **client);

/*
 Creates a client with its own UDP socket and clock, and without a thread. Free it with
 byway_client_free. Call byway_client_step, then byway_client_poll until it returns
 BYWAY_OUTPUT_NONE; repeat. Times passed to other functions are ignored.

 It listens on an address such as 0.0.0.0:0 or [::]:4610, and sends only to addresses of that
 family. The other arguments are those of byway_client_new.
 */
byway_error byway_client_open(const byway_network *network,
                              const char *name,
                              const char *secret,
                              const uint8_t *seed,
                              const char *listen,
                              byway_client **client);

/*
 Frees a client. For null, it does nothing. It does not notify peers: call byway_client_leave
 before.
 */
void byway_client_free(byway_client *client);

/*
 Permits peers to register flows under this name; others are refused. The peers are a list of
 names with spaces between. Null means all peers of the network.
 */
byway_error byway_client_expose(byway_client *client, const char *name, const char *peers);

/*
 Offers a pair of flows to a peer, for a name that it exposes: one flow to the peer, and one
 back. Writes the pair's number to flow. A null registration means the defaults.
 BYWAY_EVENT_ACCEPTED or BYWAY_EVENT_REFUSED follows the peer's answer.
 */
byway_error byway_client_register(byway_client *client,
                                  const char *peer,
                                  const char *name,
                                  const byway_registration *registration,
                                  uint64_t now_ns,
                                  uint64_t *flow);

/*
 Passes a datagram from the network to a client without a socket. The bytes are overwritten. The
 ECN field is that of the IP header, or 0 if unknown.
 */
byway_error byway_client_received(byway_client *client,
                                  const byway_address *from,
                                  uint8_t ecn,
                                  uint8_t *datagram,
                                  size_t length,
                                  uint64_t now_ns);

/*
 Sends a datagram of up to 1,500 bytes. With BYWAY_COPIES_MARKED, relays get copies of marked
 datagrams only (marked is not 0).
 */
byway_error byway_client_send(byway_client *client,
                              uint64_t flow,
                              const uint8_t *datagram,
                              size_t length,
                              int marked,
                              uint64_t now_ns);

/*
 Handles an expired deadline of a client without a socket. A superfluous call has no effect.
 */
byway_error byway_client_timer(byway_client *client, uint64_t now_ns);

/*
 Returns the next output; its kind is BYWAY_OUTPUT_NONE if there are no more. A client with a
 socket transmits its datagrams by itself.
 */
byway_error byway_client_poll(byway_client *client, byway_output *output);

/*
 Returns the time of the next byway_client_timer of a client without a socket, or of the next
 byway_client_step of a client with one. UINT64_MAX means that there is no deadline.
 */
byway_error byway_client_deadline(byway_client *client, uint64_t *deadline_ns);

/*
 Returns the delivery statistics of a pair of flows.
 */
byway_error byway_client_report(byway_client *client, uint64_t flow, byway_report *report);

/*
 Returns the number of bytes on the direct path, and to and from relays.
 */
byway_error byway_client_segments(byway_client *client, byway_segments *segments);

/*
 Writes the name that a pair of flows is registered for, exposed here or at the peer. The text is
 truncated to the given size.
 */
byway_error byway_client_subject(byway_client *client, uint64_t flow, char *name, size_t size);

/*
 Writes the name of a peer. The text is truncated to the given size.
 */
byway_error byway_client_peer_name(byway_client *client, uint32_t peer, char *name, size_t size);

/*
 Closes a pair of flows, and notifies the peer. For a closed pair, it has no effect.
 */
byway_error byway_client_close_flow(byway_client *client, uint64_t flow, uint64_t now_ns);

/*
 Leaves the network, and notifies peers and relays. BYWAY_EVENT_LEFT follows.
 */
byway_error byway_client_leave(byway_client *client, uint64_t now_ns);

/*
 Waits until a datagram arrives, the deadline passes, or the timeout in microseconds ends. Then
 handles all pending work. Receives no datagrams before byway_client_poll has returned all
 outputs.
 */
byway_error byway_client_step(byway_client *client, uint64_t timeout_us);

/*
 Returns the descriptor of the client's socket, for an application's own event loop. If it is
 readable, call byway_client_step with a timeout of 0. The descriptor belongs to the client.
 */
byway_error byway_client_fd(byway_client *client, int *fd);

/*
 Returns the current time of a client with a socket, by the clock of byway_client_deadline.
 */
byway_error byway_client_now(byway_client *client, uint64_t *now_ns);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* BYWAY_H */
