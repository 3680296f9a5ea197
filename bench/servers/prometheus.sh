# shellcheck shell=bash
# Prometheus as a receiver of remote write, 1.0 and 2.0.
shown_prometheus=Prometheus

start_prometheus() {
  address=127.0.0.1:$(free_port)
  echo 'global: { scrape_interval: 1h }' > "$work/prometheus.yml"
  serve prometheus /-/ready "$peers/prometheus/usr/bin/prometheus" --web.listen-address="$address" \
    --config.file="$work/prometheus.yml" --storage.tsdb.path="$work/prometheus" \
    --storage.tsdb.retention.time=100y --web.enable-remote-write-receiver --web.enable-admin-api \
    --web.remote-write-receiver.accepted-protobuf-messages=prometheus.WriteRequest \
    --web.remote-write-receiver.accepted-protobuf-messages=io.prometheus.write.v2.Request
}

settle_prometheus() { :; }
outlast_prometheus() { :; }

# A snapshot brings what is only in memory and log into a block.
drain_prometheus() {
  curl -sf -o /dev/null -X POST "http://$address/api/v1/admin/tsdb/snapshot"
  record_disk "$(bytes "$work/prometheus/snapshots")" "$1"
  rm -r "$work/prometheus/snapshots"
  stop_server
}
