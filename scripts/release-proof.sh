#!/usr/bin/env bash
# release-proof.sh [commit] proves a release on this machine. It needs root, and Debian with debootstrap and qemu-user-static.
#
# - Two releases of the same commit, made in different directories, have the same bytes.
# - In a Debian made by debootstrap, the package of an earlier commit (default: the first parent) is installed, and its daemon suspends a
#   call. The package is upgraded to this commit, the call is decided, and the package is removed and purged, with and without its data.
# - With systemd as process 1, the service of the package isolates commands (scripts/unit-proof.sh).
# - In a pod as Kubernetes would make it, the daemon of the image isolates commands (scripts/pod-proof.py).
# - The daemon of the image serves in the image's root.
# - The programs for arm64 serve under qemu.
#
# The script removes everything that it made, also after a failure. TOOLD_PROOF_DIR keeps the release and the base system for later runs.
set -euo pipefail
cd "$(dirname "$0")/.."

[[ $(id -u) == 0 ]] || { echo "release-proof.sh needs root, for chroot" >&2; exit 1; }
# The kernel removes all mounts of this separate mount namespace when the script ends.
if [[ -z ${TOOLD_PROOF_MOUNTS:-} ]]; then
	TOOLD_PROOF_MOUNTS=private exec unshare --mount --propagation private "scripts/$(basename "$0")" "$@"
fi

scripts/need.sh git make debootstrap qemu-aarch64-static=qemu-user-static dpkg-deb=dpkg jq python3 openssl
this=$(git rev-parse HEAD)
earlier=$(git rev-parse "${1:-HEAD^1}")
work=$(mktemp -d)
keep=${TOOLD_PROOF_DIR:-$work}
mkdir -p "$keep"
daemon=

stop() {
	[[ -z $daemon ]] || kill "$daemon" 2>/dev/null || true
	[[ -z $daemon ]] || wait "$daemon" 2>/dev/null || true
	daemon=
}
cleanup() {
	stop
	for mount in "$work"/*/proc "$work"/*/dev; do
		if mountpoint -q "$mount"; then umount --lazy "$mount"; fi
	done
	rm -rf --one-file-system "$work"
}
trap cleanup EXIT

step() { printf '\n--- %s\n' "$*"; }
fail() {
	echo "FAILED: $*" >&2
	exit 1
}

# release <commit> <version> <directory> makes a release in a new clone. The files are in <directory>/dist.
release() {
	[[ ! -e $3/dist/SHA256SUMS ]] || return 0
	rm -rf "$3"
	git clone --quiet --no-checkout . "$3"
	git -C "$3" checkout --quiet "$1"
	make -C "$3" release VERSION="$2"
}

# root <name> gives /proc and /dev to a root below the work directory.
root() {
	mount -t proc proc "$work/$1/proc"
	mount --bind /dev "$work/$1/dev"
}

# serving <command>... starts a daemon and waits until it serves. The array health must contain the command that checks whether the daemon
# serves.
serving() {
	"$@" >"$work/log" 2>&1 &
	daemon=$!
	for _ in $(seq 600); do
		if "${health[@]}" >/dev/null 2>&1; then return 0; fi
		kill -0 "$daemon" 2>/dev/null || break
		sleep 0.1
	done
	cat "$work/log" >&2
	fail "the daemon does not serve: $*"
}

# is_version <version> checks which version the program prints.
is_version() {
	[[ $("${cli[@]}" version) == "toold $1 "* ]] || fail "want version $1: $("${cli[@]}" version)"
}

# asks <id> <command>... suspends a call with a question.
asks() {
	local code=0
	"${@:2}" call ask_user question='Which colour?' --call-id "$1" --run proof || code=$?
	((code == 3)) || fail "the call $1 ended with $code, want 3: suspended"
}

step "two releases of ${this:0:12}"
first=$keep/$this-first second=$keep/$this-second
release "$this" v0.1.0-rc.2 "$first"
release "$this" v0.1.0-rc.2 "$second"
cmp "$first/dist/SHA256SUMS" "$second/dist/SHA256SUMS"
(cd "$second/dist" && sha256sum --check --quiet SHA256SUMS)
dist=$first/dist
tar -C "$work" --strip-components=2 -xzf "$dist/toold_0.1.0-rc.2_linux_amd64.tar.gz" toold_0.1.0-rc.2_linux_amd64/bin/toold
go version -m "$work/toold" | grep "vcs.revision=$this" || fail "the program does not name its commit"
echo "$(wc -l <"$dist/SHA256SUMS") files have the same bytes"

step "a release of the earlier commit ${earlier:0:12}"
before=$keep/$earlier-before
release "$earlier" v0.1.0-rc.1 "$before"

step "Debian: install, upgrade, remove, purge"
if [[ ! -d $keep/debian ]]; then
	rm -rf --one-file-system "$keep/debian.new"
	debootstrap --variant=minbase --include=procps,systemd bookworm "$keep/debian.new" >"$work/debootstrap.log" || fail "$(tail "$work/debootstrap.log")"
	mv "$keep/debian.new" "$keep/debian" # only complete: a later run must not use an incomplete system
fi
cp -a "$keep/debian" "$work/deb"
root deb
cp "$before/dist"/toold_*_amd64.deb "$work/deb/old.deb"
cp "$dist"/toold_*_amd64.deb "$work/deb/new.deb"
in=(chroot "$work/deb" env DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8)
as=("${in[@]}" setpriv --reuid toold --regid toold --clear-groups)
cli=("${as[@]}" toold --data /var/lib/toold)
health=("${cli[@]}" health)
daemon() { serving "${as[@]}" toold serve --config /etc/toold/toold.yaml --data /var/lib/toold --workspace /srv/toold/workspace; }

"${in[@]}" dpkg --install /old.deb
daemon
is_version 0.1.0-rc.1
"${cli[@]}" call glob pattern='*'
asks proof-call-one-0001 "${cli[@]}"
asks proof-call-two-0002 "${cli[@]}"
stop
"${in[@]}" toold store check /var/lib/toold
"${in[@]}" dpkg --install /new.deb
[[ $("${in[@]}" dpkg-query --show --showformat '${Version}' toold) == 0.1.0~rc.2 ]] || fail "the new package is not installed"
"${in[@]}" toold store check /var/lib/toold
daemon
is_version 0.1.0-rc.2
"${cli[@]}" answer proof-call-one-0001 red
"${cli[@]}" calls show proof-call-one-0001 | grep SUCCEEDED
stop
daemon # the second start, while a call waits
"${cli[@]}" answer proof-call-two-0002 blue
stop
"${in[@]}" dpkg --verify toold
"${in[@]}" systemd-analyze verify toold.service
"${in[@]}" systemd-analyze security --offline=true --threshold=34 toold.service >"$work/security.log" || fail "the unit is less hardened than before: $(tail -1 "$work/security.log")"
[[ -e $work/deb/usr/share/man/man1/toold-call.1.gz && -L $work/deb/etc/systemd/system/multi-user.target.wants/toold.service ]] || fail "the man pages or the link of the unit are missing"
"${in[@]}" dpkg --remove toold
[[ ! -e $work/deb/usr/bin/toold && -e $work/deb/etc/toold/toold.yaml && -e $work/deb/var/lib/toold/journal.db ]] || fail "remove must keep configuration and data"
"${in[@]}" dpkg --purge toold
[[ ! -e $work/deb/etc/toold/toold.yaml && -e $work/deb/var/lib/toold/journal.db ]] || fail "purge must remove the configuration and keep the data"
"${in[@]}" dpkg --install /new.deb
"${in[@]}" env TOOLD_PURGE_DATA=1 dpkg --purge toold
[[ ! -e $work/deb/var/lib/toold && ! -e $work/deb/srv/toold ]] || fail "purge with TOOLD_PURGE_DATA=1 must remove the data"
! "${in[@]}" getent passwd toold || fail "the user toold remains"

step "the service, with systemd as process 1"
cp -a "$keep/debian" "$work/boot"
root boot
cp "$work/deb/new.deb" "$work/boot/new.deb"
chroot "$work/boot" env DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8 dpkg --install /new.deb
umount "$work/boot/proc" "$work/boot/dev"
scripts/unit-proof.sh "$work/boot"

# unpack_image <architecture> <name> writes the root of the image.
unpack_image() {
	local layout=$work/layout digest
	mkdir -p "$layout" "$work/$2"
	tar -C "$layout" -xf "$dist"/toold_*_oci.tar
	blob() { echo "$layout/blobs/sha256/${1#sha256:}"; }
	digest=$(jq -r '.manifests[0].digest' "$layout/index.json")
	digest=$(jq -r --arg arch "$1" '.manifests[] | select(.platform.architecture == $arch).digest' "$(blob "$digest")")
	for layer in $(jq -r '.layers[].digest' "$(blob "$digest")"); do
		(cd "$layout/blobs/sha256" && echo "${layer#sha256:}  ${layer#sha256:}" | sha256sum --check --quiet)
		tar -C "$work/$2" --numeric-owner -xzf "$(blob "$layer")"
	done
	mkdir -p "$work/$2/proc" "$work/$2/dev"
	root "$2"
}

# try_image <architecture> <name> [emulator] runs the programs of the image in its root.
try_image() {
	unpack_image "$1" "$2"
	[[ -z ${3:-} ]] || cp "$(command -v "$3")" "$work/$2/emulator"
	run=(chroot --userspec=65532:65532 "$work/$2" ${3:+/emulator})
	"${run[@]}" /usr/bin/git --version
	"${run[@]}" /bin/bash -c 'PATH=/usr/local/bin:/usr/bin:/bin; for c in awk find grep sed tar toold-sandbox; do type -p $c >/dev/null || exit 1; done; echo "$BASH_VERSION"'
	"${run[@]}" /bin/grep --count BEGIN /etc/ssl/certs/ca-certificates.crt
	cli=("${run[@]}" /usr/local/bin/toold)
	export TOOLD_DATA=/var/lib/toold TOOLD_WORKSPACE=/workspace
	health=("${cli[@]}" health)
	serving "${cli[@]}" serve
	is_version 0.1.0-rc.2
	"${cli[@]}" call glob pattern='*'
	asks "proof-image-$1-0001" "${cli[@]}"
	"${cli[@]}" answer "proof-image-$1-0001" green
	stop
	unset TOOLD_DATA TOOLD_WORKSPACE
}

step "the image for amd64"
try_image amd64 image
step "the image as a pod of the overlay user-namespaces"
chmod 711 "$work"
cp -ax "$work/image" "$work/pod"
scripts/pod-proof.py "$work/pod"
step "the image for arm64, under qemu"
try_image arm64 image-arm64 qemu-aarch64-static

step "the archive for arm64, under qemu"
mkdir "$work/arm64" "$work/arm64/workspace"
tar -C "$work/arm64" --strip-components=1 -xzf "$dist"/toold_*_linux_arm64.tar.gz
run=(qemu-aarch64-static "$work/arm64/bin/toold")
health=("${run[@]}" health --data "$work/arm64/data")
serving "${run[@]}" serve --data "$work/arm64/data" --workspace "$work/arm64/workspace"
"${run[@]}" version
"${run[@]}" call glob pattern='*' --data "$work/arm64/data"
stop

echo
echo "the release of ${this:0:12} is proven"
