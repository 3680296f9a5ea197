#!/usr/bin/env bash
# Every check of the project, with its real peers. usage: ./test.sh [long]
# Peers are kept in .peers/ (or $PROMKAIROS_PEERS) and fetched once. `long` runs more rounds and seeds.
set -euo pipefail
cd "$(dirname "$0")"
case ${1:-} in
  "") ;;
  long) export PROMKAIROS_TEST_LONG=1 ;;
  *) echo "usage: ./test.sh [long]" >&2; exit 2 ;;
esac

step() { printf '\n== %s (%s s)\n' "$*" "$SECONDS"; }

step peers
peers=${PROMKAIROS_PEERS:-$PWD/.peers}
tests/peers/fetch.sh "$peers"
run=$(mktemp -d "$(cd "$peers" && pwd)/run.XXXXXX")
finish() {
  status=$?
  trap - EXIT
  tests/peers/cassandra.sh down "$run"
  if [ -n "${secure:-}" ]; then kill "$secure" 2>/dev/null || true; fi
  tests/peers/cassandra.sh down "$run/secure"
  rm -rf "$run"
  exit $status
}
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
tests/peers/cassandra.sh up "$peers/cassandra" "$run"
PROMKAIROS_TEST_CASSANDRA=$(cat "$run/address")
PROMKAIROS_TEST_PROMETHEUS=$(realpath "$peers/prometheus/usr/bin/prometheus")
export PROMKAIROS_TEST_CASSANDRA PROMKAIROS_TEST_PROMETHEUS
echo "cassandra at $PROMKAIROS_TEST_CASSANDRA"
# One with login and TLS starts while the code compiles.
CASSANDRA_HEAP=512m tests/peers/cassandra.sh up-secure "$peers/cassandra" "$run/secure" &
secure=$!
export PROMKAIROS_TEST_CASSANDRA_SECURE=$run/secure

step format
cargo fmt --all --check
step lints
cargo clippy --workspace --all-targets -- -D warnings
step docs
RUSTDOCFLAGS=-Dwarnings cargo doc --workspace --no-deps --document-private-items
step "cassandra with login and TLS"
wait "$secure"
secure=
step tests
cargo test --workspace
step "all good"
