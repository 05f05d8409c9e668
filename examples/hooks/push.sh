#!/bin/sh
# A gate for bash: nobody force-pushes, and a deployment needs a person.
set -eu
command=$(jq -r '.tool_input.command // ""')
case $command in
*'git push'*' --force'* | *'git push'*' -f'*)
	echo 'Never force-push: push a new branch.' >&2 # what the model reads
	exit 2                                          # this call is refused, the run goes on
	;;
deploy*)
	echo '{"verdict": "ask", "reason": "May this be deployed?"}'
	;;
esac # nothing printed: nothing against the call
