#!/usr/bin/env bash
# Installs the Debian package, looks at what it brought, and takes it away again.
# usage: packaging/try_deb.sh [PACKAGE.deb]
# Without a package packaging/deb.sh builds one. Run it as root where it may be: on a machine of your own or in a
# container without promkairos, since it ends with a purge; it refuses to begin where the package, its settings or its
# samples are. It checks the program, the manual pages of all commands, the completions, the unit, the pages, that
# settings which somebody has changed stay when the package is removed and go when it is purged, and that samples stay.
# Where systemd runs (`systemd-nspawn --boot` will do) the unit is also started, reloaded, killed and given wrong settings.
set -euo pipefail
cd "$(dirname "$0")/.."

settings=/etc/promkairos/promkairos.toml
data=/var/lib/promkairos

wrong() {
  echo "not as it should be: $1" >&2
  exit 1
}
# say WHAT: a step has gone well.
say() { echo "- $1"; }
# soon WHAT COMMAND...: the command succeeds within a minute.
soon() {
  local what=$1
  shift
  for _ in {1..300}; do
    if "$@" > /dev/null 2>&1; then return; fi
    sleep 0.2
  done
  wrong "not within a minute: $what"
}
state() { dpkg-query -W -f '${db:Status-Abbrev}' promkairos 2>/dev/null | tr -d ' ' || true; }

[ "$(id -u)" = 0 ] || wrong "dpkg -i needs root"
case $(state) in
  '' | un | pn) ;;
  *) wrong "promkairos is installed here already" ;;
esac
for path in /etc/promkairos "$data" /usr/bin/promkairos; do
  [ ! -e "$path" ] || wrong "$path is there already, and would not outlive this"
done

systemd=no
if [ -d /run/systemd/system ]; then
  systemd=yes
  # What answers there later is the unit.
  if (: < /dev/tcp/127.0.0.1/9201) 2> /dev/null; then wrong "something listens on port 9201 already"; fi
fi

package=${1:-}
if [ -z "$package" ]; then
  built=${CARGO_TARGET_DIR:-target}/debian
  rm -f "$built"/promkairos_*.deb
  packaging/deb.sh
  package=$(echo "$built"/promkairos_*.deb)
fi

finish() {
  local status=$?
  trap - EXIT
  if [ -n "$(state)" ]; then dpkg --purge promkairos > /dev/null || status=1; fi
  rm -rf "$data"
  exit "$status"
}
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# An image of a container may be told to leave out pages.
install_package() { dpkg --path-include='/usr/share/*' -i "$package"; }
install_package
[ "$(state)" = ii ] || wrong "it is $(state) after dpkg -i"
[ -z "$(dpkg --verify promkairos)" ] || wrong "files are not those of the package: $(dpkg --verify promkairos)"
say "installed: $(dpkg-query -W -f '${Package} ${Version}, ${Installed-Size} KiB' promkairos)"

version=$(promkairos --version)
[ "$(command -v promkairos)" = /usr/bin/promkairos ] || wrong "promkairos is $(command -v promkairos)"
getent passwd promkairos > /dev/null || wrong "there is no user promkairos"
promkairos check-config "$settings" > /dev/null || wrong "$settings is refused"
say "/usr/bin/promkairos says $version and takes $settings; its user is there"

# page COMMAND...: the manual page of a command, and those of all below it.
pages=0
page() {
  local name=promkairos command file
  for command in "$@"; do name+="-$command"; done
  file=$(dpkg -L promkairos | grep -E "/man1/$name\.1(\.gz)?$") || wrong "no manual page $name"
  zcat -f "$file" | grep '^\.TH ' > /dev/null || wrong "$file is no manual page"
  pages=$((pages + 1))
  for command in $(promkairos "$@" --help | sed -n '/^Commands:$/,/^$/s/^  \([a-z-]\+\) .*/\1/p'); do
    if [ "$command" != help ]; then page "$@" "$command"; fi
  done
}
page
say "$pages manual pages"

# completion SHELL FILE: the file is what the program prints.
completion() { promkairos completions "$1" | cmp - "$2" || wrong "$2 is not that of this program"; }
completion bash /usr/share/bash-completion/completions/promkairos
completion zsh /usr/share/zsh/vendor-completions/_promkairos
completion fish /usr/share/fish/vendor_completions.d/promkairos.fish
bash -n /usr/share/bash-completion/completions/promkairos
say "completions for bash, zsh and fish"

unit=$(dpkg -L promkairos | grep '/promkairos\.service$') || wrong "no unit"
verified=$(systemd-analyze verify "$unit" 2>&1) || wrong "$unit: $verified"
[ -z "$verified" ] || wrong "$unit: $verified"
say "systemd-analyze has nothing to say about $unit"

# unit KEY VALUE: systemd says so of the unit.
unit() { [ "$(systemctl show -P "$1" promkairos)" = "$2" ]; }
ready() { unit ActiveState active && promkairos health --ready --config "$settings"; }
main_pid() { systemctl show -P MainPID promkairos; }
if [ "$systemd" = yes ]; then
  systemctl --quiet is-enabled promkairos || wrong "the unit is not enabled"
  soon "ready after the installation" ready
  pid=$(main_pid)
  [ "$(stat -c %U "/proc/$pid")" = promkairos ] || wrong "it runs as $(stat -c %U "/proc/$pid")"
  [ "$(stat -c '%U %a' "$data")" = 'promkairos 750' ] || wrong "$data is $(stat -c '%U %a' "$data")"
  systemctl reload promkairos || wrong "a reload fails"
  good=$(mktemp)
  cp "$settings" "$good"
  sed -i 's/^retention = .*/retention = "soon"/' "$settings"
  if systemctl reload promkairos 2> /dev/null; then wrong "a reload takes settings that are refused"; fi
  ready > /dev/null && [ "$(main_pid)" = "$pid" ] || wrong "a reload that is refused ends it"
  # Of Type=exec: the start itself goes well.
  systemctl restart promkairos
  soon "failed for wrong settings, and for good" unit SubState failed
  unit ExecMainStatus 2 || wrong "wrong settings end it with $(systemctl show -P ExecMainStatus promkairos)"
  cp "$good" "$settings"
  rm "$good"
  systemctl start promkairos
  soon "ready with settings that are right again" ready
  kill -KILL "$(main_pid)"
  soon "started again after kill -9" unit NRestarts 1
  soon "ready after kill -9" ready
  systemctl stop promkairos
  unit Result success || wrong "a stop ends with $(systemctl show -P Result promkairos)"
  systemctl start promkairos
  soon "ready after a stop" ready
  say "systemd starts it, reloads it or not, and starts it again after kill -9 but not with wrong settings"
else
  say "no systemd runs here, so the unit is not started"
fi

for path in /usr/share/doc/promkairos/docs/install.md /usr/share/promkairos/alerts.yml; do
  [ -s "$path" ] || wrong "$path is missing"
done
[ -n "$(find /usr/share/promkairos/dashboards -name '*.json')" ] || wrong "no dashboards"
dpkg-query -W -f '${Conffiles}' promkairos | grep "$settings" > /dev/null || wrong "$settings is no conffile"
say "pages, dashboards, alert rules"

echo '# changed by hand' >> "$settings"
mkdir -p "$data"
echo sample > "$data/sample"
dpkg --remove promkairos
[ "$(state)" = rc ] || wrong "it is $(state) after dpkg --remove"
[ ! -e /usr/bin/promkairos ] || wrong "the program stays"
if [ "$systemd" = yes ]; then unit ActiveState inactive || wrong "it runs on after dpkg --remove"; fi
grep -q 'changed by hand' "$settings" || wrong "settings are lost by dpkg --remove"
say "removed: the settings stay"
install_package > /dev/null
grep -q 'changed by hand' "$settings" || wrong "settings are lost when it is installed again"
if [ "$systemd" = yes ]; then
  soon "ready when it is installed again" ready
  pid=$(main_pid)
  install_package > /dev/null
  soon "ready after an upgrade" ready
  [ "$(main_pid)" != "$pid" ] || wrong "an upgrade leaves the old program running"
fi
say "installed again: the settings stay"
dpkg --purge promkairos
case $(state) in
  '' | un | pn) ;;
  *) wrong "it is $(state) after dpkg --purge" ;;
esac
[ ! -e /etc/promkairos ] || wrong "the purge leaves /etc/promkairos: $(ls /etc/promkairos)"
[ "$(cat "$data/sample")" = sample ] || wrong "the purge takes samples"
say "purged: the settings are gone, the samples stay"
