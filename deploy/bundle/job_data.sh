# shellcheck shell=bash
# Sourced by what packs jobs.

# pack_job_data JOB SOURCE: copies the data files of the job file SOURCE into the folder `data`
# beside its copy JOB, and names them there. Their paths count from the folder of SOURCE.
pack_job_data() {
  local job="$1" folder path data
  folder="$(dirname "$2")"
  data="$(dirname "${job}")/data"
  while read -r path; do
    [[ -f "${folder}/${path}" ]] || continue
    install -D -m 644 "${folder}/${path}" "${data}/${path##*/}"
    sed -i "s|\"${path}\"|\"data/${path##*/}\"|" "${job}"
  done < <(sed -nE 's|^ *[a-z_]*path: "([^/"][^"]*)".*|\1|p' "${job}")
  # In the repository, a job is one folder deeper.
  sed -i 's|path: "\.\./\.\./|path: "../|' "${job}"
}
