# shellcheck shell=bash
# Reading an hour of 15 s from one Cassandra: promkairos, the bare driver's SELECTs, KairosDB with and without its
# tag index, in short turns, for Cassandra gets slower and faster while all this runs. A turn before the first
# one warms all of them up. promkairos is started anew in each turn: its first query knows nothing. Without its
# read cache it reads as much as the others; with it, only the first time.

part_cassandra_reads() {
  wide_series=$(scaled 10000) fleet_series=$(scaled 8800)
  wide=(--series "$wide_series" --per-metric "$wide_series" --prefix wide)
  indexed_metric=wide_00000_operations_total
  start_cassandra
  start_reader
  "$load" send --address "$address" "${wide[@]}" --scrapes 240 --connections 4 > /dev/null
  "$load" send --address "$address" --series "$fleet_series" --scrapes 240 --connections 4 > /dev/null
  stop_server
  start_kairosdb indexed read "datastore.cassandra.write_cluster.tag_indexed_row_key_lookup_metrics: [\"$indexed_metric\"]"
  indexed=$kairosdb
  start_kairosdb plain read
  in_turns read_in_turn
  start_reader
  shared_metric
  stop_server
  stop_kairosdb plain
  stop_kairosdb indexed
  rm -rf "$work/promkairos"
  stop_cassandra
  in_turns read_embedded
}

# start_reader [FLAG ...]
start_reader() { over_cassandra read store --tag-indexed-row-key-lookup-metrics "$indexed_metric" "$@"; }

read_in_turn() {
  start_reader --cassandra-read-cache-size 0
  read_one
  read_400
  read_fleet
  stop_server
  start_reader
  ask_for_fleet "promkairos, read cache"
  stop_server
}

# The same fleet from the files of the embedded store.
read_embedded() {
  start_promkairos
  "$load" send --address "$address" --series "$fleet_series" --scrapes 240 > /dev/null
  stop_server
  start_promkairos
  ask_for_fleet "promkairos, embedded"
  stop_server
  rm -rf "$work/promkairos"
}

# The series of one instance among those of a metric.
read_one() {
  local instance=10.6.15.8:9100 name
  name="Cassandra, 1 of $wide_series series, 1 h"
  if [ "$wide_series" -lt 3759 ]; then instance=10.0.0.0:9100; fi
  measure promkairos "$name"
  "$load" count "${subject[@]}" --address "$address" --rounds 9 --match "__name__=$indexed_metric" \
    --match "instance=$instance"
  measure KairosDB "$name"
  "$load" kairosdb-query "${subject[@]}" --address "$kairosdb" --rounds 9 --metric "$indexed_metric" \
    --tag "instance=$instance"
  measure "KairosDB, tag index" "$name"
  "$load" kairosdb-query "${subject[@]}" --address "$indexed" --rounds 9 --metric "$indexed_metric" \
    --tag "instance=$instance"
}

read_400() {
  local pods name="Cassandra, 400 of $wide_series series, 1 h"
  pods=$(seq -f application-server-00000000-%05.0f 0 399 | paste -sd,)
  measure promkairos "$name"
  "$load" count "${subject[@]}" --address "$address" --rounds 7 --match "__name__=$indexed_metric" \
    --match "pod=~application-server-00000000-00[0-3].+"
  measure "bare driver" "$name"
  "$load" rows "${subject[@]}" --cassandra "$cassandra" --keyspace read --series 400 --per-metric "$wide_series" \
    --prefix wide --rounds 7
  measure KairosDB "$name"
  "$load" kairosdb-query "${subject[@]}" --address "$kairosdb" --rounds 7 --metric "$indexed_metric" --tag "pod=$pods"
}

# ask_for_fleet NAME: the server that runs.
ask_for_fleet() {
  measure "$1" "Cassandra, $(short "$fleet_series") series, 1 h"
  "$load" query "${subject[@]}" --address "$address" --pid "$pid" --rounds 3 --figure "sum by(rate)" \
    --path "$(sum_rate_path "$everything")&$(range 60 1700003585)"
  "$load" count "${subject[@]}" --address "$address" --rounds 3
}

read_fleet() {
  local metrics=() metric name
  name="Cassandra, $(short "$fleet_series") series, 1 h"
  for metric in $(seq -f %05.0f 0 $(((fleet_series - 1) / 400))); do
    metrics+=(--metric "bench_subsystem_${metric}_operations_total")
  done
  ask_for_fleet promkairos
  # The driver only reads what the sum has to read.
  measure "bare driver" "$name"
  for figure in "sum by(rate)" read; do
    "$load" rows "${subject[@]}" --cassandra "$cassandra" --keyspace read --series "$fleet_series" --rounds 3 \
      --figure "$figure" --only "$figure, first" --only "$figure, again"
  done
  measure KairosDB "$name"
  "$load" kairosdb-query "${subject[@]}" --address "$kairosdb" --rounds 3 "${metrics[@]}"
}

# What KairosDB's queries take of a metric that promkairos has written too, the same series and points, and of
# one that it has not. Small requests: KairosDB loses the index rows of many new series at once.
shared_metric() {
  local metric shape=(--series 400 --per-metric 400 --scrapes 240) name="Cassandra, KairosDB asks for 400 series, 1 h"
  for metric in alone shared; do
    "$load" kairosdb-send --address "$kairosdb" "${shape[@]}" --prefix $metric --samples 50 --connections 1 \
      --cassandra "$cassandra" --keyspace read > /dev/null
  done
  "$load" send --address "$address" "${shape[@]}" --prefix shared > /dev/null
  for round in $(seq "$rounds"); do
    for metric in alone shared; do
      measure KairosDB "$name"
      "$load" kairosdb-query "${subject[@]}" --address "$kairosdb" --rounds 15 --metric ${metric}_00000_operations_total \
        --figure "written by $([ $metric = alone ] && echo KairosDB alone || echo both)"
    done
  done
}
