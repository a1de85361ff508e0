#!/usr/bin/perl
# perl opens pipes from and to commands, backquotes, a child on the end of a pipe, and IPC::Open3.
use strict; use warnings; use IPC::Open3; use IO::Handle;
$| = 1;
open(my $from, '-|', 'seq', 1, 20000) or die; my $sum = 0; $sum += $_ while <$from>; close $from; print "$sum $?\n";
open(my $to, '|-', 'sort -rn | head -n 3') or die; print $to "$_\n" for 1 .. 5000; close $to; print "$?\n";
my $text = `echo backquotes; exit 3`; print $text, $? >> 8, "\n";
my $pid = open(my $child, '-|') // die; if (!$pid) { print "from the child $_\n" for 1 .. 3; exit 7 }
print while <$child>; close $child; print $? >> 8, "\n";
my $three = open3(my $in, my $out, undef, 'tr a-z A-Z; echo oops >&2; exit 2');
print $in "open3\n" x 3; close $in; print sort <$out>; waitpid $three, 0; print $? >> 8, "\n";
pipe(my $r, my $w) or die; $w->autoflush(1); print $w "x" x 4096; sysread $r, my $got, 100; print length $got, "\n";
