#!/usr/bin/env bash
# Sourced by chaos.sh: how a process of the running job is lost, and when the job is as before.

# pids_of ROLE: of the job's servers or workers.
pids_of() {
  local pid name
  for pid in $(members); do
    { read -r name <"/proc/${pid}/comm"; } 2>/dev/null || continue
    [[ "${name}" != "capstan_$1" ]] || echo "${pid}"
  done
}

# The most steps that a worker has done, as the coordinator has heard.
steps_done() {
  tail --lines=1 "${run_dir}/progress.jsonl" 2>/dev/null | grep --only-matching '"steps_done":[0-9]*' |
    sed 's/.*://' | sort --numeric-sort | tail --lines=1
}

# num_logged TEXT: lines of the coordinator with this text.
num_logged() {
  [[ -e "${run_dir}/coordinator.log" ]] || { echo 0 && return; }
  grep --count --extended-regexp -- "$1" "${run_dir}/coordinator.log" || true
}
has_logged() { (($(num_logged "$2") >= $1)); }
# has_logged_then NUMBER TEXT LATER: the text so often, and LATER after that.
has_logged_then() {
  awk -v left="$1" -v text="$2" -v later="$3" '
    $0 ~ text { --left }
    left <= 0 && $0 ~ later { found = 1 }
    END { exit !found }' "${run_dir}/coordinator.log"
}
has_begun() { has_logged 1 "${begun}" && (($(steps_done) > 0)); }

# In the coordinator's log.
whole="shards have two equal copies"
lost_member='(server|worker) [0-9]+ (\(.*\) )?has (ended|been silent|left)'
new_server="another server takes the place of server"
new_worker="another worker takes the place of worker"
taken_over="another coordinator has taken over"
begun="${whole}"
((replicas == 2)) || begun="phase TRAINING"

# silence PID --append, or --delete when others are to hear it again.
silence() {
  iptables --wait "$2" OUTPUT --match owner --uid-owner $((first_user + $1)) --jump DROP
}

# status_of_job: what the present coordinator says.
status_of_job() {
  [[ -s "${run_dir}/coordinator.open" ]] &&
    "${capstan}" status --coordinator="$(<"${run_dir}/coordinator.open")" 2>/dev/null
}
answers() { status_of_job >/dev/null; }
has_whole_copies() { grep --quiet --extended-regexp "^copies: ([0-9]+) of \\1 whole" <<<"$(status_of_job)"; }

# kill_coordinator: true if it ran. Its successor's address will be in coordinator.open.
kill_coordinator() {
  local pid
  pid="$(<"${run_dir}/coordinator.pid")"
  rm --force "${run_dir}/coordinator.open"
  kill -KILL "${pid}" 2>/dev/null || return 1
  lost_here=$((lost_here + 1))
}

# pause MILLISECONDS
pause() { sleep "$(($1 / 1000)).$(printf '%03d' $(($1 % 1000)))"; }

# lose_coordinator SIGNAL: adds to lost_here. Returns when another coordinator answers.
lose_coordinator() {
  local keeper pid began ends micros
  keeper="$(<"${run_dir}/coordinator.keeper")"
  if [[ "$1" == STOP ]]; then
    pid="$(<"${run_dir}/coordinator.pid")"
    ends="$(num_logged "${taken_over}")"
    kill -STOP "${pid}" 2>/dev/null || return 0
    lost_here=$((lost_here + 1))
    rm --force "${run_dir}/coordinator.open"
    kill -USR1 "${keeper}" 2>/dev/null || return 0
    await answers
    pause $((RANDOM % 3000))
    kill -CONT "${pid}" 2>/dev/null || return 0
    await has_logged $((ends + 1)) "${taken_over}"
  elif ((RANDOM % 4 == 0)); then
    # Not before a while.
    kill -STOP "${keeper}" 2>/dev/null || return 0
    kill_coordinator || true
    pause $((RANDOM % 3000))
    kill -CONT "${keeper}" 2>/dev/null || return 0
  elif ((RANDOM % 4 == 0)); then
    kill_coordinator || return 0
    pause $((RANDOM % 200))
    ((lost_here == most_here)) || kill_coordinator || true
  else
    began=${EPOCHREALTIME}
    kill_coordinator || return 0
    await answers
    micros=$((${EPOCHREALTIME/./} - ${began/./}))
    printf 'KILL coordinator %d.%06d\n' $((micros / 1000000)) $((micros % 1000000)) >>"${scratch}/times"
  fi
  await answers
  ((replicas == 1)) || await has_whole_copies
}

# lose ROLE SIGNAL: a random server or worker, which adds to lost_here. Returns when another one is in its
# place, and copies are whole.
lose() {
  local pids pid began losses news taken="${new_server}" last="${whole}"
  [[ "$1" == server ]] || taken="${new_worker}"
  [[ "$1" == server ]] || last="${new_worker}"
  mapfile -t pids < <(pids_of "$1")
  ((${#pids[@]} > 0)) || return 0
  pid="${pids[RANDOM % ${#pids[@]}]}"
  losses="$(num_logged "${lost_member}")"
  news="$(num_logged "${taken}")"
  began=${EPOCHREALTIME}
  if [[ "$2" == CUT ]]; then
    silence "${pid}" --append
    began=${EPOCHREALTIME}
  else
    [[ "$2" != BOTH ]] || kill_coordinator || return 0
    kill "-${2/BOTH/KILL}" "${pid}" 2>/dev/null || return 0
  fi
  lost_here=$((lost_here + 1))
  echo "$2 $1 ${began/./}000" >>"${run_dir}.losses"
  [[ "$2" == KILL || "$2" == BOTH ]] || await has_logged $((losses + 1)) "${lost_member}"
  case "$2" in
    STOP) kill -CONT "${pid}" 2>/dev/null || true ;;
    CUT) silence "${pid}" --delete ;;
  esac
  await has_logged_then $((news + 1)) "${taken}" "${last}"
}
