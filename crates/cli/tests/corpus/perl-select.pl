#!/usr/bin/perl
# perl with select, non-blocking pipes and several children that write at the same time.
use strict; use warnings; use IO::Select; use Fcntl; use POSIX ();
my ($select, %got) = IO::Select->new;
for my $n (1 .. 4) {
    pipe(my $r, my $w) or die;
    if (!fork) { close $r; syswrite $w, chr(64 + $n) x 1000 for 1 .. 300; POSIX::_exit($n) }
    close $w; fcntl($r, F_SETFL, fcntl($r, F_GETFL, 0) | O_NONBLOCK) or die; $select->add($r); $got{$r} = '';
}
while ($select->count) {
    for my $r ($select->can_read) {
        my $read = sysread $r, my $bytes, 65536;
        if (!defined $read) { die $! unless $!{EAGAIN} } elsif (!$read) { $select->remove($r) } else { $got{$r} .= $bytes }
    }
}
my $status = 0; 1 while wait > 0 && ($status += $? >> 8);
print "$_\n" for sort map { substr($_, 0, 1) . length } values %got; print "$status\n";
