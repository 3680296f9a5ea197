# shellcheck shell=bash
# Writing over three nodes of Cassandra, each sample on all of them and acknowledged by two, beside one node with as
# much memory. The nodes share the machine: three do the work of one three times. Then a node is killed while
# samples come, and another when that one is back: nothing that was acknowledged may be missing. It needs 4 GB.

part_three_nodes() {
  local count
  for count in 1 3; do
    start_nodes $count
    over_cassandra stored store
    in_turns store_in_turn
    stored_is_found
    stop_server
    rm -rf "$work/promkairos"
    in_turns flushed 15
    if [ $count = 3 ]; then lose_nodes; fi
    stop_cassandra
  done
}

# The third node dies while samples come, and is away for a flush; the first one dies when it is back.
lose_nodes() {
  local series sending
  series=$(scaled 20000) round=1
  over_cassandra lost store
  "$load" send --address "$address" --series "$series" --scrapes 1 > /dev/null
  measure promkairos "$cluster, one is killed while samples come"
  # A scrape a second, so that it dies in the middle.
  "$load" send "${subject[@]}" --address "$address" --series "$series" --scrapes 30 --rate "$series" \
    --connections 4 --start 1700000015000 --only ingest --only "request p50" --only "request p99" \
    --only "sent again after 503" &
  sending=$!
  sleep 10
  tests/peers/cassandra.sh down "$work/cassandra-3"
  wait $sending
  found $((series * 31))
  stop_server

  measure promkairos "$cluster, one is away, 15 samples a series flushed from the log"
  over_cassandra lost wal
  "$load" send --address "$address" --series "$series" --scrapes 15 --start 1700001000000 > /dev/null
  stop_server
  record flush "$(calculate "$series * 15 / $stopping")" samples/s
  rm -rf "$work/promkairos"

  tests/peers/cassandra.sh again "$peers/cassandra" "$work/cassandra-3" >&2
  tests/peers/cassandra.sh await-up "$work/cassandra-2" 127.0.0.3 2
  tests/peers/cassandra.sh await-up "$work/cassandra-3" 127.0.0.2 1
  tests/peers/cassandra.sh down "$work/cassandra-1"
  measure promkairos "$cluster, another is killed when that one is back"
  over_cassandra lost store
  found $((series * 46))
  stop_server
  rm -rf "$work/promkairos"
}

# found SAMPLES: all of them can be read.
found() {
  "$load" count --address "$address" --expected "$1" > /dev/null
  record "counted back" "$1" samples
}
