#!/usr/bin/env bash
# Sourced by chaos.sh: its figures, from the lines that it keeps of each loss and job.

# longest_step KIND NUMBER: the longest one of the jobs of this kind, or of one of them; null if there is
# none.
longest_step() {
  awk -v kind="$1" -v number="$2" '
    $1 == kind && (number == "" || $2 == number) && $3 > longest { longest = $3 }
    END { print (longest == "" ? "null" : longest) }' "${scratch}/steps"
}

# steps_text NUMBER: of a job that ran with and without losses.
steps_text() {
  [[ "${kill}" != coordinator ]] || echo ", longest step $(longest_step disturbed "$1") s," \
    "undisturbed $(longest_step undisturbed "$1") s"
}

# times_of SIGNAL ROLE: sorted.
times_of() {
  sed --quiet --regexp-extended "s/^$1 $2 ([0-9.]+)$/\1/p" "${scratch}/times" | sort --numeric-sort
}

# quantile PERCENT SIGNAL ROLE: null if there are none.
quantile() {
  times_of "$2" "$3" | awk -v percent="$1" '
    { times[NR] = $1 }
    END {
      if (NR == 0) { print "null"; exit }
      rank = int((NR * percent + 99) / 100)
      print times[rank < 1 ? 1 : rank]
    }'
}

# sum_of NAME
sum_of() { awk -v name="$1" '$1 == name { sum += $2 } END { print sum + 0 }' "${scratch}/counts"; }

print_figures() {
  local role signal count
  for role in server worker coordinator; do
    for signal in KILL STOP CUT BOTH; do
      count="$(times_of "${signal}" "${role}" | wc --lines)"
      ((count == 0)) || echo "${signal} ${role}: ${count} times, median" \
        "$(quantile 50 "${signal}" "${role}") s, longest $(quantile 100 "${signal}" "${role}") s"
    done
  done
  role=server
  [[ "${kill}" != worker ]] || role=worker
  printf '{"kills": %s, "same_bits": %s, "lost_updates": %s, "doubled_updates": %s, ' \
    "${lost}" "${same_bits}" "$(sum_of lost_updates)" "$(sum_of doubled_updates)"
  printf '"violations": %s, "p50_recovery_s": %s, "p99_recovery_s": %s, "p50_stop_s": %s, ' \
    "$(sum_of violations)" "$(quantile 50 KILL "${role}")" "$(quantile 99 KILL "${role}")" \
    "$(quantile 50 STOP "${role}")"
  printf '"p99_stop_s": %s, "p50_cut_s": %s, "worst_recovery_s": %s, "p50_coordinator_s": %s, ' \
    "$(quantile 99 STOP "${role}")" "$(quantile 50 CUT "${role}")" "$(quantile 100 KILL "${role}")" \
    "$(quantile 50 KILL coordinator)"
  printf '"worst_coordinator_s": %s, "longest_step_s": %s, "undisturbed_longest_step_s": %s, "seed": %s}\n' \
    "$(quantile 100 KILL coordinator)" "$(longest_step disturbed '')" "$(longest_step undisturbed '')" \
    "${seed}"
}
