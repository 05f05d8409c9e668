# This script never ends by itself. It starts processes that a cancel easily misses. The ids of its processes are in the file tree. The file
# ticks also contains what the script prints to stdout.

# A child that ignores SIGTERM.
bash -c 'trap "" TERM; while :; do sleep 1; done' &
echo $! >> tree

# An orphan: forked twice, in a new session, without the pipes of the command.
(setsid bash -c 'trap "" TERM HUP; echo $$ >> tree; while :; do sleep 1; done' > /dev/null 2>&1 &)

echo $$ >> tree
n=0
while :; do
	n=$((n + 1))
	echo "tick $n" | tee -a ticks
	if ((n % 10 == 0)); then echo "warn $n" >&2; fi
	sleep 0.02
done
