// The story that every client here goes through (see README.md one folder up), told with amqplib.
const assert = require("node:assert/strict");
const crypto = require("node:crypto");
const { once } = require("node:events");
const { setTimeout: pause } = require("node:timers/promises");
const amqp = require("amqplib");

const [host, port] = process.argv.slice(2);
const name = "compat.javascript";

async function main() {
  const connection = await amqp.connect(`amqp://guest:guest@${host}:${port}/?heartbeat=1`);
  const channel = await connection.createConfirmChannel();
  await channel.assertExchange(name, "topic", { durable: true });
  await channel.assertQueue(name, { durable: true });
  await channel.purgeQueue(name);
  await channel.bindQueue(name, name, "order.#");

  const returned = once(channel, "return");
  channel.publish(name, "invoice", Buffer.from("nowhere to go"), { mandatory: true });
  assert.equal((await returned)[0].fields.replyCode, 312, "a mandatory message was not returned");

  const headers = {
    text: "häder", whole: 2 ** 40, negative: -5, real: 1.5, yes: true, no: false, nothing: null,
    bytes: Buffer.from([0, 255]), list: [1, "two", [3]], table: { deep: { deeper: "x" } },
    when: { "!": "timestamp", value: 1700000000 }, decimal: { "!": "decimal", value: { digits: 314, places: 2 } },
  };
  const body = crypto.randomBytes(1_000_000);
  channel.publish(name, "order.1", body, { persistent: true, messageId: "m1", headers });
  for (let n = 0; n < 99; n++) channel.publish(name, "order.2", Buffer.from(`${n}`), { persistent: true });
  await channel.waitForConfirms();
  assert.equal((await channel.checkQueue(name)).messageCount, 100, "the queue does not hold 100 messages");

  await channel.prefetch(10);
  let again = false;
  let seen = 0;
  await new Promise((resolve, reject) => {
    const take = (message) => {
      if (seen++ === 0) {
        assert.ok(message.content.equals(body), "a body of 1 MB changed on its way");
        assert.deepEqual(message.properties.headers, headers, "headers changed");
        assert.equal(message.properties.messageId, "m1");
        channel.nack(message, false, true);
        return;
      }
      again ||= message.fields.redelivered && message.content.equals(body);
      channel.ack(message);
      if (seen === 101) resolve();
    };
    channel.consume(name, (message) => { try { take(message); } catch (error) { reject(error); } }, { consumerTag: "one" });
  });
  assert.ok(again, "the message given back did not come again");
  await channel.cancel("one");
  assert.equal(await channel.get(name), false, "basic.get found a message in an empty queue");

  await pause(3000); // longer than two heartbeats: the connection stands although nobody sends anything
  const refused = await connection.createChannel();
  refused.on("error", () => {});
  await assert.rejects(refused.assertQueue(name, { durable: false }), /406/, "declared anew with other properties");
  await channel.deleteQueue(name);
  await channel.deleteExchange(name);
  await connection.close();
}

main().catch((error) => {
  console.error("javascript:", error);
  process.exit(1);
});
