#!/bin/sh
# The story that every client here goes through (see README.md one folder up), as far as rabbitmq-c's command line tools tell it.
set -eu
server="--server=$1 --port=$2"
body=$(mktemp)
trap 'rm -f "$body"' EXIT
head -c 1000000 /dev/urandom >"$body"

fail() { echo "c: $1" >&2; exit 1; }

amqp-delete-queue $server -q compat.c >/dev/null 2>&1 || true
amqp-declare-queue $server -d -q compat.c >/dev/null
amqp-publish $server -r compat.c -p <"$body"
amqp-get $server -q compat.c | cmp - "$body" || fail "a body of 1 MB changed on its way"
if amqp-get $server -q compat.c >/dev/null; then fail "basic.get found a message in an empty queue"; fi
seq 50 | amqp-publish $server -r compat.c -p -l
amqp-consume $server -q compat.c -p 10 -c 50 cat >"$body"
seq 50 | cmp - "$body" || fail "lines came in another order, or changed"
if amqp-declare-queue $server -q compat.c >/dev/null 2>&1; then fail "a queue was declared anew with other properties"; fi
test "$(amqp-delete-queue $server -q compat.c)" = 0 || fail "the queue was not empty at its end"
