// The story that every client here goes through (see README.md one folder up), told with amqp091-go.
package main

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"os"
	"reflect"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

const name = "compat.go"

func check(what string, held bool) {
	if !held {
		fmt.Fprintln(os.Stderr, "go: "+what)
		os.Exit(1)
	}
}

func must(err error) {
	check(fmt.Sprint(err), err == nil)
}

func next(from <-chan amqp.Delivery) amqp.Delivery {
	select {
	case delivery := <-from:
		return delivery
	case <-time.After(10 * time.Second):
		check("no delivery within 10 s", false)
		panic("unreachable")
	}
}

func main() {
	url := fmt.Sprintf("amqp://guest:guest@%s:%s/", os.Args[1], os.Args[2])
	connection, err := amqp.DialConfig(url, amqp.Config{Heartbeat: time.Second})
	must(err)
	channel, err := connection.Channel()
	must(err)
	must(channel.Confirm(false))
	must(channel.ExchangeDeclare(name, "topic", true, false, false, false, nil))
	_, err = channel.QueueDeclare(name, true, false, false, false, nil)
	must(err)
	_, err = channel.QueuePurge(name, false)
	must(err)
	must(channel.QueueBind(name, "order.#", name, false, nil))

	confirms := channel.NotifyPublish(make(chan amqp.Confirmation, 200))
	returns := channel.NotifyReturn(make(chan amqp.Return, 1))
	must(channel.Publish(name, "invoice", true, false, amqp.Publishing{Body: []byte("nowhere to go")}))
	check("the unroutable publish was not confirmed", (<-confirms).Ack)
	check("a mandatory message was not returned", (<-returns).ReplyCode == amqp.NoRoute)

	headers := amqp.Table{
		"text": "häder", "byte": byte(200), "int8": int8(-8), "int16": int16(-16), "int32": int32(-32), "int64": int64(1) << 40,
		"float": float32(1.5), "double": 2.5, "yes": true, "no": false, "nothing": nil, "bytes": []byte{0, 255},
		"when": time.Unix(1700000000, 0), "decimal": amqp.Decimal{Scale: 2, Value: 314},
		"list": []interface{}{int32(1), "two", []interface{}{int32(3)}}, "table": amqp.Table{"deep": amqp.Table{"deeper": "x"}},
	}
	body := make([]byte, 1000000)
	_, err = rand.Read(body)
	must(err)
	first := amqp.Publishing{DeliveryMode: amqp.Persistent, MessageId: "m1", Headers: headers, Body: body}
	must(channel.Publish(name, "order.1", false, false, first))
	for n := 0; n < 99; n++ {
		must(channel.Publish(name, "order.2", false, false, amqp.Publishing{DeliveryMode: amqp.Persistent, Body: []byte{byte(n)}}))
	}
	for n := 0; n < 100; n++ {
		check("a publish was not confirmed", (<-confirms).Ack)
	}

	must(channel.Qos(10, 0, false))
	deliveries, err := channel.Consume(name, "one", false, false, false, false, nil)
	must(err)
	delivery := next(deliveries)
	check("a body of 1 MB changed on its way", bytes.Equal(delivery.Body, body))
	check(fmt.Sprintf("headers changed: %v", delivery.Headers), reflect.DeepEqual(delivery.Headers, headers))
	check("properties changed", delivery.MessageId == "m1" && delivery.DeliveryMode == amqp.Persistent)
	must(delivery.Nack(false, true))
	again := false
	for n := 0; n < 100; n++ {
		delivery = next(deliveries)
		again = again || delivery.Redelivered && bytes.Equal(delivery.Body, body)
		must(delivery.Ack(false))
	}
	check("the message given back did not come again", again)
	must(channel.Cancel("one", false))
	_, found, err := channel.Get(name, false)
	must(err)
	check("basic.get found a message in an empty queue", !found)

	time.Sleep(3 * time.Second) // longer than two heartbeats: the connection stands although nobody sends anything
	check("the connection did not outlive its heartbeats", !connection.IsClosed())
	_, err = channel.QueueDeclare(name, false, false, false, false, nil)
	refusal, refused := err.(*amqp.Error)
	check(fmt.Sprintf("declared anew with other properties: %v", err), refused && refusal.Code == amqp.PreconditionFailed)
	channel, err = connection.Channel()
	must(err)
	_, err = channel.QueueDelete(name, false, false, false)
	must(err)
	must(channel.ExchangeDelete(name, false, false))
	must(connection.Close())
}
