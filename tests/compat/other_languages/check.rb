# The story that every client here goes through (see README.md one folder up), told with Bunny.
require "bunny"

host, port = ARGV[0], ARGV[1].to_i
check = ->(what, held) { held or abort "ruby: #{what}" }

connection = Bunny.new(host: host, port: port, user: "guest", pass: "guest", heartbeat: 1, automatically_recover: false)
connection.start
channel = connection.create_channel
channel.confirm_select
exchange = channel.topic("compat.ruby", durable: true)
queue = channel.queue("compat.ruby", durable: true)
queue.purge
queue.bind(exchange, routing_key: "order.#")

returned = ::Queue.new
exchange.on_return { |info, _properties, body| returned << [info.reply_code, body] }
exchange.publish("nowhere to go", routing_key: "invoice", mandatory: true)
check["a mandatory message was not returned", returned.pop == [312, "nowhere to go"]]

headers = {
  "text" => "häder".b, "whole" => 1 << 40, "real" => 1.5, "yes" => true, "no" => false, "nothing" => nil,
  "when" => Time.at(1_700_000_000), "list" => [1, "two", [3]], "table" => { "deep" => { "deeper" => "x" } }
}
body = Random.new(7).bytes(1_000_000)
exchange.publish(body, routing_key: "order.1", persistent: true, headers: headers, message_id: "m1")
99.times { |n| exchange.publish(n.to_s, routing_key: "order.2", persistent: true) }
check["not every publish was confirmed", channel.wait_for_confirms]
check["the queue does not hold 100 messages", queue.message_count == 100]

channel.prefetch(10)
received = ::Queue.new
consumer = queue.subscribe(manual_ack: true) { |*message| received << message }
info, properties, large = received.pop
check["a body of 1 MB changed on its way", large.b == body.b]
check["headers changed: #{properties.headers}", properties.headers == headers]
check["properties changed", properties.message_id == "m1" && properties.delivery_mode == 2]
channel.nack(info.delivery_tag, false, true)
bodies = 100.times.map do
  info, _properties, text = received.pop
  channel.ack(info.delivery_tag)
  [info.redelivered?, text.b]
end
check["the message given back did not come again", bodies.include?([true, body.b])]
consumer.cancel
check["basic.get found a message in an empty queue", queue.pop.first.nil?]

sleep 3 # longer than two heartbeats: the connection stands although nobody sends anything
check["the connection did not outlive its heartbeats", connection.open?]
begin
  connection.create_channel.queue("compat.ruby", durable: false)
  abort "ruby: a queue was declared anew with other properties"
rescue Bunny::PreconditionFailed # as it must be
end
channel.queue_delete("compat.ruby")
channel.exchange_delete("compat.ruby")
connection.close
