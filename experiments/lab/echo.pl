# Datagrams there and back:
#   echo.pl answer PORT             sends back what comes
#   echo.pl ask ADDRESS PORT COUNT  sends so many of 200 bytes, one each millisecond, and tells as JSON how long their round trips took
use strict;
use warnings;
use Socket;
use Time::HiRes qw(clock_gettime CLOCK_MONOTONIC);

my ($role, @rest) = @ARGV;
socket(my $socket, PF_INET, SOCK_DGRAM, getprotobyname("udp") || 17) or die "socket: $!";

if ($role eq "answer") {
    bind($socket, sockaddr_in($rest[0], INADDR_ANY)) or die "bind: $!";
    while (1) {
        my $from = recv($socket, my $datagram, 2048, 0);
        send($socket, $datagram, 0, $from) if defined $from;
    }
}

my ($address, $port, $count) = @rest;
connect($socket, sockaddr_in($port, inet_aton($address))) or die "connect: $!";

# Waits for answers until then, and takes down how long they took, by their numbers: one that comes twice counts once.
my %round_trips;
sub answers_until {
    my ($until) = @_;
    while ((my $left = $until - clock_gettime(CLOCK_MONOTONIC)) > 0) {
        my $readable = "";
        vec($readable, fileno($socket), 1) = 1;
        next unless select($readable, undef, undef, $left) > 0;
        next unless defined recv($socket, my $answer, 2048, 0);
        my ($sent, $number) = unpack("dN", $answer);
        $round_trips{$number} //= clock_gettime(CLOCK_MONOTONIC) - $sent;
    }
}

my $begin = clock_gettime(CLOCK_MONOTONIC);
for my $number (1 .. $count) {
    send($socket, pack("dN", clock_gettime(CLOCK_MONOTONIC), $number) . "\0" x 188, 0);
    answers_until($begin + $number / 1000);
}
answers_until(clock_gettime(CLOCK_MONOTONIC) + 1);

my @sorted = sort { $a <=> $b } values %round_trips;
die "nothing came back\n" unless @sorted;
printf "{\"asked\": %d, \"unanswered\": %d, \"rtt_p50_us\": %.1f, \"rtt_p99_us\": %.1f}\n",
    $count, $count - @sorted, 1e6 * $sorted[@sorted / 2], 1e6 * $sorted[@sorted * 0.99];
