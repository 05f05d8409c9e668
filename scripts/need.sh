#!/usr/bin/env bash
# need.sh <command>[=<package>]... makes sure that each command is there. As root on a Debian-like system it installs the
# missing packages; anyone else is told the one command to run.
set -euo pipefail

packages=()
for want in "$@"; do
	command=${want%%=*}
	# Debian keeps the programs of a PostgreSQL server out of the path.
	[[ $command == initdb ]] && compgen -G '/usr/lib/postgresql/*/bin/initdb' >/dev/null && continue
	[[ $command == /* && -e $command ]] && continue # what a package has beside commands
	command -v "$command" >/dev/null || packages+=("${want#*=}")
done
# The race detector links against libc, whose headers come apart from the compiler; HTTPS needs the roots of trust.
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
