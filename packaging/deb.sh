#!/usr/bin/env bash
# The Debian package, into target/debian/. usage: packaging/deb.sh [TARGET]
# TARGET: x86_64-unknown-linux-musl for a static binary. Needs cargo-deb (`cargo install cargo-deb`).
set -euo pipefail
cd "$(dirname "$0")/.."
target=${1:-}
cargo build --release --locked --bin promkairos ${target:+--target "$target"}
binary=target/${target:+$target/}release/promkairos
generated=target/packaging
rm -rf "$generated"
mkdir -p "$generated"
"$binary" completions bash > "$generated/promkairos.bash"
"$binary" completions zsh > "$generated/_promkairos"
"$binary" completions fish > "$generated/promkairos.fish"
"$binary" man > "$generated/promkairos.1"
commands=$("$binary" --help | sed -n '/^Commands:$/,/^$/s/^  \([a-z-]\+\) .*/\1/p')
for command in $commands; do
  if [ "$command" != help ]; then "$binary" man "$command" > "$generated/promkairos-$command.1"; fi
done
cargo deb --no-build --locked ${target:+--target "$target"}
