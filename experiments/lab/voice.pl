# Calls of AMR at 12.2 kbit/s, a packet of 72 bytes each 20 ms:
#   voice.pl send ADDRESS PORT CALLS SECONDS TOS          so many from the machine NAME.1, the next from NAME.2, and so on
#   voice.pl listen PORT CALLS FROM SECONDS WAITS BYWAY   listens until WAITS seconds are over, and tells as JSON what people would think of them; what is
#                                                         spoken before the second FROM does not count, as links do not know at once of all calls
use strict;
use warnings;
use Cwd;
use Socket qw(:DEFAULT IPPROTO_IP IP_TOS);
use Time::HiRes qw(clock_gettime CLOCK_MONOTONIC sleep);

use constant EVERY => 0.02;
use constant HEADERS => 28;
use constant PACKET => 72;

my ($role, @rest) = @ARGV;
socket(my $socket, PF_INET, SOCK_DGRAM, getprotobyname("udp") || 17) or die "socket: $!";

# What is sent of all calls together has its own time each, so that no two begin at once.
if ($role eq "send") {
    my ($address, $port, $calls, $seconds, $tos) = @rest;
    my ($machine) = getcwd() =~ /\.(\d+)$/;
    setsockopt($socket, IPPROTO_IP, IP_TOS, int $tos) or die "TOS: $!";
    connect($socket, sockaddr_in($port, inet_aton($address))) or die "connect: $!";
    my $begin = clock_gettime(CLOCK_MONOTONIC);
    for my $number (0 .. $seconds / EVERY - 1) {
        for my $call (0 .. $calls - 1) {
            my $wait = $begin + ($number + $call / $calls) * EVERY - clock_gettime(CLOCK_MONOTONIC);
            sleep($wait) if $wait > 0;
            my $header = pack("dNN", clock_gettime(CLOCK_MONOTONIC), ($machine - 1) * $calls + $call, $number);
            send($socket, $header . "\0" x (PACKET - HEADERS - length $header), 0);
        }
    }
    print "{\"sent\": ", $calls * int($seconds / EVERY), "}\n";
    exit 0;
}

my ($port, $calls, $from, $seconds, $waits, $byway) = @rest;
setsockopt($socket, SOL_SOCKET, SO_RCVBUF, 4_000_000) or die "buffer: $!";
bind($socket, sockaddr_in($port, INADDR_ANY)) or die "bind: $!";
my @took = map { [("lost") x ($seconds / EVERY)] } 1 .. $calls;
my $until = clock_gettime(CLOCK_MONOTONIC) + $waits;
while ((my $left = $until - clock_gettime(CLOCK_MONOTONIC)) > 0) {
    my $readable = "";
    vec($readable, fileno($socket), 1) = 1;
    next unless select($readable, undef, undef, $left) > 0;
    next unless defined recv($socket, my $packet, 2048, 0);
    my ($sent, $call, $number) = unpack("dNN", $packet);
    $took[$call][$number] = sprintf("%.3f", 1000 * (clock_gettime(CLOCK_MONOTONIC) - $sent));
}
open(my $file, ">", "delays") or die "delays: $!";
print $file "@$_[$from / EVERY .. $#$_]\n" for @took;
close($file) or die "delays: $!";
exec($byway, "experiment", "calls", "delays") or die "$byway: $!";
