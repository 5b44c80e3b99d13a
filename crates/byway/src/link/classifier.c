/* What `byway link` has the kernel do with each packet that leaves by a device: choose its class by its DSCP, or because its flow is
 * registered; note when its flow was last seen, and how long packets are. Compiled by `scripts/classifier.sh`; what it makes is committed beside this file.
 *
 * It never drops or changes a packet but for skb->priority, by which HTB finds the class: what cannot be read is of high rate.
 */
#include <linux/bpf.h>
#include <linux/types.h>

#define SECTION(name) __attribute__((section(name), used))
#define INLINE static inline __attribute__((always_inline))

/* 72 rows of 2,000 slots, half of them of each class: a row is what one system call reads. As in classifier.rs. */
#define ROW_SLOTS 2000
#define CLASS_ROWS 36
#define CLASS_SLOTS (CLASS_ROWS * ROW_SLOTS)

enum { HIGH_RATE, LOW_DELAY };

/* Protocols above Ethernet and IP, as they are assigned. */
#define ETHERNET_IPV4 0x0800
#define ETHERNET_IPV6 0x86DD
#define ETHERNET_VLAN 0x8100
#define ETHERNET_SERVICE_VLAN 0x88A8
#define ETHERNET_PPPOE_SESSION 0x8864
#define PPP_IPV4 0x0021
#define PPP_IPV6 0x0057
#define IP_TCP 6
#define IP_UDP 17
#define IP_DCCP 33
#define IP_ROUTING 43
#define IP_FRAGMENT 44
#define IP_AUTHENTICATION 51
#define IP_OPTIONS 60
#define IP_HOP_BY_HOP 0
#define IP_SCTP 132
#define IP_UDP_LITE 136

/* More than anything real has. */
#define EXTENSIONS_MAX 6

/* classifier.rs makes the map smaller if no flow may be registered. */
#define REGISTERED_MAX 16384

/* Words of eight bytes, as classifier.rs writes and reads them. */
struct settings {
	__u64 key[2];
	__u64 low_delay_dscps;
	__u64 is_literal;
	__u64 classes[2];
	/* 0 before the first registration: then nothing is looked up. */
	__u64 has_registered;
};

/* What names a registered flow, as classifier.rs writes it: addresses and ports as they are in the packet. */
struct flow {
	__u64 addresses[4];
	__u16 ports[2];
	__u8 protocol;
	__u8 is_ipv6;
	__u8 unused[2];
};

struct seen {
	__u64 joined;
	__u64 longest;
};

struct row {
	__u16 milliseconds[ROW_SLOTS];
};

struct map {
	__u32 type;
	__u32 key_size;
	__u32 value_size;
	__u32 max_entries;
	__u32 flags;
};

struct map SECTION("maps") SETTINGS = { BPF_MAP_TYPE_ARRAY, 4, sizeof(struct settings), 1, 0 };
struct map SECTION("maps") SEEN = { BPF_MAP_TYPE_ARRAY, 4, sizeof(struct seen), 2, 0 };
struct map SECTION("maps") FLOWS = { BPF_MAP_TYPE_ARRAY, 4, sizeof(struct row), 2 * CLASS_ROWS, 0 };
/* The end of each registered flow's lease, in nanoseconds of the monotonic clock. */
struct map SECTION("maps") REGISTERED = { BPF_MAP_TYPE_LRU_HASH, sizeof(struct flow), 8, REGISTERED_MAX, 0 };

static void *(*lookup)(void *map, const void *key) = (void *)BPF_FUNC_map_lookup_elem;
static __u64 (*now)(void) = (void *)BPF_FUNC_ktime_get_ns;
static long (*load)(const void *skb, __u32 offset, void *to, __u32 bytes, __u32 from) = (void *)BPF_FUNC_skb_load_bytes_relative;

/* What is known of a packet. */
struct packet {
	/* Addresses: one word for both of IPv4, four for those of IPv6. */
	__u64 addresses[4];
	__u16 ports[2];
	__u8 traffic_class;
	__u8 protocol;
	__u8 is_ipv6;
	__u8 is_ip;
};

INLINE __u64 rotated(__u64 word, int bits)
{
	return word << bits | word >> (64 - bits);
}

struct state {
	__u64 v0, v1, v2, v3;
};

INLINE void mix(struct state *s)
{
	s->v0 += s->v1;
	s->v1 = rotated(s->v1, 13) ^ s->v0;
	s->v0 = rotated(s->v0, 32);
	s->v2 += s->v3;
	s->v3 = rotated(s->v3, 16) ^ s->v2;
	s->v0 += s->v3;
	s->v3 = rotated(s->v3, 21) ^ s->v0;
	s->v2 += s->v1;
	s->v1 = rotated(s->v1, 17) ^ s->v2;
	s->v2 = rotated(s->v2, 32);
}

INLINE void take(struct state *s, __u64 word)
{
	s->v3 ^= word;
	mix(s);
	s->v0 ^= word;
}

/* SipHash-1-3 (Aumasson and Bernstein, 2012) of what names a flow: the same number that byway-sched's FlowKey has for it. */
INLINE __u64 hashed(const struct packet *p, const __u64 key[2])
{
	struct state s = {
		key[0] ^ 0x736f6d6570736575ULL,
		key[1] ^ 0x646f72616e646f6dULL,
		key[0] ^ 0x6c7967656e657261ULL,
		key[1] ^ 0x7465646279746573ULL,
	};
	take(&s, p->addresses[0]);
	if (p->is_ipv6) {
		take(&s, p->addresses[1]);
		take(&s, p->addresses[2]);
		take(&s, p->addresses[3]);
	}
	take(&s, (__u64)__builtin_bswap16(p->ports[0]) << 32 | (__u64)__builtin_bswap16(p->ports[1]) << 8 | p->protocol);
	take(&s, (p->is_ipv6 ? 40ULL : 16ULL) << 56);
	s.v2 ^= 0xff;
	mix(&s);
	mix(&s);
	mix(&s);
	return s.v0 ^ s.v1 ^ s.v2 ^ s.v3;
}

INLINE int read_at(struct __sk_buff *skb, __u32 offset, void *to, __u32 bytes)
{
	return load(skb, offset, to, bytes, BPF_HDR_START_NET) == 0;
}

/* Where there are none, or they are in another fragment, ports stay zero. */
INLINE void read_ports(struct __sk_buff *skb, __u32 offset, struct packet *p)
{
	switch (p->protocol) {
	case IP_TCP:
	case IP_UDP:
	case IP_DCCP:
	case IP_SCTP:
	case IP_UDP_LITE:
		if (!read_at(skb, offset, p->ports, 4)) {
			p->ports[0] = 0;
			p->ports[1] = 0;
		}
	}
}

INLINE void read_ipv4(struct __sk_buff *skb, __u32 offset, struct packet *p)
{
	__u8 header[20];
	__u16 fragment;

	if (!read_at(skb, offset, header, sizeof(header)) || header[0] >> 4 != 4)
		return;
	__builtin_memcpy(p->addresses, header + 12, 8);
	p->traffic_class = header[1];
	p->protocol = header[9];
	p->is_ip = 1;
	/* All fragments of a packet are of one flow: those that begin one go without their ports, too. */
	fragment = (header[6] & 0x3f) << 8 | header[7];
	if (!fragment)
		read_ports(skb, offset + (header[0] & 15) * 4, p);
}

INLINE void read_ipv6(struct __sk_buff *skb, __u32 offset, struct packet *p)
{
	__u8 header[40];
	__u8 extension[2];
	int extensions;

	if (!read_at(skb, offset, header, sizeof(header)) || header[0] >> 4 != 6)
		return;
	__builtin_memcpy(p->addresses, header + 8, 32);
	p->traffic_class = header[0] << 4 | header[1] >> 4;
	p->protocol = header[6];
	p->is_ipv6 = 1;
	p->is_ip = 1;
	offset += sizeof(header);
#pragma clang loop unroll(full)
	for (extensions = 0; extensions < EXTENSIONS_MAX; extensions++) {
		__u32 unit = 8;

		switch (p->protocol) {
		case IP_AUTHENTICATION:
			unit = 4;
		case IP_HOP_BY_HOP:
		case IP_ROUTING:
		case IP_OPTIONS:
			break;
		default:
			/* Of a fragment, its own number is no port. */
			read_ports(skb, offset, p);
			return;
		}
		if (!read_at(skb, offset, extension, sizeof(extension)))
			return;
		p->protocol = extension[0];
		offset += unit == 4 ? extension[1] * 4 + 8 : extension[1] * 8 + 8;
	}
}

/* Reads the header of a PPPoE session (RFC 2516, 4) and the protocol of PPP behind it; returns that of Ethernet for the same packet. */
INLINE __u32 read_session(struct __sk_buff *skb, __u32 offset)
{
	__u8 header[8];

	/* Version 1, type 1, and the code of a session's packets. */
	if (!read_at(skb, offset, header, sizeof(header)) || header[0] != 0x11 || header[1])
		return 0;
	switch (header[6] << 8 | header[7]) {
	case PPP_IPV4:
		return ETHERNET_IPV4;
	case PPP_IPV6:
		return ETHERNET_IPV6;
	}
	return 0;
}

/* Where the kernel says that the packet of the network begins, there may be tags of VLANs and a PPPoE session before it. */
INLINE void read_packet(struct __sk_buff *skb, struct packet *p)
{
	__u32 protocol = __builtin_bswap16((__u16)skb->protocol), offset = 0;
	__u16 tag[2];
	int tags;

#pragma clang loop unroll(full)
	for (tags = 0; tags < 2; tags++) {
		if (protocol != ETHERNET_VLAN && protocol != ETHERNET_SERVICE_VLAN)
			break;
		if (!read_at(skb, offset, tag, sizeof(tag)))
			return;
		protocol = __builtin_bswap16(tag[1]);
		offset += sizeof(tag);
	}
	if (protocol == ETHERNET_PPPOE_SESSION) {
		protocol = read_session(skb, offset);
		offset += 8;
	}
	if (protocol == ETHERNET_IPV4)
		read_ipv4(skb, offset, p);
	else if (protocol == ETHERNET_IPV6)
		read_ipv6(skb, offset, p);
}

INLINE int is_registered(const struct packet *p)
{
	struct flow flow = {};
	__u64 *end;

	__builtin_memcpy(flow.addresses, p->addresses, sizeof(flow.addresses));
	flow.ports[0] = p->ports[0];
	flow.ports[1] = p->ports[1];
	flow.protocol = p->protocol;
	flow.is_ipv6 = p->is_ipv6;
	end = lookup(&REGISTERED, &flow);
	return end && now() < *end;
}

INLINE __u32 class_of(const struct packet *p, const struct settings *settings)
{
	if (!p->is_ip)
		return HIGH_RATE;
	if (settings->has_registered && is_registered(p))
		return LOW_DELAY;
	if (settings->low_delay_dscps >> (p->traffic_class >> 2) & 1)
		return LOW_DELAY;
	return settings->is_literal && p->traffic_class == 0x12 ? LOW_DELAY : HIGH_RATE;
}

/* Those of the kernel that run at once may forget each other's number: the next packet tells it again. */
INLINE void note_length(struct __sk_buff *skb, __u32 class)
{
	struct seen *seen = lookup(&SEEN, &class);
	__u32 length = skb->len;

	if (!seen)
		return;
	if (length > seen->longest)
		seen->longest = length;
	if (skb->gso_segs > 1)
		__sync_fetch_and_add(&seen->joined, 1);
}

INLINE void note_flow(const struct packet *p, __u32 class, const struct settings *settings)
{
	__u32 slot = (hashed(p, settings->key) >> 32) * CLASS_SLOTS >> 32;
	__u32 row = class * CLASS_ROWS + slot / ROW_SLOTS;
	__u32 place = slot % ROW_SLOTS;
	/* Zero is never. Times come again after 65 seconds: whoever reads them forgets those that are older than one. */
	__u16 milliseconds = (__u16)(now() / 1000000) | 1;
	struct row *rows = lookup(&FLOWS, &row);

	/* The kernel does not know what a remainder is: it wants to see the bound, which the compiler would leave out. */
	asm volatile("" : "+r"(place));
	if (rows && place < ROW_SLOTS && rows->milliseconds[place] != milliseconds)
		rows->milliseconds[place] = milliseconds;
}

SECTION("classifier") int byway_link(struct __sk_buff *skb)
{
	struct packet packet = {};
	__u32 zero = 0, class;
	__u64 high_rate, low_delay;
	struct settings *settings = lookup(&SETTINGS, &zero);

	if (!settings)
		return -1;
	read_packet(skb, &packet);
	class = class_of(&packet, settings);
	/* Without CAP_PERFMON, no place that depends on what was read may be added to an address: both are read, and one is chosen. */
	high_rate = *(volatile __u64 *)&settings->classes[HIGH_RATE];
	low_delay = *(volatile __u64 *)&settings->classes[LOW_DELAY];
	skb->priority = class == LOW_DELAY ? low_delay : high_rate;
	note_length(skb, class);
	if (packet.is_ip)
		note_flow(&packet, class, settings);
	/* Other filters have their turn. */
	return -1;
}

char SECTION("license") LICENSE[] = "MIT";
