# shellcheck shell=bash
# Taking samples: each load by each server in turn, each on fresh data, another one first each time. A load is a
# number of series and how they are sent; slower servers get fewer scrapes of the same series. The first scrape, in
# which all series are new, is a figure of its own.

part_loads() {
  for round in $(seq "$rounds"); do
    if [ "$mode" = quick ]; then
      beside=yes load_in_turn 200000 ", 2,000 a request" 40 16 6
      load_in_turn 20000 ", 500 a request" 120 90 30 --samples 500
    else
      beside=yes load_in_turn 200000 ", 2,000 a request" 120 80 60
      load_in_turn 1000000 ", 2,000 a request" 20 12 4
      load_in_turn 20000 ", 500 a request" 600 300 100 --samples 500
      load_in_turn 50000 ", 10 % an hour give way to new ones" 480 240 120 --churn 10
      load_in_turn 200000 ", remote write 2.0" 100 0 16 --protocol 2.0
    fi
  done
}

# load_in_turn SERIES NAME SCRAPES_PROMKAIROS SCRAPES_VICTORIA_METRICS SCRAPES_PROMETHEUS [OPTION ...]
load_in_turn() {
  local series name options=("${@:6}") servers=() server
  local -A scrapes=([promkairos]=$3 [victoria_metrics]=$4 [prometheus]=$5)
  series=$(scaled "$1") name="$(short "$(scaled "$1")") series$2"
  for server in promkairos victoria_metrics prometheus; do
    # Without scrapes: it does not speak the protocol.
    [ "${scrapes[$server]}" = 0 ] || servers+=("$server")
  done
  in_order "$name" load_one "${servers[@]}"
}

# load_one SERVER: of load_in_turn.
load_one() {
  local server=$1 scrapes=${scrapes[$1]} shown=shown_$1
  "start_$server"
  measure "${!shown}" "$name"
  "$load" send "${subject[@]}" --address "$address" --pid "$pid" --series "$series" --first --scrapes "$scrapes" \
    "${options[@]}"
  "settle_$server"
  "$load" stored "${subject[@]}" --address "$address" --scrapes "$scrapes" --expected $((series * scrapes))
  # A quick run has no time for the slowest.
  if [ "${beside:-}" = yes ] && [ "$mode$server" != quickprometheus ]; then
    load_beside "${!shown}" "$series" "$scrapes" "$(value_of ingest)"
  fi
  stop_server
  rm -rf "${work:?}/$server"
}

# load_beside SHOWN SERIES SCRAPES RATE: goes on with the same series, first at half the rate, then as fast as
# it can while queries are answered.
load_beside() {
  local next=$((1700000000000 + $3 * 15000)) series half=$(($3 / 2))
  local all=$(($3 + 2 * half))
  series="$(short "$2") series"
  measure "$1" "$series, half its rate"
  "$load" send "${subject[@]}" --address "$address" --series "$2" --scrapes "$half" --start "$next" \
    --rate "$(calculate "$4 / 2")" --only "request p50" --only "request p99"
  measure "$1" "$series and 10 queries/s of ${query_minutes} min"
  "$load" send "${subject[@]}" --address "$address" --pid "$pid" --series "$2" --scrapes "$half" \
    --start $((next + half * 15000)) --undisturbed "$4" --queries-per-second 10 --query "$(sum_rate_path "$fleet")" \
    --query-minutes "$query_minutes"
  "settle_$server"
  "$load" stored "${subject[@]}" --address "$address" --scrapes $all --expected $(($2 * all))
}
