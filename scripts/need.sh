#!/usr/bin/env bash
# need.sh <command>[=<package>]... checks that each command is installed. As root on a Debian-like system it installs the missing packages.
# Otherwise it prints the command that installs them and fails.
set -euo pipefail

packages=()
for want in "$@"; do
	command=${want%%=*}
	# On Debian, the programs of a PostgreSQL server are not in PATH.
	[[ $command == initdb ]] && compgen -G '/usr/lib/postgresql/*/bin/initdb' >/dev/null && continue
	[[ $command == /* && -e $command ]] && continue # a file that is not a command
	command -v "$command" >/dev/null || packages+=("${want#*=}")
done
# The race detector needs the headers of libc, which are in a separate package. HTTPS needs the root certificates.
if [[ " $* " == *" gcc "* && ! -e /usr/include/stdlib.h ]]; then packages+=(gcc libc6-dev); fi
if [[ ! -e /etc/ssl/certs/ca-certificates.crt && -e /etc/debian_version ]]; then packages+=(ca-certificates); fi
((${#packages[@]})) || exit 0

install="apt-get install -y --no-install-recommends ${packages[*]}"
if [[ $(id -u) != 0 ]] || ! command -v apt-get >/dev/null; then
	printf 'missing: %s\nrun this first:  sudo %s\n' "${packages[*]}" "$install" >&2
	exit 1
fi
printf 'installing: %s\n' "${packages[*]}" >&2
export DEBIAN_FRONTEND=noninteractive
$install >/dev/null 2>&1 || { apt-get update >/dev/null && $install >/dev/null; }
