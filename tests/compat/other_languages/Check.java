// The story that every client here goes through (see README.md one folder up), told with RabbitMQ's Java client.

import com.rabbitmq.client.*;
import java.math.BigDecimal;
import java.util.*;
import java.util.concurrent.*;

public class Check {
    static final String NAME = "compat.java";

    static void check(String what, boolean held) {
        if (!held) {
            System.err.println("java: " + what);
            System.exit(1);
        }
    }

    static final class Message {
        final Envelope envelope;
        final AMQP.BasicProperties properties;
        final byte[] body;

        Message(Envelope envelope, AMQP.BasicProperties properties, byte[] body) {
            this.envelope = envelope;
            this.properties = properties;
            this.body = body;
        }
    }

    static boolean same(Object sent, Object got) { // the client gives texts as LongString and tables as Map
        if (sent instanceof Map) {
            Map<?, ?> table = (Map<?, ?>) sent;
            return got instanceof Map && table.keySet().equals(((Map<?, ?>) got).keySet())
                && table.keySet().stream().allMatch(key -> same(table.get(key), ((Map<?, ?>) got).get(key)));
        }
        if (sent instanceof List) {
            List<?> list = (List<?>) sent;
            boolean alike = got instanceof List && list.size() == ((List<?>) got).size();
            for (int n = 0; alike && n < list.size(); n++) {
                alike = same(list.get(n), ((List<?>) got).get(n));
            }
            return alike;
        }
        return sent instanceof String ? sent.equals(String.valueOf(got)) : Objects.deepEquals(sent, got);
    }

    public static void main(String[] arguments) throws Exception {
        ConnectionFactory factory = new ConnectionFactory();
        factory.setHost(arguments[0]);
        factory.setPort(Integer.parseInt(arguments[1]));
        factory.setRequestedHeartbeat(1);
        factory.setAutomaticRecoveryEnabled(false);
        Connection connection = factory.newConnection();
        Channel channel = connection.createChannel();
        channel.confirmSelect();
        channel.exchangeDeclare(NAME, "topic", true);
        channel.queueDeclare(NAME, true, false, false, null);
        channel.queuePurge(NAME);
        channel.queueBind(NAME, NAME, "order.#");

        BlockingQueue<Integer> returned = new LinkedBlockingQueue<>();
        channel.addReturnListener((code, text, exchange, key, properties, body) -> returned.add(code));
        channel.basicPublish(NAME, "invoice", true, null, "nowhere to go".getBytes());
        check("a mandatory message was not returned", Integer.valueOf(312).equals(returned.poll(10, TimeUnit.SECONDS)));

        Map<String, Object> headers = new HashMap<>();
        headers.put("text", "häder");
        headers.put("byte", (byte) -8);
        headers.put("short", (short) -16);
        headers.put("int", -32);
        headers.put("long", 1L << 40);
        headers.put("float", 1.5f);
        headers.put("double", 2.5);
        headers.put("yes", true);
        headers.put("nothing", null);
        headers.put("bytes", new byte[] {0, -1});
        headers.put("when", new Date(1700000000000L));
        headers.put("decimal", new BigDecimal("3.14"));
        headers.put("list", Arrays.asList(1, "two", Arrays.asList(3)));
        headers.put("table", Collections.singletonMap("deep", Collections.singletonMap("deeper", "x")));
        byte[] body = new byte[1_000_000];
        new Random(7).nextBytes(body);
        AMQP.BasicProperties first = new AMQP.BasicProperties.Builder().deliveryMode(2).messageId("m1").headers(headers).build();
        channel.basicPublish(NAME, "order.1", first, body);
        for (int n = 0; n < 99; n++) {
            channel.basicPublish(NAME, "order.2", MessageProperties.PERSISTENT_BASIC, String.valueOf(n).getBytes());
        }
        channel.waitForConfirmsOrDie(10_000);
        check("the queue does not hold 100 messages", channel.messageCount(NAME) == 100);

        channel.basicQos(10);
        BlockingQueue<Message> received = new LinkedBlockingQueue<>();
        String tag = channel.basicConsume(NAME, false, new DefaultConsumer(channel) {
            @Override
            public void handleDelivery(String ignored, Envelope envelope, AMQP.BasicProperties properties, byte[] content) {
                received.add(new Message(envelope, properties, content));
            }
        });
        Message message = received.poll(10, TimeUnit.SECONDS);
        check("nothing was delivered within 10 s", message != null);
        check("a body of 1 MB changed on its way", Arrays.equals(message.body, body));
        check("headers changed: " + message.properties.getHeaders(), same(headers, message.properties.getHeaders()));
        check("properties changed", message.properties.getMessageId().equals("m1"));
        channel.basicNack(message.envelope.getDeliveryTag(), false, true);
        boolean again = false;
        for (int n = 0; n < 100; n++) {
            message = received.poll(10, TimeUnit.SECONDS);
            check("nothing was delivered within 10 s", message != null);
            again |= message.envelope.isRedeliver() && Arrays.equals(message.body, body);
            channel.basicAck(message.envelope.getDeliveryTag(), false);
        }
        check("the message given back did not come again", again);
        channel.basicCancel(tag);
        check("basic.get found a message in an empty queue", channel.basicGet(NAME, false) == null);

        Thread.sleep(3000); // longer than two heartbeats: the connection stands although nobody sends anything
        check("the connection did not outlive its heartbeats", connection.isOpen());
        try {
            channel.queueDeclare(NAME, false, false, false, null);
            check("a queue was declared anew with other properties", false);
        } catch (java.io.IOException refusal) {
            check("refused otherwise: " + refusal.getCause(), refusal.getCause().getMessage().contains("reply-code=406"));
        }
        channel = connection.createChannel();
        channel.queueDelete(NAME);
        channel.exchangeDelete(NAME);
        connection.close();
    }
}
