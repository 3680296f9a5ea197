#!/usr/bin/env bash
# Measures PromQL on promkairos (embedded), Prometheus and VictoriaMetrics, one after the other, over the
# same samples. usage: bench/queries.sh [RESULT_FILE] [SERIES] [HOURS]
# The peers are fetched by tests/peers/ and started here. Everything stays on 127.0.0.1.
set -euo pipefail
cd "$(dirname "$0")/.."
result=${1:-/dev/stdout} series=${2:-200000} hours=${3:-4}
# shellcheck source=functions.sh
. bench/functions.sh

tests/peers/fetch.sh "$peers" >&2
start_ms=1700000000000
end_s=$((start_ms / 1000 + hours * 3600))

# free_port: one that nobody listens on at this moment.
free_port() {
  local port
  for port in $(shuf -i 20000-29999 -n 50); do
    if ! (: < "/dev/tcp/127.0.0.1/$port") 2>/dev/null; then echo "$port"; return; fi
  done
  return 1
}

# start_peer NAME PROGRAM FLAG ...: starts it, waits until it answers; sets pid.
start_peer() {
  local name=$1; shift
  "$@" > "$work/$name.log" 2>&1 &
  pid=$!
  for _ in $(seq 600); do
    kill -0 "$pid" || { cat "$work/$name.log" >&2; return 1; }
    if curl -sf -o /dev/null "http://$address/-/ready" || curl -sf -o /dev/null "http://$address/health"; then return; fi
    sleep 0.1
  done
  return 1
}

# fill NAME: an hour of all series at a time, so that the bodies of all do not have to be in memory.
fill() {
  local hour
  for hour in $(seq 0 $((hours - 1))); do
    "$load" send --address "$address" --series "$series" --scrapes 240 --pid "$pid" \
      --start $((start_ms + hour * 3600000)) | note "fill_$1_$hour"
  done
}

# ask NAME: the queries of the table, each on its own connection.
ask() {
  local range="start=$((end_s - 3600))&end=$end_s&step=15"
  local fleet='%7B__name__%3D~%22bench_subsystem_0000%5B0-9%5D_.%2B%7Cbench_subsystem_0001%5B0-9%5D_.%2B%7Cbench_subsystem_0002%5B01%5D_.%2B%22%7D'
  local sum="sum%20by%20(cluster)%20(rate($fleet%5B1m%5D))"
  local all="start=$((start_ms / 1000))&end=$end_s"
  "$load" query --address "$address" --pid "$pid" --path "/api/v1/query_range?query=$sum&$all&step=15" | note "sum_rate_8800_all_$1"
  "$load" query --address "$address" --pid "$pid" --path "/api/v1/query_range?query=$sum&$range" | note "sum_rate_8800_1h_$1"
  "$load" query --address "$address" --pid "$pid" \
    --path "/api/v1/query_range?query=bench_subsystem_00003_operations_total&$range" | note "raw_400_1h_$1"
  "$load" query --address "$address" --pid "$pid" --path "/api/v1/label/__name__/values?$all" | note "metric_names_$1"
}

{
  echo '{'
  machine
  printf '"series": %s, "hours": %s,\n' "$series" "$hours"
  printf '"prometheus": "%s",\n' "$("$peers/prometheus/usr/bin/prometheus" --version 2>&1 | sed -n '1s/^prometheus, version \([^ ]*\).*/\1/p')"
  printf '"victoria_metrics": "%s",\n' "$(zcat "$peers/victoria-metrics/usr/share/doc/victoria-metrics/changelog.Debian.gz" | sed -n '1s/.*(\(.*\)).*/\1/p')"

  start "$work/log"
  fill promkairos
  ask promkairos
  # Started anew, with everything in part files.
  stop; start "$work/log"
  printf '"ready_seconds_promkairos": %s,\n' "$ready"
  ask promkairos_parts
  stop
  printf '"disk_bytes_promkairos": %s,\n' "$(du -sb "$work/data" | cut -f1)"
  rm -rf "$work/data"

  address=127.0.0.1:$(free_port)
  start_peer victoria "$peers/victoria-metrics/usr/bin/victoria-metrics" -httpListenAddr="$address" \
    -storageDataPath="$work/victoria" -retentionPeriod=100y -search.disableCache
  fill victoria_metrics
  sleep 2 # what it takes becomes visible after a second
  ask victoria_metrics
  stop
  printf '"disk_bytes_victoria_metrics": %s,\n' "$(du -sb "$work/victoria" | cut -f1)"
  rm -rf "$work/victoria"

  address=127.0.0.1:$(free_port)
  echo 'global: { scrape_interval: 1h }' > "$work/prometheus.yml"
  start_peer prometheus "$peers/prometheus/usr/bin/prometheus" --web.listen-address="$address" \
    --config.file="$work/prometheus.yml" --storage.tsdb.path="$work/prometheus" \
    --storage.tsdb.retention.time=100y --web.enable-remote-write-receiver
  fill prometheus
  ask prometheus
  stop
  printf '"disk_bytes_prometheus": %s,\n' "$(du -sb "$work/prometheus" | cut -f1)"
  echo '"end": true'
  echo '}'
} > "$result"
