#!/usr/bin/env bash
# breaking.sh <buf command...> checks proto/ for breaking changes against the newest release, whose image is in proto/releases. Before the
# first release it compares with an earlier commit. With uncommitted changes in proto/ that is the last commit. Otherwise it is the main branch
# or, on main itself, the previous commit.
set -euo pipefail
cd "$(dirname "$0")/.."

newest=$(compgen -G 'proto/releases/*.binpb' | sort --version-sort | tail -1 || true)
if [[ $newest ]]; then
	echo "buf breaking: against $newest"
	exec "$@" breaking --against "$newest"
fi

commit() { git rev-parse --quiet --verify "$1^{commit}"; }

base=""
if [[ -n $(git status --porcelain -- proto) ]]; then
	base=$(commit HEAD || true)
else
	for ref in origin/main main HEAD~1; do
		found=$(commit "$ref" || true)
		if [[ -n $found && $found != $(commit HEAD || true) ]]; then
			base=$found
			break
		fi
	done
	if [[ -z $base && $(git rev-parse --is-shallow-repository) == true ]]; then
		git fetch --quiet --deepen=1 && base=$(commit HEAD~1)
	fi
fi

if [[ -z $base ]] || ! git cat-file -e "$base:buf.yaml" 2>/dev/null; then
	echo "buf breaking: no earlier commit has a proto/ to compare with"
	exit 0
fi
against=$(mktemp --suffix .tar)
trap 'rm -f "$against"' EXIT
git archive --format=tar -o "$against" "$base" buf.yaml proto
echo "buf breaking: against ${base:0:12}"
"$@" breaking --against "$against"
