# shellcheck shell=bash
# Machines of a network with limited rates, as network namespaces of this machine; and jobs on them.
# Sourced by benchmarks that run as root. Changes only its own namespaces. cluster_remove removes
# them.
#
#   worker0 worker1 server0 server1     each a namespace. One veth pair joins it to the switch, with
#      |       |       |       |        `tc tbf` on both ends: full duplex, with the same rate into
#   ---------- switch ---------------   the switch and out of it
#         (and the coordinator)
#
# The MTU is 9000: headers are 0.7 % of the bytes. The burst is 1 ms, at least 128 KiB, two of the
# kernel's segments. Queues are 25 ms, 3 MB at 1 Gbit/s, as in a cheap switch: they hold the credits
# of two workers. A shorter queue would drop packets, and TCP takes 200 ms to see a lost last packet.
# TCP has the kernel's defaults: CUBIC, buffers up to 4 MiB.

cluster_workers=(worker0 worker1)
cluster_servers=(server0 server1)
cluster_name="capstan-$$"
cluster_coordinator=10.77.0.1:4000
cluster_pids=()
# The workers' median leaves out the first 3 steps. The last one has no end: the next step's start.
# shellcheck disable=SC2034
cluster_uncounted_steps=4

# fail REASON [EXIT_CODE]: prints the reason, and ends.
fail() {
  echo "$(basename "$0" .sh): $1" >&2
  exit "${2:-1}"
}

# print_help: prints the comment at the begin of the script.
print_help() { sed -n '2,/^set /{/^# \?/s///p}' "$0"; }

# expect FLAG VALUE WHAT REGULAR_EXPRESSION: ends unless the value matches and is above 0.
expect() {
  [[ "$2" =~ ^$4$ && "$2" =~ [1-9] ]] || fail "$1: expected $3, got '$2'" 2
}
expect_count() { expect "$1" "$2" 'a whole number above 0' '[0-9]{1,12}'; }
expect_numbers() {
  local flag="$1" what="$2" value
  shift 2
  for value in "$@"; do expect "${flag}" "${value}" "${what}" '[0-9]+(\.[0-9]+)?'; done
}

# cluster_require PROGRAM...: ends unless this is root, and all tools and these programs are there.
cluster_require() {
  local tool program
  [[ ${EUID} -eq 0 ]] || fail "expected to be root, who alone may make network namespaces; use sudo"
  for tool in ip:iproute2 tc:iproute2 iperf3:iperf3; do
    command -v "${tool%:*}" >/dev/null ||
      fail "there is no ${tool%:*} here: apt-get install ${tool#*:}"
  done
  for program in "$@"; do
    [[ -x "${program}" ]] || fail "there is no ${program}: bazel build //..., or --programs=FOLDER"
  done
  if ! ip netns add "${cluster_name}-try" 2>/dev/null; then
    fail "expected to be allowed 'ip netns add'; a container needs --privileged"
  fi
  ip netns delete "${cluster_name}-try"
}

# cluster_address HOST: its IP address.
cluster_address() {
  local host index=10
  for host in "${cluster_workers[@]}" "${cluster_servers[@]}"; do
    [[ "${host}" != "$1" ]] || break
    index=$((index + 1))
  done
  echo "10.77.0.${index}"
}

# cluster_exec HOST COMMAND...: runs it there.
cluster_exec() {
  local host="$1"
  shift
  ip netns exec "${cluster_name}-${host}" "$@"
}

# cluster_shape NAMESPACE INTERFACE GBIT
cluster_shape() {
  local rate burst
  rate="$(awk -v gbit="$3" 'BEGIN { printf "%d", gbit * 1e9 }')"
  burst=$((rate / 8 / 1000))
  ((burst >= 131072)) || burst=131072
  tc -n "$1" qdisc replace dev "$2" root tbf rate "${rate}bit" burst "${burst}" latency 25ms
}

# cluster_create GBIT: makes the machines.
cluster_create() {
  local switch="${cluster_name}-switch" host
  ip netns add "${switch}"
  ip -n "${switch}" link set lo up
  ip -n "${switch}" link add bridge mtu 9000 type bridge
  ip -n "${switch}" address add 10.77.0.1/24 dev bridge
  ip -n "${switch}" link set bridge up
  for host in "${cluster_workers[@]}" "${cluster_servers[@]}"; do
    ip netns add "${cluster_name}-${host}"
    ip -n "${switch}" link add "${host}" mtu 9000 type veth \
      peer name eth0 mtu 9000 netns "${cluster_name}-${host}"
    ip -n "${switch}" link set "${host}" master bridge up
    ip -n "${cluster_name}-${host}" address add "$(cluster_address "${host}")/24" dev eth0
    ip -n "${cluster_name}-${host}" link set lo up
    ip -n "${cluster_name}-${host}" link set eth0 up
    cluster_shape "${switch}" "${host}" "$1"
    cluster_shape "${cluster_name}-${host}" eth0 "$1"
  done
}

# Ends all processes of cluster_start.
cluster_kill() {
  local pid
  for pid in "${cluster_pids[@]}"; do kill -KILL "${pid}" 2>/dev/null || true; done
  wait "${cluster_pids[@]}" 2>/dev/null || true
  cluster_pids=()
}

# Waits until all processes of cluster_start have ended. Returns an error as soon as one fails.
cluster_wait() {
  local ended='' pid left
  while ((${#cluster_pids[@]} > 0)); do
    wait -n -p ended "${cluster_pids[@]}" || return 1
    left=()
    for pid in "${cluster_pids[@]}"; do [[ "${pid}" == "${ended:-}" ]] || left+=("${pid}"); done
    cluster_pids=("${left[@]}")
  done
}

# Removes all namespaces of cluster_create, also after an error in it.
cluster_remove() {
  local namespace
  cluster_kill
  while read -r namespace _; do
    [[ "${namespace}" != "${cluster_name}"-* ]] || ip netns delete "${namespace}" || true
  done < <(ip netns list)
}

# cluster_start HOST LOG COMMAND...: runs it there, in the background.
cluster_start() {
  local namespace="${cluster_name}-$1" log="$2"
  shift 2
  # exec: cluster_kill ends this process.
  (exec ip netns exec "${namespace}" "$@") >"${log}" 2>&1 &
  cluster_pids+=($!)
}

# cluster_check GBIT FOLDER: measures with iperf3, and ends unless every link carries this rate in
# both directions at once. FOLDER is for its output.
cluster_check() {
  local i
  for i in 0 1; do
    cluster_start "server${i}" "$2/iperf_server${i}" iperf3 --server --one-off
  done
  sleep 0.2
  for i in 0 1; do
    cluster_start "worker${i}" "$2/iperf${i}" iperf3 --client "$(cluster_address "server${i}")" \
      --bidir --time 3 --omit 0 --format k
  done
  cluster_wait || fail "iperf3 did not run: $(cat "$2"/iperf*)"
  awk -v gbit="$1" '
    /receiver/ {
      for (i = 2; i <= NF; i++) if ($i == "Kbits/sec") rate = $(i - 1) / 1e6
      printf "%s%.3f", (count++ ? ", " : "iperf3: "), rate
      if (rate < 0.85 * gbit || rate > 1.05 * gbit) is_off = 1
    }
    END { print " Gbit/s, of " gbit; exit is_off || count != 4 }
  ' "$2/iperf0" "$2/iperf1" >&2 ||
    fail "expected 0.85 to 1.05 times $1 Gbit/s on each link: this machine is too busy, or too slow"
}

# cluster_bytes tx|rx HOST...: bytes sent or received over the links of these hosts.
cluster_bytes() {
  local direction="$1" host sum=0
  shift
  for host in "$@"; do
    sum=$((sum + $(cluster_exec "${host}" cat "/sys/class/net/eth0/statistics/${direction}_bytes")))
  done
  echo "${sum}"
}

# cluster_run PROGRAMS FOLDER FLAGS...: runs a job with these flags, and leaves FOLDER/summary.json.
# Ends unless all its bytes crossed the links, by the links' counters.
cluster_run() {
  local programs="$1" folder="$2" host sent received pushed pulled
  shift 2
  rm -rf "${folder}" && mkdir -p "${folder}"
  sent="$(cluster_bytes tx "${cluster_workers[@]}")"
  received="$(cluster_bytes rx "${cluster_workers[@]}")"
  cluster_start switch "${folder}/coordinator.log" "${programs}/server/capstan_coordinator" \
    --insecure --listen="${cluster_coordinator}" --summary_json="${folder}/summary.json" --transport=grpc \
    --num_workers="${#cluster_workers[@]}" --num_servers="${#cluster_servers[@]}" "$@"
  for host in "${cluster_servers[@]}"; do
    cluster_start "${host}" "${folder}/${host}.log" "${programs}/server/capstan_server" \
      --insecure --coordinator="${cluster_coordinator}" --listen="$(cluster_address "${host}"):4000"
  done
  for host in "${cluster_workers[@]}"; do
    cluster_start "${host}" "${folder}/${host}.log" "${programs}/worker/capstan_worker" \
      --coordinator="${cluster_coordinator}"
  done
  cluster_wait || fail "a process of the job failed: $(tail -n 3 "${folder}"/*.log)"
  sent=$(($(cluster_bytes tx "${cluster_workers[@]}") - sent))
  received=$(($(cluster_bytes rx "${cluster_workers[@]}") - received))
  pushed="$(cluster_figure "${folder}" bytes_pushed)"
  pulled="$(cluster_figure "${folder}" bytes_pulled)"
  ((sent >= pushed && received >= pulled)) ||
    fail "the job pushed ${pushed} bytes and pulled ${pulled}, but the workers' links carried only \
${sent} and ${received}"
  awk '{ printf "  %.1f MB pushed and %.1f MB pulled crossed the links, as %.1f and %.1f MB\n",
    $1 / 1e6, $2 / 1e6, $3 / 1e6, $4 / 1e6 }' <<<"${pushed} ${pulled} ${sent} ${received}" >&2
  sed -n -e '/^ *"links":/,/}/s/^ *"text": "\(.*\)",\?$/  links: \1/p' \
    -e '/^ *"auto_codecs":/,/}/s/^ *"text": "\(.*\)",\?$/  auto codecs: \1/p' \
    "${folder}/summary.json" >&2
}

# cluster_figure FOLDER KEY: a number of the summary of cluster_run.
cluster_figure() {
  sed -n "s/^ *\"$2\": \([0-9.e+-]*\),\?$/\1/p" "$1/summary.json"
}
