#include "tests/integration/readme_list.h"

namespace capstan {
namespace {

Listed Trains(const char* command, double least_accuracy, const char* summary,
              Replaced replaced = {}) {
  return {command, "", /*is_run=*/true, std::move(replaced), summary, least_accuracy};
}

// Must end with 0.
Listed IsRun(const char* command) { return {command, "", /*is_run=*/true}; }

Listed Prints(const char* command, const char* output, int exit_code = 0) {
  return {command, "", /*is_run=*/true, {}, "", 0, exit_code, output};
}

// A job that is killed by timeout. On a fast machine it would be done before, so here it is killed
// as soon as it has a checkpoint.
Listed IsKilledWithACheckpoint(const char* command) {
  const Replaced replaced = {
      {"timeout -s KILL 3 capstan", "true; capstan"},
      {"--checkpoint_steps=100",
       "--checkpoint_steps=100 & run=$!; until ls kept/*/manifest; do sleep 0.05; done; "
       "kill -KILL $run; wait $run"}};
  return {command, "", /*is_run=*/true, replaced, "", 0, /*exit_code=*/137};
}

// A server is killed as soon as there are copies. On a fast machine the job would be done before.
// Then compares the parameters with those of an undisturbed job.
Listed SurvivesTheLossOfAServer(const char* command) {
  const Replaced replaced = {
      {"capstan run --epochs=300 --replicas=2", "true; capstan run --epochs=300 --replicas=2"},
      {" & sleep 3; pkill -KILL --newest capstan_server; wait",
       " --run_dir=killed & run=$!; "
       "until grep -qs 'two equal copies' killed/coordinator.log; do sleep 0.01; done; "
       "kill -KILL $(pgrep --parent $run --newest capstan_server); wait $run && "
       "capstan run --epochs=300 --run_dir=whole && "
       "grep parameters_xxh3 whole/summary.json >hash && "
       "grep -F -f hash killed/summary.json && rm -r killed whole"}};
  return {command, "", /*is_run=*/true, replaced,
          "",      0,  /*exit_code=*/0, "1 server was lost and replaced; nothing was lost"};
}

// Trains digits to its end.
Listed ResumesAndPrints(const char* command, const char* output) {
  return {command, "", /*is_run=*/true, {}, R"({"consistency": "bsp"})", 0.95, 0, output};
}

// Succeeds, with a summary and a line of it.
Listed Sends(const char* command, const char* summary, const char* output) {
  return {command, "", /*is_run=*/true, {}, summary, 0, 0, output};
}

// A job that fails.
Listed Fails(const char* command, const char* output) {
  return {command, "", /*is_run=*/true, {}, R"({"outcome": "failed"})", 0, 1, output};
}

Listed IsTestedBy(const char* label, const char* command) { return {command, label}; }

Listed DoesNotTrain(const char* command) { return {command}; }

constexpr char kAccuracyTest[] = "//tests/benchmark/codec:codec_accuracy_test";
constexpr char kClicksTest[] = "//tests/integration:clicks_test";
constexpr char kClientApiTest[] = "//tests/client_api:client_api_test";
constexpr char kCompressionTest[] = "//tests/benchmark/codec:compression_benchmark_test";
constexpr char kBundleTest[] = "//tests/bundle:bundle_test";
constexpr char kCudaTest[] = "//tests/cluster:cuda_cluster_test";
constexpr char kHostsTest[] = "//tests/machines:hosts_test";
constexpr char kDockerTest[] = "//deploy/docker:test";
constexpr char kMetricsTest[] = "//tests/metrics:metrics_test";
constexpr char kPrometheusTest[] = "//tests/metrics:prometheus_test";
constexpr char kPackageTest[] = "//tests/package:package_test";
constexpr char kPageTest[] = "//tests/page:page_test";
constexpr char kScheduleTest[] = "//tests/benchmark/schedule:schedule_benchmark_test";
constexpr char kPythonTest[] = "//tests/python:examples_test";
constexpr char kTorchStepTest[] = "//tests/benchmark/step:torch_step_test";
constexpr char kRendezvousTest[] = "//tests/machines:rendezvous_test";
constexpr char kSecurityTest[] = "//tests/security:rotation_test";
constexpr char kSetTest[] = "//tests/integration:set_test";
constexpr char kSlurmTest[] = "//deploy/slurm:capstan_sbatch_test";
constexpr char kTuneTest[] = "//tests/benchmark/schedule:tune_benchmark_test";

constexpr char kMeasured[] =
    "bazel-bin/deploy/cli/capstan run --job=deploy/jobs/digits.textproto --epochs=20 "
    "--consistency=MODE [--staleness=2]";

constexpr char kModesAndWorkers[] =
    "bazel-bin/deploy/cli/capstan run --job=deploy/jobs/digits.textproto --consistency=MODE "
    "--num_workers=N --seed=SEED";

constexpr char kUnshapedReplay[] =
    "bazel-bin/deploy/cli/capstan run --model=replay --field=model.replay.layers=vgg16 "
    "--field=model.replay.scale=8 "
    "--field=model.replay.compute_seconds=0.0277 --steps=40 --transport=grpc "
    "[--push_codec=CODEC --pull_codec=CODEC]";

}  // namespace

std::vector<Listed> AllListed() {
  return {
      Trains("deploy/train_local.sh", 0.95,
             R"({"consistency": "bsp", "workers": 2, "servers": 2})"),
      DoesNotTrain("deploy/test.sh"),
      Trains("deploy/train_local.sh --consistency=ssp --staleness=2 --num_workers=4", 0.95,
             R"({"consistency": "ssp", "staleness": 2, "workers": 4})"),
      Trains("deploy/train_local.sh --job=deploy/jobs/agaricus.textproto", 0.99,
             R"({"job": "agaricus", "consistency": "bsp", "workers": 2})"),
      IsRun("bazel-bin/deploy/cli/capstan run --help"),
      DoesNotTrain("export PATH=\"$PWD/bazel-bin/deploy/cli:$PATH\""),
      IsKilledWithACheckpoint("timeout -s KILL 3 capstan run --epochs=300 --checkpoint_dir=kept "
                              "--checkpoint_steps=100"),
      Prints("capstan checkpoint --list=kept", " of 6900, job capstan, 140.5 kB in 6 shards"),
      SurvivesTheLossOfAServer("capstan run --epochs=300 --replicas=2 & sleep 3; "
                               "pkill -KILL --newest capstan_server; wait"),
      ResumesAndPrints("capstan run --epochs=300 --checkpoint_dir=kept --checkpoint_steps=100 "
                       "--restore=latest --output=kept.safetensors",
                       "goes on from step "),
      Prints("capstan evaluate kept.safetensors", "test accuracy 0.98"),
      DoesNotTrain("bazel build //deploy/cli:capstan"),
      IsTestedBy(kSecurityTest,
                 "bazel-bin/server/capstan_coordinator --keys=keys "
                 "--job=deploy/jobs/digits.textproto --listen=0.0.0.0:4000"),
      IsTestedBy(kSecurityTest,
                 "bazel-bin/server/capstan_server --keys=keys --coordinator=HOST:4000 "
                 "--listen=0.0.0.0:4001 --advertise_host=THIS_HOST"),
      IsTestedBy(kSecurityTest,
                 "bazel-bin/worker/capstan_worker --keys=keys --coordinator=HOST:4000"),
      IsTestedBy(kSecurityTest,
                 "bazel-bin/deploy/cli/capstan status --keys=keys --coordinator=HOST:4000"),
      {"bazel-bin/deploy/cli/capstan keys --out=keys --hosts=HOST,THIS_HOST",
       "",
       /*is_run=*/true,
       {{"HOST,THIS_HOST", "node1,node2"}, {"--out=keys", "--out=keys_of_nodes"}}},

      // common/scheduler
      Prints("bazel run //tests/simulation:predict -- --workers=2 --servers=2 --layers=8 "
             "--slices=16 --slice_bytes=131072 --compute_ms=160 --compute_sigma=0 "
             "--gigabytes_per_second=0.125 --schedule=slice_fifo",
             "ms a step"),
      Prints("bazel run //tests/simulation:predict -- --workers=2 --servers=2 --layers=8 "
             "--slices=16 --slice_bytes=131072 --compute_ms=160 --compute_sigma=0 "
             "--gigabytes_per_second=0.125 --schedule=priority --credit_bytes=262144",
             "ms a step"),
      Prints("bazel run //tests/simulation/mutants:layers_ignored -- --gtest_brief=1",
             "[  FAILED  ] SchedulerTest.ASmallTransferDoesNotOvertakeALargeOneOfHigherPriority",
             /*exit_code=*/1),
      Trains("bazel-bin/deploy/cli/capstan run --model=replay --field=model.replay.layers=vgg16 "
             "--field=model.replay.scale=8 "
             "--field=model.replay.compute_seconds=0.1 --steps=20 --schedule=priority",
             0, R"({"consistency": "bsp", "workers": 2, "steps": 20})",
             {{"--field=model.replay.scale=8", "--field=model.replay.scale=256"},
              {"--field=model.replay.compute_seconds=0.1",
               "--field=model.replay.compute_seconds=0.01"}}),
      IsTestedBy(kCompressionTest,
                 "sudo tests/benchmark/compression_benchmark.sh --gbit=1 --codec=bfloat16"),
      IsTestedBy(kCompressionTest,
                 "sudo tests/benchmark/compression_benchmark.sh --gbit=1 --codec=bfloat16 "
                 "--job_flags='--slice_bytes=128K --field=scheduler.credit_bytes=2M'"),
      IsTestedBy(kCompressionTest,
                 "sudo tests/benchmark/compression_benchmark.sh --gbit=1 --codec=bfloat16 "
                 "--job_flags='--slice_bytes=1M --field=scheduler.partition_bytes=0 "
                 "--field=scheduler.credit_bytes=4M'"),
      IsTestedBy(kScheduleTest,
                 "bazel build //... && sudo tests/benchmark/schedule_benchmark.sh --model=vgg16 "
                 "--scale=8 --gbit=1 --ratio=1"),
      IsTestedBy(kScheduleTest,
                 "sudo tests/benchmark/preemption_benchmark.sh --gbit=1 --slice_bytes=131072 "
                 "--credit_bytes=1048576 --tries=300"),

      // common/transport
      IsTestedBy("//tests/benchmark/exchange:exchange_benchmark",
                 "bazel run //tests/benchmark:exchange_benchmark -- --transport=ucx "
                 "--bytes=4194304 --repeat=5 [--ucx_poll=busy] [--json]"),

      // deploy
      IsTestedBy("//tests/integration:program_test",
                 "capstan run --worker_command=\"python train.py\" --num_workers=4 "
                 "--num_servers=2"),
      IsTestedBy(kClicksTest, "capstan run --job=deploy/jobs/ctr.textproto"),
      IsTestedBy(kClicksTest, "capstan run --job=deploy/jobs/ctr_deepfm.textproto"),
      IsTestedBy(kClicksTest, "capstan run --job=deploy/jobs/agaricus_sparse.textproto"),
      IsTestedBy(kClicksTest,
                 "gzip -dc clicks.gz | capstan run --model=sparse_logistic_regression "
                 "--optimizer=ftrl --num_workers=1 --data_format=csv "
                 "--columns=label,numeric*13,categorical*26 --delimiter=tab --data_path=- "
                 "--epochs=1"),
      IsTestedBy(kClicksTest, "capstan export --checkpoint=saved --output=clicks.safetensors"),
      IsTestedBy(kClicksTest,
                 "capstan evaluate clicks.safetensors --job=deploy/jobs/ctr_deepfm.textproto"),
      Trains("capstan run --run_dir=first --output=digits.safetensors", 0.95,
             R"({"consistency": "bsp", "workers": 2})"),
      Prints("capstan evaluate digits.safetensors", "test accuracy 0.98"),
      Trains("capstan run --run_dir=second --initial=digits.safetensors --learning_rate=0.01 "
             "--epochs=5",
             0.97, R"({"consistency": "bsp", "workers": 2})"),
      Trains("capstan run --checkpoint_dir=saved --checkpoint_steps=100 --run_dir=before", 0.95,
             R"({"consistency": "bsp", "steps": 460})"),
      Prints("capstan checkpoint --list=saved", "step 460 of 460"),
      Prints("capstan checkpoint --verify=saved", "the manifest, the sums of all files and"),
      Prints("capstan export --checkpoint=saved --output=saved.safetensors",
             "has the parameters of job capstan at step 460"),
      ResumesAndPrints("capstan run --checkpoint_dir=saved --restore=latest --num_servers=3 "
                       "--run_dir=after",
                       "goes on from step 460 "),
      Trains("capstan run --checkpoint_dir=restarts --checkpoint_steps=100 --restart=on_failure "
             "--run_dir=restarted",
             0.95, R"({"consistency": "bsp", "steps": 460})"),
      Trains("capstan run --push_codec=int8 --pull_codec=bfloat16 --field=codec.min_bytes=0 "
             "--run_dir=compressed",
             0.95, R"({"push_codec": "int8", "pull_codec": "bfloat16", "pull_ratio": 2.0})"),
      Trains("capstan run --push_codec=topk:0.01 --run_dir=sparse", 0.9,
             R"({"push_codec": "topk:0.01"})"),
      Trains("capstan run --push_codec=topk:0.001 --dgc --optimizer=sgd --run_dir=dgc", 0.9,
             R"({"push_codec": "topk:0.001", "dgc_momentum": 0.9})"),
      Trains("capstan run --run_dir=digits --heartbeat_seconds=0.05 && capstan report digits", 0.95,
             R"({"consistency": "bsp", "workers": 2})"),
      Trains("capstan run --steps=100 --run_dir=digits --trace && capstan trace digits", 0.9,
             R"({"consistency": "bsp", "workers": 2, "steps": 100})"),
      IsTestedBy(kPrometheusTest, "promtool check config deploy/prometheus/prometheus.yaml"),
      IsTestedBy(kPrometheusTest,
                 "prometheus --config.file=deploy/prometheus/prometheus.yaml "
                 "--web.listen-address=127.0.0.1:9090"),
      IsTestedBy(kPrometheusTest, "promtool test rules deploy/prometheus/rules_test.yaml"),
      IsTestedBy("//tests/integration:log_format_test",
                 "capstan_worker --coordinator=HOST:4000 --log_format=json"),
      Prints("capstan keys --out=keys --hosts=node1.example.org,10.0.0.1",
             "keys: a new CA, a new token, a new certificate and private key"),
      Prints("capstan keys --from=keys --hosts=node2.example.org --out=keys_node2",
             "keys_node2: keys for all rights, from keys"),
      Prints("capstan keys --from=keys --right=look --out=keys_look",
             "keys_look: keys for the right look, from keys"),
      Prints("capstan keys --out=keys", "a new certificate and private key"),
      IsTestedBy(kMetricsTest,
                 "capstan_server --coordinator=HOST:4000 --metrics_listen=0.0.0.0:9101"),
      IsTestedBy(kMetricsTest, "curl http://127.0.0.1:9101/metrics"),
      IsTestedBy(
          kPageTest,
          "capstan_coordinator --job=deploy/jobs/digits.textproto --http_listen=127.0.0.1:4080"),
      IsTestedBy(kPageTest, "capstan top --coordinator=HOST:4000"),
      IsTestedBy("//tests/integration:replacement_test", "capstan_worker --coordinator=HOST:4000"),
      IsTestedBy(kBundleTest, "deploy/bundle.sh"),
      IsTestedBy(kPackageTest, "deploy/package.sh"),
      IsTestedBy(kPackageTest, "sudo apt-get install ./capstan_0.1.0_amd64.deb"),
      IsTestedBy(kPackageTest, "capstan run --job=/usr/share/capstan/jobs/digits.textproto"),
      IsTestedBy(kBundleTest,
                 "tar -xf capstan.tar.gz && capstan/bin/capstan run "
                 "--job=capstan/jobs/digits.textproto"),
      DoesNotTrain("bazel query 'attr(tags, no_sanitizer, tests(//...))'"),
      DoesNotTrain("deploy/setup.sh"),
      DoesNotTrain("bazel build //deploy/cli:capstan //server:all //worker:capstan_worker"),
      DoesNotTrain("bazel test //server/shard/... //worker/client/..."),
      DoesNotTrain("bazel test //common/routing:key_shard_test"),
      DoesNotTrain("bazel run //tests/simulation:simulation -- --first_seed=1 --seeds=1"),

      IsTestedBy(kHostsTest,
                 "capstan run --hosts=node1,node2:2 --bundle=capstan.tar.gz "
                 "--job=deploy/jobs/digits.textproto"),
      IsTestedBy(kRendezvousTest,
                 "capstan run --nnodes=2 --rendezvous=HOST:4000 --keys=keys "
                 "--job=deploy/jobs/digits.textproto"),

      Sends("capstan run --model=replay --field=model.replay.layers=resnet50 --num_workers=1 "
            "--steps=1 "
            "--run_dir=sent_float32",
            R"({"bytes_pushed": 102228128})", "  pushed             102.2 MB\n"),
      Sends("capstan run --model=replay --field=model.replay.layers=resnet50 --num_workers=1 "
            "--steps=1 "
            "--field=codec.min_bytes=0 --push_codec=int8 --pull_codec=int8 --run_dir=sent_int8",
            R"({"bytes_pushed": 25956436})",
            "  pushed             26.0 MB (3.9x smaller, 102.2 MB as float32)\n"),
      Sends("capstan run --model=replay --field=model.replay.layers=resnet50 --num_workers=1 "
            "--steps=1 "
            "--field=codec.min_bytes=0 --push_codec=topk:0.01 --run_dir=sent_topk",
            R"({"bytes_pushed": 2045592})",
            "  pushed             2.0 MB (50.0x smaller, 102.2 MB as float32)\n"),
      Fails("capstan run --data_format=csv --data_path=train.csv --run_dir=without_data",
            "train.csv does not exist: check the path; every worker reads it on its own machine"),
      Fails("capstan run --learning_rate=1000 --run_dir=diverged",
            "holds a NaN or an infinity; parameters are unchanged. Try a smaller --learning_rate, "
            "and look at the data"),
      IsTestedBy("//tests/python:torch_test", "capstan run --restart=on_failure"),

      // deploy/docker
      DoesNotTrain("docker build --file=deploy/docker/Dockerfile "
                   "--build-arg=REVISION=\"$(git rev-parse HEAD)\" --tag=capstan ."),
      IsTestedBy(kDockerTest,
                 "docker run --rm --read-only --tmpfs=/work capstan capstan run "
                 "--job=/opt/capstan/jobs/digits.textproto"),
      IsTestedBy(kDockerTest,
                 "docker build --build-arg=BUNDLE=capstan.tar.gz --file=deploy/docker/Dockerfile "
                 "--tag=capstan ."),
      IsTestedBy(kDockerTest, "docker images capstan"),
      IsTestedBy(kDockerTest,
                 "docker run --rm --user=\"$(id -u):$(id -g)\" --volume=\"$PWD:/work\" capstan "
                 "capstan run --job=deploy/jobs/digits.textproto --output=digits.safetensors"),
      IsTestedBy(kDockerTest, "docker compose --file=deploy/compose.yaml up"),
      IsTestedBy(kDockerTest,
                 "docker compose --file=deploy/compose.yaml exec coordinator capstan status "
                 "--keys=keys --coordinator=coordinator:4000"),
      IsTestedBy(kDockerTest, "docker compose --file=deploy/compose.yaml down --volumes"),
      IsTestedBy(kDockerTest,
                 "docker run --rm --user=\"$(id -u):$(id -g)\" --volume=\"$PWD:/work\" capstan "
                 "capstan keys --out=keys --hosts=HOST,THIS_HOST"),
      IsTestedBy(kDockerTest,
                 "docker run --rm --network=host --user=\"$(id -u):$(id -g)\" "
                 "--volume=\"$PWD:/work\" capstan capstan_coordinator --keys=keys "
                 "--job=/opt/capstan/jobs/digits.textproto --listen=0.0.0.0:4000"),
      IsTestedBy(kDockerTest,
                 "docker run --rm --network=host --user=\"$(id -u):$(id -g)\" "
                 "--volume=\"$PWD:/work\" capstan capstan_server --keys=keys "
                 "--coordinator=HOST:4000 --listen=0.0.0.0:4001 --advertise_host=THIS_HOST"),
      IsTestedBy(kDockerTest,
                 "docker run --rm --network=host --user=\"$(id -u):$(id -g)\" "
                 "--volume=\"$PWD:/work\" capstan capstan_worker --keys=keys "
                 "--coordinator=HOST:4000"),
      DoesNotTrain("sudo deploy/docker/test.sh"),
      DoesNotTrain("docker build --file=deploy/docker/Dockerfile.cuda --tag=capstan-cuda ."),
      DoesNotTrain("docker run --rm --gpus=all --tmpfs=/work capstan-cuda capstan run "
                   "--device=cuda"),

      // deploy/kubernetes: its test.sh runs what is not marked there.
      DoesNotTrain(
          "capstan keys --out=deploy/kubernetes/local/keys --hosts='*.capstan.default.svc'"),
      DoesNotTrain("kubectl apply -k deploy/kubernetes/local"),
      DoesNotTrain("kubectl get pods --selector=app.kubernetes.io/name=capstan"),
      DoesNotTrain(
          "kubectl exec job/capstan-coordinator -- capstan status --keys=/etc/capstan/keys "
          "--coordinator=capstan-coordinator-0.capstan.default.svc:4000"),
      DoesNotTrain("kubectl logs job/capstan-worker"),
      DoesNotTrain("kubectl exec job/capstan-coordinator -- capstan set --keys=/etc/capstan/keys "
                   "--coordinator=capstan-coordinator-0.capstan.default.svc:4000 --consistency=ssp "
                   "--staleness=4"),
      DoesNotTrain("capstan keys --out=deploy/kubernetes/local/keys"),
      DoesNotTrain(
          "kubectl exec job/capstan-coordinator -- capstan checkpoint --keys=/etc/capstan/keys "
          "--coordinator=capstan-coordinator-0.capstan.default.svc:4000"),
      DoesNotTrain("kubectl delete job --selector=app.kubernetes.io/name=capstan "
                   "--cascade=foreground"),
      DoesNotTrain("kubectl wait --for=condition=complete --timeout=10m job/capstan-coordinator"),
      DoesNotTrain("kubectl logs job/capstan-coordinator"),
      DoesNotTrain("kubectl delete -k deploy/kubernetes/local"),
      DoesNotTrain("capstan keys --out=keys --hosts='*.capstan.default.svc'"),
      DoesNotTrain("kubectl create secret generic capstan-tls --from-file=keys/tls.crt "
                   "--from-file=keys/tls.key --from-file=keys/ca.crt"),
      DoesNotTrain("kubectl create secret generic capstan-token --from-file=keys/token"),
      DoesNotTrain("kubectl apply -k deploy/kubernetes/base"),
      DoesNotTrain("kubectl delete -k deploy/kubernetes/base"),
      DoesNotTrain("kubectl apply -k deploy/kubernetes/service"),
      DoesNotTrain("kubectl apply -k deploy/kubernetes/jobs/workers"),
      DoesNotTrain("kubectl wait --for=condition=complete --timeout=10m job/capstan-worker"),
      DoesNotTrain("kubectl delete job capstan-worker --cascade=foreground"),
      DoesNotTrain("kubectl exec statefulset/capstan-coordinator -- capstan checkpoint "
                   "--keys=/etc/capstan/keys "
                   "--coordinator=capstan-coordinator-0.capstan.default.svc:4000"),
      DoesNotTrain("kubectl delete -k deploy/kubernetes/service"),
      DoesNotTrain("kubectl describe pod --selector=app.kubernetes.io/name=capstan"),
      DoesNotTrain("kubectl port-forward pod/POD 8080"),
      DoesNotTrain("kubectl apply -k deploy/kubernetes/jobset"),
      DoesNotTrain(
          R"(kubectl patch jobset capstan --type=merge --patch='{"spec":{"suspend":true}}')"),
      DoesNotTrain(
          R"(kubectl patch jobset capstan --type=merge --patch='{"spec":{"suspend":false}}')"),
      DoesNotTrain("sudo deploy/kubernetes/test.sh"),

      // deploy/slurm
      IsTestedBy(kSlurmTest, "sbatch deploy/slurm/capstan.sbatch deploy/jobs/digits.textproto"),
      IsTestedBy(kSlurmTest,
                 "sbatch --ntasks=7 --nodes=2 deploy/slurm/capstan.sbatch "
                 "deploy/jobs/digits.textproto --num_workers=4"),
      IsTestedBy(kSlurmTest,
                 "sbatch deploy/slurm/capstan.sbatch deploy/jobs/program.textproto "
                 "--worker_command=\"python train.py\""),
      DoesNotTrain("sudo deploy/slurm/test.sh"),

      // kernels
      DoesNotTrain("deploy/bundle.sh --config=cuda --gpu_suite"),
      DoesNotTrain("bazel test --config=cuda --test_output=all //kernels/cuda:resource_usage_test"),
      DoesNotTrain("find bazel-bin/kernels/cuda/_nvcc/ -name '*.o' "
                   "-exec cuobjdump -sass -arch sm_90 {} \\; > kernels.sass"),
      DoesNotTrain("kernels/cuda/resource_usage.py "
                   "$(find bazel-bin/kernels/cuda/_nvcc/ -name '*.usage') kernels.sass"),
      DoesNotTrain("tar -xf capstan.tar.gz"),
      IsTestedBy("//tests/gpu:gpu_suite_test", "capstan/tests/gpu_suite.sh --out=logs"),
      IsTestedBy(kCudaTest, "bin/capstan run --device=cuda"),
      DoesNotTrain("bazel build --config=cuda //..."),
      IsTestedBy(kCudaTest, "bazel-bin/deploy/cli/capstan run --device=cuda"),
      IsTestedBy(kCudaTest,
                 "bazel-bin/deploy/cli/capstan run --num_workers=4 --device=cuda:0,cuda:1"),
      IsTestedBy(kCudaTest,
                 "bazel-bin/worker/capstan_worker --coordinator=HOST:4000 --device=cuda:2"),

      // server/consistency
      Prints("bazel run //tests/simulation/mutants:ssp_bound_off_by_one -- --threads=1 "
             "--until_rule='staleness bound'",
             "): staleness bound: the pull of step ", /*exit_code=*/1),
      Trains("capstan run --consistency=ssp --staleness=2 --record_history=history", 0.9,
             R"({"consistency": "ssp", "staleness": 2, "workers": 2})"),
      IsRun("capstan check history"),
      IsTestedBy(kSetTest, "capstan set --coordinator=HOST:PORT --consistency=ssp --staleness=4"),
      IsTestedBy(kSetTest, "capstan set --coordinator=HOST:PORT --staleness=1"),
      Trains("capstan run --consistency=ssp --staleness=8 "
             "--table_staleness=fc1.weight:0,fc3.bias:2",
             0.9, R"({"consistency": "ssp", "staleness": 8, "workers": 2})"),

      // tests/benchmark
      Trains(kMeasured, 0.95, R"({"consistency": "bsp"})", {{"MODE [--staleness=2]", "bsp"}}),
      Trains(kMeasured, 0.95, R"({"consistency": "ssp", "staleness": 2})",
             {{"MODE [--staleness=2]", "ssp --staleness=2"}}),
      Trains(kMeasured, 0.95, R"({"consistency": "async"})", {{"MODE [--staleness=2]", "async"}}),
      Trains(kModesAndWorkers, 0.95, R"({"consistency": "ssp", "staleness": 2, "workers": 8})",
             {{"MODE", "ssp --staleness=2"}, {"=N", "=8"}, {"SEED", "1"}}),
      Trains(kModesAndWorkers, 0.95, R"({"consistency": "ssp", "staleness": 8, "workers": 4})",
             {{"MODE", "ssp --staleness=8"}, {"=N", "=4"}, {"SEED", "1"}}),
      Trains(kModesAndWorkers, 0.95, R"({"consistency": "async", "workers": 4})",
             {{"MODE", "async"}, {"=N", "=4"}, {"SEED", "1"}}),
      Trains(kModesAndWorkers, 0.95, R"({"consistency": "async", "workers": 8})",
             {{"MODE", "async"}, {"=N", "=8"}, {"SEED", "1"}}),
      IsTestedBy("//tests/benchmark/step:bsp_step_benchmark",
                 "bazel run //tests/benchmark:bsp_step_benchmark -- --repeat=5 "
                 "[--transport=grpc] [--servers=2] [--json]"),
      IsTestedBy("//tests/benchmark/step:bsp_step_benchmark",
                 "bazel run //tests/benchmark:bsp_step_benchmark -- --transport=ucx --steps=80 "
                 "--nobaselines --json [--nometrics]"),
      IsTestedBy("//tests/benchmark/exchange:metrics_benchmark",
                 "bazel run //tests/benchmark:metrics_benchmark -- --json"),
      IsTestedBy("//tests/benchmark/codec:codec_benchmark",
                 "bazel run //tests/benchmark:codec_benchmark -- --elements=25000000 "
                 "--repetitions=9 --json"),
      IsTestedBy(kAccuracyTest, "tests/benchmark/codec_accuracy.py"),
      IsTestedBy(kAccuracyTest,
                 "tests/benchmark/codec_accuracy.py --jobs=digits --digits_epochs=60"),
      IsTestedBy(kCompressionTest,
                 "sudo tests/benchmark/compression_benchmark.sh --gbit=0.1,0.25,0.5,1,2 "
                 "--codec=bfloat16,int8,topk:0.01,auto --seconds=4 > codecs.json && "
                 "tests/benchmark/compression_chart.py < codecs.json > codecs.svg"),
      IsTestedBy(kCompressionTest,
                 "sudo tests/benchmark/compression_benchmark.sh --gbit=0.1 --codec=bfloat16,int8 "
                 "--seconds=4 --job_flags=--slice_bytes=1M"),
      IsTestedBy(kCompressionTest,
                 "sudo tests/benchmark/compression_benchmark.sh --gbit=0.1,0.5 "
                 "--codec=topk:0.001+dgc --seconds=5"),
      Trains(kUnshapedReplay, 0, R"({"consistency": "bsp", "workers": 2, "steps": 40})",
             {{"[--push_codec=CODEC --pull_codec=CODEC]", "--push_codec=int8 --pull_codec=int8"},
              {"--field=model.replay.scale=8", "--field=model.replay.scale=256"},
              {"--field=model.replay.compute_seconds=0.0277",
               "--field=model.replay.compute_seconds=0.001"}}),
      IsTestedBy(kCompressionTest,
                 "sudo tests/benchmark/compression_benchmark.sh --train "
                 "--codec=int8,topk:0.001+dgc"),
      IsTestedBy(kAccuracyTest, "tests/benchmark/codec_accuracy.py --jobs=digits --workers=8"),
      IsTestedBy(kAccuracyTest,
                 "tests/benchmark/codec_accuracy.py --jobs=digits --workers=8 --digits_epochs=60"),
      IsTestedBy("//tests/benchmark/checkpoint:checkpoint_benchmark",
                 "bazel run //tests/benchmark:checkpoint_benchmark -- --json"),
      IsTestedBy("//tests/benchmark/checkpoint:checkpoint_benchmark",
                 "bazel run //tests/benchmark:checkpoint_benchmark -- --repeat=0 --steps=0 "
                 "--rows=10000000"),
      IsTestedBy("//tests/benchmark/coordinator:coordinator_benchmark",
                 "bazel run //tests/benchmark:coordinator_benchmark"),
      IsTestedBy("//tests/benchmark/copy:copy_benchmark",
                 "bazel run //tests/benchmark:copy_benchmark"),
      IsTestedBy("//tests/benchmark/step:bsp_step_benchmark",
                 "bazel run //tests/benchmark:bsp_step_benchmark -- --nobaselines --transport=grpc "
                 "--servers=2 --replicas=2 [--workers=4]"),
      IsTestedBy("//tests/benchmark/sparse:row_table_benchmark",
                 "bazel run //tests/benchmark:row_table_benchmark -- --json "
                 "[--dim=1 --optimizer=sgd]"),
      IsTestedBy("//tests/benchmark/sparse:sparse_benchmark",
                 "bazel run //tests/benchmark:sparse_benchmark -- --repeat=1 --json "
                 "[--dim=1 --optimizer=sgd]"),
      IsTestedBy(kScheduleTest,
                 "sudo tests/benchmark/schedule_benchmark.sh > sweep.json && "
                 "tests/benchmark/schedule_chart.py < sweep.json > sweep.svg"),
      IsTestedBy(kScheduleTest,
                 "sudo tests/benchmark/schedule_benchmark.sh --ratio=1 --schedules=priority "
                 "--job_flags='--slice_bytes=128K --field=scheduler.credit_bytes=1M "
                 "--field=transport.grpc_connections=1'"),
      IsTestedBy("//tests/benchmark/schedule:defaults_benchmark_test",
                 "sudo tests/benchmark/defaults_benchmark.sh --model=vgg16 --scale=32 --gbit=1 "
                 "--slices=65536,131072,262144 --credits=524288,1048576,2097152"),
      IsTestedBy(kTuneTest, "sudo tests/benchmark/tune_benchmark.sh --gbit=1"),
      IsTestedBy(kTuneTest, "sudo tests/benchmark/tune_benchmark.sh --gbit=0.25"),
      IsTestedBy("//tests/benchmark/straggler:straggler_study_test",
                 "bazel run //tests/benchmark:straggler_study -- --html=study.html "
                 "[--patterns=random_slow] [--modes=bsp,ssp4]"),

      // tests/fuzz
      DoesNotTrain("bazel test //tests/fuzz/..."),
      DoesNotTrain("bazel test --config=asan //tests/fuzz/..."),
      DoesNotTrain("bazel test --config=asan --test_arg=300 --test_arg=$RANDOM --test_timeout=900 "
                   "//tests/fuzz/..."),
      DoesNotTrain("bazel build --config=asan //tests/fuzz:frame_fuzzer && tests/fuzz/fuzz.sh "
                   "bazel-bin/tests/fuzz/frame_fuzzer tests/fuzz/corpus/frame_fuzzer 600"),
      DoesNotTrain("frame_fuzzer -merge=1 -set_cover_merge=1 -use_counters=0 -max_len=2048 "
                   "NEW_CORPUS FOUND tests/fuzz/corpus/frame_fuzzer"),

      // tests/simulation
      IsTestedBy("//tests/simulation:simulation_test",
                 "bazel run //tests/simulation:simulation -- --seeds=100000"),
      DoesNotTrain("bazel test //tests/simulation/..."),
      Prints("bazel run //tests/simulation:predict -- --workers=4 --servers=2 --layers=4 "
             "--slices=4 --slice_bytes=65536 --steps=1000 --consistency=ssp --staleness=8 "
             "--compute_ms=20 --compute_sigma=0.5 --slowness=1.1",
             "4.99"),

      // worker/client_api
      DoesNotTrain("bazel build //worker/client_api:libcapstan.so //deploy/cli:capstan"),
      IsTestedBy(kClientApiTest,
                 "gcc -std=c11 -Iworker/client_api tests/client_api/linear_regression.c "
                 "-Lbazel-bin/worker/client_api -lcapstan -lm "
                 "-Wl,-rpath,$PWD/bazel-bin/worker/client_api -o linear_regression"),
      IsTestedBy(kClientApiTest,
                 "bazel-bin/deploy/cli/capstan run --worker_command=./linear_regression "
                 "--num_workers=3"),
      IsTestedBy(kBundleTest,
                 "gcc -std=c11 -Icapstan/include tests/client_api/linear_regression.c "
                 "-Lcapstan/lib -lcapstan -lm -Wl,-rpath,$PWD/capstan/lib -o linear_regression"),

      // deploy/guide/local-steps.md
      Trains("capstan run --local_steps=20 --local_optimizer=adamw --local_learning_rate=0.001",
             0.94, R"({"sync_every": 20})"),

      // worker/python
      DoesNotTrain("deploy/wheel.sh"),
      DoesNotTrain("pip install dist/capstan_ps-*.whl"),
      IsTestedBy(kPythonTest,
                 "python -m capstan run --num_workers=2 --num_servers=2 "
                 "--worker_command=\"python worker/python/examples/digits.py\""),
      IsTestedBy(kPythonTest,
                 "capstan_coordinator --model=program --num_workers=2 --num_servers=1 "
                 "--push_codec=int8 --pull_codec=int8 --listen=0.0.0.0:4000 --keys=keys "
                 "--state=state &"),
      IsTestedBy(kPythonTest,
                 "capstan_server --coordinator=servers.example.com:4000 --listen=0.0.0.0:4001 "
                 "--advertise_host=servers.example.com --keys=keys &"),
      IsTestedBy(kPythonTest, "capstan keys --out=keys --hosts=servers.example.com"),
      IsTestedBy(kPythonTest,
                 "CAPSTAN_COORDINATOR=servers.example.com:4000 CAPSTAN_KEYS=keys python "
                 "worker/python/examples/local_steps.py"),
      DoesNotTrain("deploy/torch_test.sh"),
      DoesNotTrain("PYTHONPATH=tests/python python3.13 tests/python/run_tests.py "
                   "library_test numpy_test process_test"),
      DoesNotTrain("CAPSTAN_TEST_DEVICE=cuda PYTHONPATH=tests/python python "
                   "tests/python/run_tests.py torch_test torch_embedding_test torch_read_test"),
      IsTestedBy("//tests/benchmark/step:local_steps_test",
                 "python tests/benchmark/local_steps.py --workers=4 --sync_every=50 --rounds=80 "
                 "--codec=int8 --seeds=1 --peer --json"),
      IsTestedBy(kTorchStepTest, "python tests/benchmark/torch_step.py"),
      IsTestedBy(kTorchStepTest, "sudo python tests/benchmark/torch_step.py --gbit=1"),
      IsTestedBy(kTorchStepTest, "sudo python tests/benchmark/torch_step.py --gbit=1 --wait"),
      IsTestedBy(kTorchStepTest, "python tests/benchmark/torch_step.py --layer_cost"),
  };
}

}  // namespace capstan
