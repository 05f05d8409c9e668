#!/bin/sh
# tool.sh VERB -- NAME is the program of all tools. It runs in the workspace. The tools that change something append a line to the file
# "counter". The others report progress, and end when the test has created the file go-NAME.
case $1 in
mark | deploy) echo "$1 $3" >>counter ;;
*)
	echo "{\"progress\": {\"fraction\": 0.5, \"message\": \"half of $1 $3\"}}"
	until [ -e "go-$3" ]; do sleep 0.02; done
	;;
esac
case $1 in
scan) echo "{\"result\": \"$3 is fine\"}" ;;
mark) echo "{\"result\": \"marked $3\"}" ;;
hold) echo "{\"result\": \"held $3\"}" ;;
deploy) echo "{\"result\": \"deployed $3\"}" ;;
esac
