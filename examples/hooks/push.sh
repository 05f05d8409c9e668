#!/bin/sh
# A gate for bash: it denies force-pushes and asks for an approval of deployments.
set -eu
command=$(jq -r '.tool_input.command // ""')
case $command in
*'git push'*' --force'* | *'git push'*' -f'*)
	echo 'Never force-push: push a new branch.' >&2 # the model reads this
	exit 2                                          # denies this call; the run continues
	;;
deploy*)
	echo '{"verdict": "ask", "reason": "May this be deployed?"}'
	;;
esac # no output allows the call
