#!/usr/bin/env bash
# A command with the variables by which the integration tests find the peers.
# usage: with.sh PEERS RUN COMMAND [ARGUMENT ...]
# PEERS has what fetch.sh fetched. RUN is the folder of the Cassandra that all tests share, and of the one with login
# and TLS in RUN/secure; it may have none yet.
set -euo pipefail
peers=$1 run=$2
shift 2
PROMKAIROS_TEST_RUN=$run
PROMKAIROS_TEST_CASSANDRA_JARS=$(realpath "$peers/cassandra")
PROMKAIROS_TEST_KAIROSDB=$(realpath "$peers/kairosdb")
PROMKAIROS_TEST_KAIROSDB_CLIENT=$(realpath "$peers/kairosdb-clients")
PROMKAIROS_TEST_PROMETHEUS=$(realpath "$peers/prometheus/usr/bin/prometheus")
PROMKAIROS_TEST_PROMTOOL=$(realpath "$peers/promtool/usr/bin/promtool")
PROMKAIROS_TEST_VMALERT=$(realpath "$peers/victoria-metrics/usr/bin/vmalert")
export PROMKAIROS_TEST_RUN PROMKAIROS_TEST_CASSANDRA_JARS PROMKAIROS_TEST_KAIROSDB PROMKAIROS_TEST_PROMETHEUS
export PROMKAIROS_TEST_PROMTOOL PROMKAIROS_TEST_VMALERT PROMKAIROS_TEST_KAIROSDB_CLIENT
if [ -f "$run/address" ]; then
  PROMKAIROS_TEST_CASSANDRA=$(cat "$run/address")
  PROMKAIROS_TEST_CASSANDRA_SECURE=$run/secure
  export PROMKAIROS_TEST_CASSANDRA PROMKAIROS_TEST_CASSANDRA_SECURE
  echo "cassandra at $PROMKAIROS_TEST_CASSANDRA"
fi
exec "$@"
