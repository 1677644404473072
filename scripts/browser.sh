#!/usr/bin/env bash
# The tests of the dashboard need a Chromium. Installs Debian's where that can be done without asking; else says how.
set -uo pipefail
for name in chromium chromium-browser google-chrome; do
  command -v "$name" >/dev/null && exit 0
done
root=()
[ "$(id -u)" = 0 ] || root=(sudo -n)
log=$(mktemp)
echo "browser: installing Debian's chromium"
if "${root[@]}" apt-get update >"$log" 2>&1 &&
  "${root[@]}" apt-get install -y --no-install-recommends chromium >>"$log" 2>&1; then
  rm "$log"
else
  echo "browser: no Chromium, so the tests of the dashboard are skipped. Fix: apt-get install -y chromium (log: $log)"
fi
