# Flows of one packet, each to a port of its own:
#   dummies.pl ADDRESS TOS EACH_SECOND SECONDS
use strict;
use warnings;
use Socket qw(:DEFAULT IPPROTO_IP IP_TOS);
use Time::HiRes qw(clock_gettime CLOCK_MONOTONIC sleep);

my ($address, $tos, $each_second, $seconds) = @ARGV;
socket(my $socket, PF_INET, SOCK_DGRAM, getprotobyname("udp") || 17) or die "socket: $!";
setsockopt($socket, IPPROTO_IP, IP_TOS, int $tos) or die "TOS: $!";
my ($begin, $host) = (clock_gettime(CLOCK_MONOTONIC), inet_aton($address));
for my $number (0 .. $each_second * $seconds - 1) {
    my $wait = $begin + $number / $each_second - clock_gettime(CLOCK_MONOTONIC);
    sleep($wait) if $wait > 0;
    send($socket, "\0" x 12, 0, sockaddr_in(10000 + $number % 50000, $host));
}
