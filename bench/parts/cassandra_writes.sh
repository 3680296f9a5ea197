# shellcheck shell=bash
# Writing over one Cassandra: promkairos with both acknowledgements, the bare driver, KairosDB, in turn, another one
# first each time. The CPU time of a server includes Cassandra's, its memory does not. A turn before the first one
# warms all of them up: a young Cassandra takes three times as long for a batch as one that has seen a million rows.

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
  for rows in $([ "$mode" = quick ] && echo 15 || echo 4 15 60); do in_turns flushed "$rows"; done
  round=1
  killed_over_cassandra store 5
  killed_over_cassandra wal "$([ "$mode" = quick ] && echo 15 || echo 60)"
  stop_cassandra
}

# One sample a series in a request, until it is stored. By KairosDB too where there is one.
store_in_turn() {
  local series scrapes=40 start=$((1700000000000 + round * 1000000)) name servers=(driver promkairos)
  if [ "$mode" = quick ]; then scrapes=5; fi
  if [ -d "$work/kairosdb-writes" ]; then servers+=(kairosdb); fi
  series=$(scaled 20000)
  name="$cluster, $(short "$series") series, stored before the answer" stored_load=$name stored_scrapes=$scrapes
  in_order "$name" store_one "${servers[@]}"
}

# store_one SERVER: of store_in_turn.
store_one() {
  local shown=shown_$1
  measure "${!shown}" "$name"
  case $1 in
    driver)
      "$load" cql "${subject[@]}" --address "$cassandra" "${cassandra_pids[@]}" --series "$series" --rows "$scrapes" \
        --replication "$nodes"
      ;;
    promkairos)
      "$load" send "${subject[@]}" --address "$address" --pid "$pid" "${cassandra_pids[@]}" --series "$series" \
        --prefix ours --scrapes "$scrapes" --connections 4 --start "$start" --only ingest \
        --only "ingest per server CPU second" --only "request p50" --only "request p99"
      record "peak memory" "$(peak_memory "$pid")" B
      ;;
    kairosdb)
      "$load" kairosdb-send "${subject[@]}" --address "$kairosdb" --pid "$kairosdb_pid" --pid "$cassandra_pid" \
        --series "$series" --prefix theirs --scrapes "$scrapes" --start "$start" --cassandra "$cassandra" \
        --keyspace stored
      record "peak memory" "$(peak_memory "$kairosdb_pid")" B
      ;;
  esac
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
  local series
  series=$(scaled 200000) round=1
  in_order "Cassandra, $(short "$series") new series" new_series_of promkairos kairosdb
}

# new_series_of SERVER: of new_series.
new_series_of() {
  local shown=shown_$1
  measure "${!shown}" "Cassandra, $(short "$series") new series"
  if [ "$1" = promkairos ]; then
    "$load" send "${subject[@]}" --address "$address" --pid "$pid" --pid "$cassandra_pid" --series "$series" \
      --prefix new_ours --scrapes 1 --connections 4 --only ingest --only "ingest per server CPU second"
  else
    "$load" kairosdb-send "${subject[@]}" --address "$kairosdb" --pid "$kairosdb_pid" --pid "$cassandra_pid" \
      --series "$series" --prefix new_theirs --scrapes 1 --cassandra "$cassandra" --keyspace stored
  fi
}

# flushed ROWS: so many samples of each series go to Cassandra at once, by the driver in a batch for one partition. The
# end of promkairos flushes, in batches of several. The series stand in the index before, with a sample of their own.
flushed() {
  local rows=$1 series=20000 name keyspace=flushed_$1_$round
  if [ "$rows" = 4 ]; then series=100000; elif [ "$mode$rows" = full15 ]; then series=40000; fi
  series=$(scaled $series)
  name="$cluster, $rows samples a series flushed from the log"
  in_order "$name" flushed_by driver promkairos
  # Not where there may be several nodes, of which each has its own part.
  if [ -n "$nodetool_port" ]; then
    measure promkairos "$name"
    disk_of_keyspace "$keyspace"
    record_disk "$disk" $((series * (rows + 1)))
  fi
}

# flushed_by SERVER: of flushed.
flushed_by() {
  local shown=shown_$1 samples=$((series * rows))
  if [ "$1" = driver ]; then
    measure "${!shown}" "$name"
    "$load" cql "${subject[@]}" --address "$cassandra" --series "$series" --rows "$rows" --batch "$rows" \
      --replication "$nodes" --figure flush --only flush
    return
  fi
  over_cassandra "$keyspace" wal
  measure "${!shown}" "$name"
  "$load" send --address "$address" --series "$series" --scrapes 1 > /dev/null
  stop_server
  over_cassandra "$keyspace" wal
  "$load" send "${subject[@]}" --address "$address" --pid "$pid" --series "$series" --scrapes "$rows" \
    --start 1700000015000 --only ingest --only "request p99" --only "peak memory"
  stop_and_watch
  record flush "$(calculate "$samples / $stopping")" samples/s
  record "peak memory, flush" "$peak" B
  over_cassandra "$keyspace" wal
  "$load" count --address "$address" --expected $((samples + series)) > /dev/null
  record "counted back" 100 "% of what was sent"
  stop_server
  rm -rf "$work/promkairos"
}

# killed_over_cassandra ACK SCRAPES: how soon promkairos is ready after kill -9: with all of them in its log, or with
# none where Cassandra has acknowledged them.
killed_over_cassandra() {
  local ack=$1 scrapes=$2 series samples
  series=$(scaled 20000)
  samples=$((series * scrapes))
  over_cassandra "killed_$ack" "$ack"
  measure promkairos "$cluster, ack = $ack, $(short "$series") series x $scrapes, killed"
  "$load" send "${subject[@]}" --address "$address" --series "$series" --scrapes "$scrapes" --connections 4 --only sent
  kill_server
  over_cassandra "killed_$ack" "$ack"
  record "ready after kill -9" "$ready" s
  "$load" count --address "$address" --expected "$samples" > /dev/null
  record "counted back" 100 "% of what was sent"
  stop_server
  rm -rf "$work/promkairos"
}
