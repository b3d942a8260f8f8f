<?php
// The story that every client here goes through (see README.md one folder up), told with php-amqplib.

require_once 'PhpAmqpLib/autoload.php';

use PhpAmqpLib\Connection\AMQPStreamConnection;
use PhpAmqpLib\Exception\AMQPProtocolChannelException;
use PhpAmqpLib\Message\AMQPMessage;
use PhpAmqpLib\Wire\AMQPTable;

error_reporting(E_ALL & ~E_DEPRECATED);

function check(string $what, bool $held): void
{
    if (!$held) {
        fwrite(STDERR, "php: $what\n");
        exit(1);
    }
}

$connection = new AMQPStreamConnection($argv[1], (int) $argv[2], 'guest', 'guest', '/', heartbeat: 2, read_write_timeout: 10);
$channel = $connection->channel();
$channel->confirm_select();
$channel->exchange_declare('compat.php', 'topic', durable: true, auto_delete: false);
$channel->queue_declare('compat.php', durable: true, auto_delete: false);
$channel->queue_purge('compat.php');
$channel->queue_bind('compat.php', 'compat.php', 'order.#');

$returned = [];
$channel->set_return_listener(function ($code, $text, $exchange, $key, $message) use (&$returned) {
    $returned[] = [$code, $message->getBody()];
});
$channel->basic_publish(new AMQPMessage('nowhere to go'), 'compat.php', 'invoice', true);
$channel->wait_for_pending_acks_returns(10);
check('a mandatory message was not returned', $returned === [[312, 'nowhere to go']]);

$headers = [
    'text' => 'häder', 'whole' => 1 << 40, 'real' => 1.5, 'yes' => true, 'no' => false, 'nothing' => null,
    'when' => new DateTime('@1700000000'), 'list' => [1, 'two', [3]], 'table' => ['deep' => ['deeper' => 'x']],
];
$confirmed = 0;
$channel->set_ack_handler(function () use (&$confirmed) { $confirmed++; });
$body = random_bytes(1000000);
$first = new AMQPMessage($body, ['delivery_mode' => 2, 'message_id' => 'm1', 'application_headers' => new AMQPTable($headers)]);
$channel->basic_publish($first, 'compat.php', 'order.1');
for ($n = 0; $n < 99; $n++) {
    $channel->basic_publish(new AMQPMessage("$n", ['delivery_mode' => 2]), 'compat.php', 'order.2');
}
$channel->wait_for_pending_acks(10);
check('not every publish was confirmed', $confirmed === 100);

$channel->basic_qos(0, 10, false);
$seen = [];
$take = function (AMQPMessage $message) use (&$seen, $body, $headers) {
    if ($seen === []) {
        check('a body of 1 MB changed on its way', $message->getBody() === $body);
        check('headers changed', $message->get('application_headers')->getNativeData() == $headers);
        check('properties changed', $message->get('message_id') === 'm1' && $message->get('delivery_mode') === 2);
        $message->nack(true);
    } else {
        $message->ack();
    }
    $seen[] = [$message->isRedelivered(), $message->getBody()];
};
$tag = $channel->basic_consume('compat.php', callback: $take);
while (count($seen) < 101) {
    $channel->wait(null, false, 10);
}
check('the message given back did not come again', in_array([true, $body], $seen, true));
$channel->basic_cancel($tag);
check('basic.get found a message in an empty queue', $channel->basic_get('compat.php') === null);

for ($second = 0; $second < 5; $second++) { // longer than two heartbeats
    sleep(1);
    $connection->checkHeartBeat();
}
try {
    $channel->queue_declare('compat.php', durable: false, auto_delete: false);
    check('a queue was declared anew with other properties', false);
} catch (AMQPProtocolChannelException $error) {
    check("the refusal has code {$error->getCode()}", $error->getCode() === 406);
    $channel = $connection->channel();
}
$channel->queue_delete('compat.php');
$channel->exchange_delete('compat.php');
$connection->close();
