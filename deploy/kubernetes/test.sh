#!/usr/bin/env bash
# Tries the manifests as far as a machine without a cluster allows: builds them, checks them against
# Kubernetes' schemas and against the programs, and runs their commands in an emulated cluster
# (emulation/). Takes 4 minutes. The last line is "N passed, N failed, N skipped": some cases are skipped
# if this machine does not allow them. Needs root for the emulation. Installs Debian's kubernetes-client if there
# is no kubectl, and fetches kubernetes-validate from PyPI into a virtual environment.
# Usage: deploy/kubernetes/test.sh [--programs=DIR]
#   --programs=DIR   the programs to try: bin of a bundle, or bazel-bin; bazel-bin unless given, which
#                    is built if it is missing
set -euo pipefail

repository="$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)"
cd "${repository}"
# Debian's own Python has Debian's yaml.
python=/usr/bin/python3
overlays=(base local gpu insecure no_checkpoints service jobset program)

fail() {
  echo "kubernetes test: $1" >&2
  echo "0 passed, 1 failed"
  exit 1
}

programs="${repository}/bazel-bin"
case "${1:-}" in
  --programs=?*) programs="$(realpath "${1#*=}")" ;;
  '') ;;
  *) fail "expected nothing or --programs=DIR, got $1" ;;
esac

as_root() { if [[ ${EUID} -eq 0 ]]; then "$@"; else sudo "$@"; fi; }

prepare() {
  local package missing=() wanted=(iproute2 python3-venv python3-yaml)
  command -v kubectl >/dev/null || wanted+=(kubernetes-client)
  for package in "${wanted[@]}"; do
    [[ "$(dpkg-query --show --showformat='${db:Status-Abbrev}' "${package}" 2>/dev/null)" == ii* ]] ||
      missing+=("${package}")
  done
  if [[ ${#missing[@]} -gt 0 ]]; then
    export DEBIAN_FRONTEND=noninteractive
    { as_root apt-get --quiet --yes update &&
      as_root apt-get --quiet --yes install --no-install-recommends "${missing[@]}"; } ||
      fail "cannot install ${missing[*]}; see above"
  fi
  [[ ! -x "${programs}/capstan" ]] || return 0
  if [[ ! -x "${programs}/deploy/cli/capstan" || ! -x "${programs}/worker/capstan_worker" ]]; then
    { deploy/setup.sh build && bazel build --noshow_progress //deploy/cli:capstan; } ||
      fail "cannot build the programs; see above"
  fi
}
prepare </dev/null

scratch="$(mktemp -d)"
trap 'rm -rf "${scratch}"' EXIT
# Pods are other users.
chmod 755 "${scratch}"
# shellcheck source=deploy/checks.sh
source deploy/checks.sh

# What a user's image would have: a program that trains with the Python package.
write_training_program() {
  local site=bazel-bin/worker/python/site
  [[ -e "${site}" ]] || bazel build --noshow_progress //worker/python:site </dev/null ||
    fail "cannot build the Python package; see above"
  cp --recursive tests/integration/linear_regression.py "${site}" "${scratch}/programs"
  cat >"${scratch}/programs/train" <<'END'
#!/usr/bin/sh
folder="$(/usr/bin/dirname "$0")"
export PYTHONPATH="${folder}/site"
exec /usr/bin/python3 -B "${folder}/linear_regression.py" --steps=400 "$@"
END
}

# A copy of the manifests with keys, and the programs of the image.
copy_inputs() {
  local program
  mkdir "${scratch}/programs"
  for program in capstan capstan_coordinator capstan_server capstan_worker; do
    cp "$(find "${programs}"/{.,deploy/cli,server,worker} -maxdepth 1 -name "${program}" 2>/dev/null |
      head --lines=1)" "${scratch}/programs"
  done
  write_training_program
  chmod 755 "${scratch}"/programs/*
  mkdir --parents "${scratch}/repository/deploy"
  cp --recursive deploy/kubernetes "${scratch}/repository/deploy"
  "${scratch}/programs/capstan" keys --out="${scratch}/repository/deploy/kubernetes/local/keys" \
    --hosts='*.capstan.default.svc' >/dev/null
}

# Debian's kubectl, beside the one at hand.
fetch_debian_kubectl() {
  mkdir "${scratch}/debian"
  (cd "${scratch}/debian" && { apt-get --quiet download kubernetes-client ||
    { as_root apt-get --quiet update && apt-get --quiet download kubernetes-client; }; } &&
    dpkg --extract kubernetes-client_*.deb .) </dev/null >"${scratch}/fetch.log" 2>&1 &&
    [[ "$("${scratch}/debian/usr/bin/kubectl" version --client)" == *v1.20.* ]]
}

# kustomize KUBECTL OVERLAY FILE: with the workers that the service needs.
kustomize() {
  local folder folders=("$2")
  [[ "$2" != service ]] || folders+=(jobs/workers)
  for folder in "${folders[@]}"; do
    [[ "${folder}" == "$2" ]] || echo ---
    "$1" kustomize "${scratch}/repository/deploy/kubernetes/${folder}" || return 1
  done >"$3"
}

# build KUBECTL NAME: each overlay becomes NAME-OVERLAY.yaml.
build() {
  local overlay
  for overlay in "${overlays[@]}"; do
    check "$2 builds ${overlay}" kustomize "$1" "${overlay}" "${scratch}/built/$2-${overlay}.yaml"
  done
}

# The JobSet's Jobs as objects of their own, which the schemas know.
write_jobs_of_jobset() {
  "${python}" - "$1" >"$2" <<'END'
import sys
import yaml

with open(sys.argv[1]) as manifest:
    for document in yaml.safe_load_all(manifest):
        if document['kind'] != 'JobSet':
            print('---', yaml.safe_dump(document), sep='\n')
            continue
        for job in document['spec']['replicatedJobs']:
            print('---', yaml.safe_dump({'apiVersion': 'batch/v1', 'kind': 'Job',
                                         'metadata': {'name': job['name']}, **job['template']}),
                  sep='\n')
END
}

# Strictly: a field that the schema lacks is a fault.
validate() {
  local version manifest versions
  "${python}" -m venv "${scratch}/venv"
  "${scratch}/venv/bin/pip" install --quiet --disable-pip-version-check kubernetes-validate==1.37.0
  # The oldest and the newest that it has.
  versions=(1.25 1.37)
  for version in "${versions[@]}"; do
    for manifest in "${scratch}"/schema/*.yaml; do
      "${scratch}/venv/bin/kubernetes-validate" --quiet --strict --kubernetes-version "${version}" \
        "${manifest}"
    done
  done
}

is_strict() {
  sed 's/completions:/completion:/' "${scratch}/schema/kubectl-base.yaml" >"${scratch}/wrong.yaml"
  "${scratch}/venv/bin/kubernetes-validate" --strict "${scratch}/schema/kubectl-base.yaml"
  ! "${scratch}/venv/bin/kubernetes-validate" --strict "${scratch}/wrong.yaml" || return 1
}

# Own network, mounts and processes: nothing is left behind, whatever happens.
in_namespaces() { unshare --net --mount --pid --fork --kill-child --mount-proc "$@"; }

try_jobs() {
  local counts exit_code=0
  if ! in_namespaces bash -c 'ip link add pods type bridge && mount -t tmpfs tmpfs /mnt' 2>/dev/null; then
    skip "jobs in the emulated cluster: expected to be allowed namespaces and mounts; use sudo"
    return
  fi
  in_namespaces "${python}" -B deploy/kubernetes/emulation/try_jobs.py "${scratch}/repository" \
    "${scratch}/programs" "${scratch}/cluster" </dev/null 2>&1 | tee "${scratch}/jobs.log" || exit_code=$?
  counts="$(grep --count '^ok ' "${scratch}/jobs.log" || true)"
  passed=$((passed + counts))
  counts="$(grep --count '^FAILED ' "${scratch}/jobs.log" || true)"
  failed=$((failed + counts))
  if ((exit_code != 0)) || ! grep --quiet '^all jobs tried$' "${scratch}/jobs.log"; then
    echo "FAILED  not all jobs were tried: exit code ${exit_code}"
    failed=$((failed + 1))
  fi
}

copy_inputs
mkdir "${scratch}"/{built,schema,cluster}
build kubectl kubectl
if fetch_debian_kubectl; then
  build "${scratch}/debian/usr/bin/kubectl" debian
else
  skip "Debian's kubectl 1.20: there is none for this system"
fi
for manifest in "${scratch}"/built/*.yaml; do
  write_jobs_of_jobset "${manifest}" "${scratch}/schema/$(basename "${manifest}")"
done
check "all objects pass the oldest and the newest schema" validate
check "the schemas refuse an unknown field" is_strict
check "the manifests fit the programs and each other" "${python}" -B \
  deploy/kubernetes/emulation/check_manifests.py "${scratch}/programs" "${scratch}"/built/*.yaml
check "faults in manifests are found" "${python}" -B deploy/kubernetes/emulation/check_test.py \
  "${scratch}/programs" "${scratch}/built/kubectl-local.yaml"
try_jobs
print_counts
