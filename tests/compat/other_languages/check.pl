# The story that every client here goes through (see README.md one folder up), told with AnyEvent::RabbitMQ.
use strict;
use warnings;
use AnyEvent;
use AnyEvent::RabbitMQ;

my ($host, $port) = @ARGV;
my $name = 'compat.perl';

sub check { my ($what, $held) = @_; die "perl: $what\n" unless $held }

sub answer { # call METHOD of WHAT, and wait for its answer
    my ($what, $method, %arguments) = @_;
    my $answered = AnyEvent->condvar;
    my $late = AnyEvent->timer(after => 10, cb => sub { $answered->croak("perl: $method was not answered within 10 s") });
    $what->$method(
        on_success => sub { $answered->send($_[0]) },
        on_failure => sub { $answered->croak("perl: $method: " . (ref $_[0] ? $_[0]->method_frame->reply_text : $_[0])) },
        %arguments,
    );
    return $answered->recv;
}

my $client = AnyEvent::RabbitMQ->new->load_xml_spec;
my @login = (user => 'guest', pass => 'guest', vhost => '/', timeout => 10, tune => { heartbeat => 1 });
answer($client, 'connect', host => $host, port => $port, @login);
my $channel = answer($client, 'open_channel');
answer($channel, 'declare_exchange', exchange => $name, type => 'topic', durable => 1);
answer($channel, 'declare_queue', queue => $name, durable => 1, auto_delete => 0);
answer($channel, 'purge_queue', queue => $name);
answer($channel, 'bind_queue', queue => $name, exchange => $name, routing_key => 'order.#');
answer($channel, 'confirm');

sub publish { # and wait until it is confirmed
    my (%arguments) = @_;
    my $said = AnyEvent->condvar;
    my @confirm = (on_ack => sub { $said->send(1) }, on_nack => sub { $said->send(0) });
    $channel->publish(exchange => $name, @confirm, %arguments);
    check('a publish was not confirmed', $said->recv);
}

my $body = join '', map { chr(($_ * 7919) % 256) } 1 .. 1_000_000;
my $returned = AnyEvent->condvar;
publish(routing_key => 'invoice', body => 'nowhere to go', mandatory => 1, on_return => sub { $returned->send($_[0]) });
check('a mandatory message was not returned', $returned->recv->method_frame->reply_code == 312);
my $headers = { text => 'header', whole => 7, table => { deep => 'x' } };
my $first = { delivery_mode => 2, message_id => 'm1', headers => $headers };
publish(routing_key => 'order.1', body => $body, header => $first);
publish(routing_key => 'order.2', body => "$_", header => { delivery_mode => 2 }) for 1 .. 99;

answer($channel, 'qos', prefetch_count => 10);
my $finished = AnyEvent->condvar;
my ($seen, $again) = (0, 0);
my $tag = answer($channel, 'consume', queue => $name, no_ack => 0, on_consume => sub {
    my ($message) = @_;
    my $delivery = $message->{deliver}->method_frame;
    if ($seen++ == 0) {
        check('a body of 1 MB changed on its way', $message->{body}->payload eq $body);
        check('headers changed', $message->{header}->headers->{table}{deep} eq 'x');
        $channel->reject(delivery_tag => $delivery->delivery_tag, requeue => 1);
        return;
    }
    $again ||= $delivery->redelivered && $message->{body}->payload eq $body;
    $channel->ack(delivery_tag => $delivery->delivery_tag);
    $finished->send if $seen == 101;
});
my $late = AnyEvent->timer(after => 30, cb => sub { $finished->croak("perl: only $seen deliveries within 30 s") });
$finished->recv;
check('the message given back did not come again', $again);
answer($channel, 'cancel', consumer_tag => $tag->method_frame->consumer_tag);
check('basic.get found a message in an empty queue', exists answer($channel, 'get', queue => $name)->{empty});

my $quiet = AnyEvent->condvar; # longer than two heartbeats: the connection stands although nobody sends anything
my $timer = AnyEvent->timer(after => 3, cb => sub { $quiet->send });
$quiet->recv;
answer($channel, 'delete_queue', queue => $name);
answer($channel, 'delete_exchange', exchange => $name);
answer($client, 'close');
