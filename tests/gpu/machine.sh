# shellcheck shell=bash disable=SC2154
# Part of tests/gpu_suite.sh: looks for a usable GPU.

# Folders in which cuBLAS may be: of NVIDIA's installers, of conda, of Python's packages.
cublas_folders() {
  local packages
  compgen -G '/usr/local/cuda*/lib64' || true
  compgen -G '/usr/local/cuda*/targets/x86_64-linux/lib' || true
  echo /opt/cuda/lib64
  [[ -z "${CONDA_PREFIX:-}" ]] || echo "${CONDA_PREFIX}/lib"
  while read -r packages; do
    compgen -G "${packages}/nvidia/cu[0-9]*/lib" || true
    echo "${packages}/nvidia/cublas/lib"
  done < <(timeout 20 python3 -c 'import sys; print(*sys.path, sep="\n")' 2>/dev/null)
}

# Lets the loader find cuBLAS, unless it finds it already.
find_cublas() {
  local soname folder
  soname="$(ldd "${bundle}/bin/capstan_worker" 2>/dev/null |
    sed -nE 's/^\s*(libcublas\.so\.[0-9]+) => not found.*/\1/p' || true)"
  [[ -n "${soname}" ]] || return 0
  while read -r folder; do
    [[ -e "${folder}/${soname}" ]] || continue
    export LD_LIBRARY_PATH="${folder}${LD_LIBRARY_PATH:+:${LD_LIBRARY_PATH}}"
    return 0
  done < <(cublas_folders)
  echo "gpu_suite: found no ${soname} in the folders of CUDA, conda and Python; install CUDA" \
    "${soname##*.}, or put the library's folder on LD_LIBRARY_PATH" >&2
}

# The first line of the probe's logs with the regular expression $1.
probe_line() {
  grep -hsE -m 1 -e "$1" "${out}/probe/worker-0.log" "${out}/probe.log" | head -n 1 || true
}

# Trains on the GPU for a moment. If there is no GPU, sets `no_gpu` to the error. A GPU, driver or
# library that cannot be used is a failure.
look_for_gpu() {
  limited 30 probe.log "${bundle}/bin/capstan" run --device=cuda --epochs=1 --num_workers=1 \
    --num_servers=1 --run_dir="${out}/probe" && return 0
  no_gpu="$(probe_line 'no NVIDIA driver answers|cudaErrorNoDevice')"
}

# Why the probe failed.
probe_error() {
  local line
  line="$(probe_line '--device=|error while loading shared libraries')"
  echo "${line:-$(error_line probe.log)}"
}

stage_machine() {
  local smi
  smi="$(timeout 10 nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader 2>&1)" ||
    smi="unknown GPU, nvidia-smi does not answer"
  smi="$(head -n 1 <<<"${smi}")"
  row ok "${smi%%,*}" "driver and memory:${smi#*,}; $(nproc) cores"
  if [[ -n "${no_gpu}" ]]; then
    row "not run" "first use of the GPU" "no GPU: ${no_gpu}"
  elif grep -q '^job .* is done' "${out}/probe.log"; then
    row ok "first use of the GPU" "trained for one epoch"
  else
    row FAILED "first use of the GPU" "$(probe_error)"
  fi
}
