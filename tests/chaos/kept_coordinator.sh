#!/usr/bin/env bash
# A coordinator that keeps its state, and starts again when it was killed. `capstan run` takes this
# program for capstan_coordinator, which lies in the folder coordinator/ beside it. The members know two
# addresses of it: 127.0.0.1 and 127.0.0.2, with the same port.
# A signal USR1 starts another coordinator at the other address, which takes over.
# In the folder of its --port_file:
#   state             the job's state
#   coordinator.keeper
#                     the process id of this program
#   coordinator.pid   that of the present coordinator
#   coordinator.open  its address, once it listens
set -uo pipefail

flags=()
for flag in "$@"; do
  case "${flag}" in
    --port_file=*) port_file="${flag#*=}" ;;
    --listen=*) ;;
    *) flags+=("${flag}") ;;
  esac
done
folder="${port_file%/*}"
echo "$$" >"${folder}/coordinator.keeper"
pid=
port=0
host=1
has_to_move=0

# start FLAGS...
start() {
  rm --force "${folder}/coordinator.open"
  setpriv --pdeathsig KILL "$(dirname "$0")/coordinator/capstan_coordinator" "${flags[@]}" \
    --state="${folder}/state" --listen="127.0.0.${host}:${port}" \
    --port_file="${folder}/coordinator.open" "$@" &
  pid=$!
  echo "${pid}" >"${folder}/coordinator.pid"
}

tell_addresses() {
  port="$(sed 's/.*://' "${folder}/coordinator.open")"
  echo "127.0.0.1:${port},127.0.0.2:${port}" >"${port_file}.new"
  mv "${port_file}.new" "${port_file}"
}

trap 'has_to_move=1' USR1
trap 'kill -TERM "${pid}"' INT TERM
start
until [[ -s "${folder}/coordinator.open" ]]; do
  sleep 0.02
  kill -0 "${pid}" || { wait "${pid}"; exit; }
done
tell_addresses
while true; do
  code=0
  wait "${pid}" || code=$?
  if ((has_to_move)); then
    has_to_move=0
    host=$((3 - host))
    start --take_over
  elif ! kill -0 "${pid}" 2>/dev/null; then
    ((code == 128 + 9)) || exit "${code}"
    start
  fi
done
