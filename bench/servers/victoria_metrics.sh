# shellcheck shell=bash
# VictoriaMetrics, single node, without the cache of answers.
shown_victoria_metrics=VictoriaMetrics

start_victoria_metrics() {
  address=127.0.0.1:$(free_port)
  serve victoria_metrics /health "$peers/victoria-metrics/usr/bin/victoria-metrics" -httpListenAddr="$address" \
    -storageDataPath="$work/victoria_metrics" -retentionPeriod=100y -search.disableCache \
    -search.maxUniqueTimeseries=3000000 -search.maxQueryDuration=10m -search.maxLabelsAPIDuration=10m
}

# What it has taken can be found at once.
settle_victoria_metrics() { curl -sf -o /dev/null "http://$address/internal/force_flush"; }
# It looks every five seconds for what has been in memory for five.
outlast_victoria_metrics() { sleep 11; }

# Its end writes what is only in memory. All parts of a month as one are a figure of their own. Its caches
# are no data.
drain_victoria_metrics() {
  stop_server
  record_disk "$(bytes --exclude=cache "$work/victoria_metrics")" "$1"
  start_victoria_metrics
  # Answers at once; asking again waits.
  curl -sf -o /dev/null "http://$address/internal/force_merge"
  sleep 1
  while ! curl -sf "http://$address/metrics" | grep -q '^vm_active_force_merges 0'; do sleep 0.2; done
  stop_server
  record "disk a sample, all merged" "$(calculate "$(bytes --exclude=cache "$work/victoria_metrics") / $1")" \
    B/sample
}
