#!/usr/bin/env bash
# unit-proof.sh <root> boots the Debian system in a directory, in which the package toold is installed, with systemd as process 1. It checks that
# the service starts, and that its hardening leaves commands all of their isolation. It needs root.
set -euo pipefail
root=$(realpath "$1")
cd "$(dirname "$0")/.."

[[ -e $root/lib/systemd/systemd && -e $root/usr/bin/toold ]] || { echo "$root: want a Debian system with systemd and the package toold" >&2; exit 1; }
scripts/need.sh systemd-nspawn=systemd-container

cat >"$root/proof.sh" <<'SH'
set -euo pipefail
as=(setpriv --reuid toold --regid toold --clear-groups toold --data /var/lib/toold)
for _ in $(seq 300); do
	if "${as[@]}" health >/dev/null 2>&1; then break; fi
	sleep 0.1
done
"${as[@]}" call bash command='echo isolated' # fails with SANDBOX when a required fact does not hold
for fact in fs_read fs_write ipc net pids_limit processes_killed; do
	"${as[@]}" info | grep -F "isolation $fact held," || { "${as[@]}" info; exit 1; }
done
SH
cat >"$root/etc/systemd/system/proof.service" <<'UNIT'
[Unit]
Requires=toold.service
After=toold.service
SuccessAction=exit
FailureAction=exit

[Service]
Type=oneshot
ExecStart=/bin/bash /proof.sh
StandardOutput=truncate:/proof.log
StandardError=inherit
UNIT
mkdir -p "$root/etc/systemd/system/multi-user.target.wants"
ln -sf ../proof.service "$root/etc/systemd/system/multi-user.target.wants/proof.service"

# systemd-nspawn allows only the system calls of a list, which lacks those of Landlock. A real machine has no such list, so add them.
code=0
timeout 180 systemd-nspawn --quiet --directory "$root" --boot --register=no --keep-unit --private-network \
	--system-call-filter="landlock_create_ruleset landlock_add_rule landlock_restrict_self" </dev/null >"$root/boot.log" 2>&1 || code=$?
cat "$root/proof.log" 2>/dev/null || tail -20 "$root/boot.log"
((code == 0)) || echo "the service does not isolate commands (exit code $code)" >&2
exit "$code"
