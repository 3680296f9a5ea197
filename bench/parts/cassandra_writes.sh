# shellcheck shell=bash
# Writing over one Cassandra: promkairos with both acknowledgements, the bare driver, KairosDB, in turn. The CPU
# time of a server includes Cassandra's. A turn before the first one warms all of them up.

part_cassandra_writes() {
  local rows
  start_cassandra
  over_cassandra stored store
  start_kairosdb writes stored
  in_turns store_in_turn
  stored_is_found
  if [ "$mode" = full ]; then new_series; fi
  stop_server
  rm -rf "$work/promkairos"
  stop_kairosdb writes
  for round in $(seq "$rounds"); do
    for rows in $([ "$mode" = quick ] && echo 15 || echo 4 15 60); do flushed "$rows"; done
  done
  stop_cassandra
}

# One sample a series in a request, until it is stored. By KairosDB too where there is one.
store_in_turn() {
  local series scrapes=40 start=$((1700000000000 + round * 1000000)) name
  if [ "$mode" = quick ]; then scrapes=5; fi
  series=$(scaled 20000)
  name="$cluster, $(short "$series") series, stored before the answer" stored_load=$name stored_scrapes=$scrapes
  measure "bare driver" "$name"
  "$load" cql "${subject[@]}" --address "$cassandra" "${cassandra_pids[@]}" --series "$series" --rows $scrapes \
    --replication "$nodes"
  measure promkairos "$name"
  "$load" send "${subject[@]}" --address "$address" --pid "$pid" "${cassandra_pids[@]}" --series "$series" \
    --prefix ours --scrapes $scrapes --connections 4 --start $start --only ingest \
    --only "ingest per server CPU second" --only "request p50" --only "request p99"
  if [ ! -d "$work/kairosdb-writes" ]; then return; fi
  measure KairosDB "$name"
  "$load" kairosdb-send "${subject[@]}" --address "$kairosdb" --pid "$kairosdb_pid" --pid "$cassandra_pid" \
    --series "$series" --prefix theirs --scrapes $scrapes --start $start --cassandra "$cassandra" --keyspace stored
}

# What promkairos has acknowledged in all turns is there.
stored_is_found() {
  round=1
  measure promkairos "$stored_load"
  "$load" count --address "$address" --match '__name__=~ours_.+' \
    --expected $(($(scaled 20000) * stored_scrapes * (rounds + 1))) > /dev/null
  record "counted back" 100 "% of what was sent"
}

# Series that nobody has seen, until they and their first samples are stored.
new_series() {
  local series name
  series=$(scaled 200000) round=1
  name="Cassandra, $(short "$series") new series"
  measure promkairos "$name"
  "$load" send "${subject[@]}" --address "$address" --pid "$pid" --pid "$cassandra_pid" --series "$series" \
    --prefix new_ours --scrapes 1 --connections 4 --only ingest --only "ingest per server CPU second"
  measure KairosDB "$name"
  "$load" kairosdb-send "${subject[@]}" --address "$kairosdb" --pid "$kairosdb_pid" --pid "$cassandra_pid" \
    --series "$series" --prefix new_theirs --scrapes 1 --cassandra "$cassandra" --keyspace stored
}

# flushed ROWS: so many samples of each series go to Cassandra at once, in a batch for one partition. The end of
# promkairos flushes. The series stand in the index before.
flushed() {
  local rows=$1 series=20000 name samples keyspace=flushed_$1_$round
  if [ "$rows" = 4 ]; then series=100000; elif [ "$mode$rows" = full15 ]; then series=40000; fi
  series=$(scaled $series) samples=$((series * rows))
  name="$cluster, $rows samples a series flushed from the log"
  measure "bare driver" "$name"
  "$load" cql "${subject[@]}" --address "$cassandra" --series "$series" --rows "$rows" --batch "$rows" \
    --replication "$nodes" --figure flush --only flush
  over_cassandra "$keyspace" wal
  measure promkairos "$name"
  "$load" send --address "$address" --series "$series" --scrapes 1 > /dev/null
  stop_server
  over_cassandra "$keyspace" wal
  "$load" send "${subject[@]}" --address "$address" --series "$series" --scrapes "$rows" \
    --start 1700000015000 --only ingest --only "request p99"
  stop_server
  record flush "$(calculate "$samples / $stopping")" samples/s
  over_cassandra "$keyspace" wal
  "$load" count --address "$address" --expected $((samples + series)) > /dev/null
  record "counted back" 100 "% of what was sent"
  stop_server
  rm -rf "$work/promkairos"
}
