#!/usr/bin/perl
# A FastCGI application by libfcgi, and the same as a CGI program: says what arrived,
# or does what is asked for. As an application it is four processes on descriptor 0.
use strict;
use warnings;
use Digest::SHA;
use IO::Handle;
use POSIX ();
use Time::HiRes qw(time sleep);

# out writes to the client, flush sends what was written, note writes to standard error.
my ($in, $out, $note, $flush);

sub answer {
    my ($env) = @_;
    my %q = map { my ($k, $v) = split /=/, $_, 2; ($k => $v // '') } split /&/, $env->{QUERY_STRING} // '';
    if (exists $q{die} && $q{die} eq 'head') {
        $out->("Content-Type: text/plain\r\nX-Half:");
        $flush->();
        POSIX::_exit(3);
    }
    if (exists $q{events}) {
        $out->("Content-Type: text/event-stream\r\n\r\n");
        for (1 .. $q{events}) {
            $out->(sprintf "data: %d\n\n", time * 1e9) or return; # nobody reads it
            $flush->();
            sleep 0.02;
        }
        return;
    }
    if (exists $q{status}) {
        $out->("Status: $q{status} Own Words\r\nContent-Type: text/plain\r\nSet-Cookie: a=1\r\nSet-Cookie: b=2\r\n\r\nstatus $q{status}\n");
        return;
    }
    $out->("Content-Type: text/plain\r\n\r\n");
    if (exists $q{bytes}) {
        my $piece = '0123456789abcdef' x 4096;
        for (my $n = $q{bytes}; $n > 0; $n -= length $piece) {
            $out->(substr $piece, 0, $n) or return;
        }
        return;
    }
    if (exists $q{log}) {
        $note->("from the application: $q{log}\twith a tab\n");
        $out->("logged\n");
        return;
    }
    if (exists $q{die}) {
        $out->('x' x 100000);
        $flush->();
        POSIX::_exit(3);
    }
    my ($sum, $size, $piece) = (Digest::SHA->new(256), 0, '');
    while ($in->($piece)) {
        $size += length $piece;
        $sum->add($piece);
    }
    for (qw(REQUEST_METHOD SCRIPT_NAME PATH_INFO QUERY_STRING CONTENT_LENGTH REQUEST_URI SERVER_PROTOCOL HTTP_X_ODD OWN_VARIABLE)) {
        $out->("$_=" . ($env->{$_} // '(unset)') . "\n");
    }
    $out->(sprintf "IDS=%d %d %s\n", $<, $>, $));
    $out->("READ=$size\nSHA256=" . $sum->hexdigest . "\n");
}

if ($ENV{GATEWAY_INTERFACE}) {
    binmode STDIN;
    binmode STDOUT;
    $| = 0;
    ($in, $out, $note, $flush) = (sub { read STDIN, $_[0], 65536 }, sub { print $_[0] }, sub { print STDERR $_[0] }, sub { STDOUT->flush });
    answer(\%ENV);
    exit;
}

require FCGI;
my %children;
$SIG{TERM} = sub { kill 'TERM', keys %children; exit };
while (1) {
    while (keys %children < 4) {
        my $pid = fork // die "fork: $!";
        serve() if !$pid;
        $children{$pid} = 1;
    }
    delete $children{ wait() };
}

sub serve {
    $SIG{TERM} = 'DEFAULT';
    my ($ih, $oh, $eh, %env) = (IO::Handle->new, IO::Handle->new, IO::Handle->new);
    my $request = FCGI::Request($ih, $oh, $eh, \%env);
    ($in, $out, $note, $flush) = (sub { read $ih, $_[0], 65536 }, sub { print $oh $_[0] }, sub { print $eh $_[0] }, sub { $request->Flush });
    while ($request->Accept >= 0) {
        answer(\%env);
        $request->Finish;
    }
    exit;
}
