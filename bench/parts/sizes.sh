# shellcheck shell=bash
# How costs grow: more series over an hour, more hours of the same series. Each is written, killed, started,
# drained, started anew and asked. Servers for which a size would take too long are left out of it.

part_sizes() {
  round=1
  if [ "$mode" = quick ]; then
    size 20000 1 promkairos victoria_metrics
    return
  fi
  size 20000 1 promkairos victoria_metrics prometheus
  size 20000 4 promkairos victoria_metrics prometheus
  size 20000 24 promkairos victoria_metrics
  size 200000 1 promkairos victoria_metrics prometheus
  size 1000000 1 promkairos victoria_metrics
}

# size SERIES HOURS SERVER ...
size() {
  local series hours=$2 name
  series=$(scaled "$1") name="$(short "$(scaled "$1")") series x $2 h"
  in_order "$name" size_of_one "${@:3}"
}

# size_of_one SERVER: of size.
size_of_one() {
  local server=$1 shown=shown_$1 scrapes=$((hours * 240))
  local end=$((1700000000 + hours * 3600 - 15))
  "start_$server"
  measure "${!shown}" "$name"
  "$load" send "${subject[@]}" --address "$address" --pid "$pid" --series "$series" --scrapes "$scrapes" \
    --only ingest --only "ingest per server CPU second" --only "peak memory"
  record "server CPU" "$(calculate "$series * $scrapes / $(value_of "ingest per server CPU second")")" s
  "settle_$server"
  "$load" stored "${subject[@]}" --address "$address" --scrapes "$scrapes" --expected $((series * scrapes))
  ask "sum by(rate) of 8,800 series over 1 h, from memory" "$(sum_rate_path "$fleet")&$(range 60 "$end")" again
  "outlast_$server"
  kill_server
  "start_$server"
  record "ready after kill -9" "$ready" s
  "drain_$server" $((series * scrapes))
  "start_$server"
  record "ready after a drain" "$ready" s
  ask_all "$server" "$hours" "$end"
  stop_server
  rm -rf "${work:?}/$server"
}

# ask_all SERVER HOURS END: the first query of 8,800 series meets a server that has just started, the others come in the
# same life; pages of its files may be in memory.
ask_all() {
  local server=$1 minutes=$(($2 * 60))
  shift
  ask "sum by(rate) of 8,800 series over 1 h" "$(sum_rate_path "$fleet")&$(range 60 "$2")" \
    first again "memory above idle"
  stop_server
  "start_$server"
  ask "sum by(rate) of 8,800 series over all hours" "$(sum_rate_path "$fleet")&$(range $minutes "$2")" \
    first again "memory above idle"
  ask "sum by(rate) of all series over 15 min" "$(sum_rate_path "$everything")&$(range 15 "$2")" \
    first again "memory above idle"
  ask "400 series raw over 1 h" "/api/v1/query_range?query=bench_subsystem_00000_operations_total&$(range 60 "$2")" \
    first again
  ask "values of __name__" "/api/v1/label/__name__/values?$(range $minutes "$2")" first again
}

# ask FIGURE PATH WHAT ...: records what of the figure is wanted.
ask() {
  local figure=$1 path=$2 what only=()
  for what in "${@:3}"; do only+=(--only "$figure, $what"); done
  "$load" query "${subject[@]}" --address "$address" --pid "$pid" --figure "$figure" --path "$path" "${only[@]}"
}
