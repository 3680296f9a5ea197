#!/usr/bin/env bash
# Measures promkairos against its load generator, and against the bare Cassandra driver in the same
# run. usage: bench/run.sh [RESULT_FILE]
# Cassandra is fetched by tests/peers/ and started here. Everything stays on 127.0.0.1.
set -euo pipefail
cd "$(dirname "$0")/.."
result=${1:-/dev/stdout}
# shellcheck source=functions.sh
. bench/functions.sh

{
  echo '{'
  machine

  start "$work/log"
  "$load" send --address "$address" --series 200000 --scrapes 100 --pid "$pid" | note ingest_200k
  "$load" count --address "$address" --pid "$pid" | note count_200k
  stop; rm -rf "$work/data"

  # The log holds 10 M samples when the process is killed.
  start "$work/log"
  "$load" send --address "$address" --series 200000 --scrapes 50 --pid "$pid" | note ingest_before_kill
  kill -9 "$pid"; wait "$pid" || true
  start "$work/log"
  printf '"ready_seconds_after_kill_10M": %s,\n' "$ready"
  "$load" count --address "$address" --pid "$pid" | note count_after_kill
  stop; rm -rf "$work/data"

  start "$work/log"
  "$load" send --address "$address" --series 1000000 --scrapes 20 --pid "$pid" | note ingest_1M
  "$load" count --address "$address" --pid "$pid" | note count_1M
  stop
  printf '"disk_bytes_1M_after_drain": %s,\n' "$(du -sb "$work/data/embedded" | cut -f1)"
  rm -rf "$work/data"

  tests/peers/fetch.sh "$peers" >&2
  tests/peers/cassandra.sh up "$peers/cassandra" "$work/cassandra" >&2
  cassandra=$(cat "$work/cassandra/address")
  start "$work/log" --store cassandra --cassandra-contact-points "$cassandra" --cassandra-keyspace bench
  # Twice in turn; the first pair warms the server up and its figures are only kept for comparison.
  for round in warm_up measured; do
    "$load" cql --address "$cassandra" --series 20000 --rounds 40 | note "driver_$round"
    "$load" send --address "$address" --series 20000 --scrapes 40 --connections 4 --pid "$pid" \
      --start "$((1700000000000 + $([ $round = measured ] && echo 1 || echo 0) * 1000000))" |
      note "cassandra_$round"
  done
  "$load" count --address "$address" | note count_cassandra
  stop
  echo '"end": true'
  echo '}'
} > "$result"
