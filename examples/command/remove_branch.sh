#!/bin/sh
# toold starts this script twice. The first run asks and exits; the second run gets the answer. Each output line is JSON.
branch=$2
if [ -z "$TOOLD_RESUME" ]; then
  printf '{"suspend": {"action": "input", "message": "Remove this branch for good?", "response_schema": {"enum": ["yes", "no"]}}}\n'
elif [ "$TOOLD_RESUME" = '"yes"' ]; then
  printf '{"progress": {"message": "removing"}}\n'
  printf '{"result": "removed", "message": "The branch was removed."}\n' && touch "removed"
else
  printf '{"error": {"reason": "KEPT", "message": "Somebody wants to keep the branch."}}\n'
fi
