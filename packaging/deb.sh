#!/usr/bin/env bash
# The Debian package, into debian/ of cargo's target folder. usage: packaging/deb.sh [TARGET]
# TARGET: x86_64-unknown-linux-musl for a static binary. Needs cargo-deb (`cargo install cargo-deb`).
set -euo pipefail
cd "$(dirname "$0")/.."
target=${1:-}
cargo build --release --locked --bin promkairos ${target:+--target "$target"}
binary=${CARGO_TARGET_DIR:-target}/${target:+$target/}release/promkairos
# Where Cargo.toml looks for it.
generated=target/packaging
rm -rf "$generated"
mkdir -p "$generated"
"$binary" completions bash > "$generated/promkairos.bash"
"$binary" completions zsh > "$generated/_promkairos"
"$binary" completions fish > "$generated/promkairos.fish"
# pages COMMAND...: the page of a command, and of all below it.
pages() {
  local name=promkairos command commands
  for command in "$@"; do name+="-$command"; done
  "$binary" man "$@" > "$generated/$name.1"
  commands=$("$binary" "$@" --help | sed -n '/^Commands:$/,/^$/s/^  \([a-z-]\+\) .*/\1/p')
  for command in $commands; do
    if [ "$command" != help ]; then pages "$@" "$command"; fi
  done
}
pages
cargo deb --no-build --locked ${target:+--target "$target"}
