#include "common/job/job_flag_table.h"

#include <glog/logging.h>
#include <google/protobuf/message.h>

#include <string>
#include <vector>

#include "absl/strings/str_split.h"

namespace capstan {
namespace {

constexpr absl::string_view kJob = "Job";
constexpr absl::string_view kModel = "Model";
constexpr absl::string_view kTraining = "Training";
constexpr absl::string_view kOptimizer = "Optimizer";
constexpr absl::string_view kCheckpoints = "Checkpoints";
constexpr absl::string_view kConsistency = "Consistency";
constexpr absl::string_view kCodec = "Codec";
constexpr absl::string_view kScheduler = "Scheduler";
constexpr absl::string_view kMembership = "Membership";
constexpr absl::string_view kTransport = "Transport";
constexpr absl::string_view kLimits = "Limits";

constexpr JobFlag kFlags[] = {
    {kJob, "job_name", "name", "NAME", "Name of the job: letters, digits, - and _."},
    {kJob, "seed", "seed", "N", "Seed of everything random in the job."},
    {kJob, "num_workers", "cluster.num_workers", "N", "Worker processes, 1 to 4096."},
    {kJob, "num_servers", "cluster.num_servers", "N", "Server processes, 1 to 4096."},
    {kJob, "shard_count", "cluster.shard_count", "N",
     "Parts of the parameters, placed on the servers; from num_servers to 65536."},
    {kJob, "stay", "stay", "",
     "Go on without workers until the coordinator is stopped. A worker does the steps of one round "
     "and leaves; later workers train on. A round has --steps or --epochs."},

    {kModel, "model", "model.type", "",
     "mlp: fully connected layers with ReLU; logistic_regression: one layer. Both end in softmax "
     "cross-entropy. replay: the tensors and times of a known network, without its arithmetic. "
     "program: the workers are programs of your own (capstan.h), with their own tables and data; "
     "capstan run starts them with --worker_command. sparse_logistic_regression, deepfm: models of "
     "clicks, with two classes and few features of many; a sparse table has a row for each "
     "feature, "
     "and the samples are a stream."},
    {kModel, "hidden", "model.hidden", "WIDTH,...",
     "Width of each hidden layer of an mlp or a deepfm, from the input. Empty: 128,64."},
    {kModel, "precision", "model.precision", "",
     "Inputs of matrix products: float32; tf32: a GPU may round them to 10 bits; bfloat16: "
     "rounded. Sums are float32.",
     "model=mlp,logistic_regression"},

    {kModel, "initial", "initial", "FILE",
     "Begin with the parameters in this safetensors file, such as another job's --output. Every "
     "server reads it."},
    {kModel, "output", "output", "FILE",
     "Write the parameters at the end into this safetensors file. Its folder must be one that the "
     "coordinator and all servers share. An existing file is replaced when the new one is "
     "complete."},

    {kModel, "replay", "model.replay.layers", "NAME",
     "replay: vgg16, resnet50, bert_base, bert_large, or a file of lines "
     "layer,tensor,elements,million_macs.",
     "model=replay"},
    {kModel, "scale", "model.replay.scale", "N", "replay: tensors have N times fewer elements.",
     "model=replay"},
    {kModel, "compute_seconds", "model.replay.compute_seconds", "SECONDS",
     "replay: time of a step without communication.", "model=replay"},

    {kModel, "embedding_dim", "model.embedding_dim", "N",
     "deepfm: length of a feature's vector, 1 to 1023.", "model=deepfm"},
    {kModel, "embedding_stddev", "model.embedding_stddev", "X",
     "deepfm: standard deviation of the first values of the vectors; above 0.", "model=deepfm"},
    {kModel, "admitting_push", "model.rows.admitting_push", "N",
     "Learn a feature from this push of its key on, 1 to 255: rare features then take no memory.",
     "model=sparse_logistic_regression,deepfm"},
    {kModel, "max_idle_steps", "model.rows.max_idle_steps", "STEPS",
     "Forget a feature after more steps than this without it. 0: never.",
     "model=sparse_logistic_regression,deepfm"},
    {kModel, "max_rows", "model.rows.max_rows", "N",
     "Most features that the servers keep; those idle longest are forgotten. 0: any number.",
     "model=sparse_logistic_regression,deepfm"},

    {kDataFlags, "data_format", "data.format", "",
     "digits: handwritten digits, built in; csv, idx (MNIST), libsvm and libffm: files; synthetic: "
     "labelled by a random network; synthetic_ctr: clicks, labelled by a known model. "
     "sparse_logistic_regression has libsvm, libffm, csv or synthetic_ctr; deepfm the last three."},
    {kDataFlags, "data_path", "data.path", "FILE",
     "The file of samples, plain or gzip. - is standard input: for a stream of samples and one "
     "worker.",
     "data_format=csv,idx,libsvm,libffm"},
    {kDataFlags, "data_labels_path", "data.labels_path", "FILE", "idx: the file of labels.",
     "data_format=idx"},
    {kDataFlags, "test_path", "data.test_path", "FILE",
     "Held-out samples. None: --test_fraction of the samples in --data_path; a stream is not "
     "tested.",
     "data_format=csv,idx,libsvm,libffm"},
    {kDataFlags, "test_labels_path", "data.test_labels_path", "FILE", "idx: labels of --test_path.",
     "data_format=idx"},
    {kDataFlags, "test_fraction", "data.test_fraction", "FRACTION",
     "Part of the samples for the test, between 0 and 1."},
    {kDataFlags, "classes", "data.classes", "N", "Number of classes. 0: 1 + the largest label."},
    {kDataFlags, "features", "data.features", "N",
     "libsvm: number of features. 0: the largest index in the file.", "data_format=libsvm"},
    {kDataFlags, "label_column", "data.label_column", "COLUMN",
     "csv: column of the label, from 0; -1 is the last one.", "data_format=csv"},
    {kDataFlags, "has_header", "data.has_header", "", "csv: the first line names the columns.",
     "data_format=csv"},
    {kDataFlags, "feature_scale", "data.feature_scale", "FACTOR",
     "Factor of all features. 0: 1 / the largest |feature| in the training data."},
    {kDataFlags, "synthetic_samples", "data.synthetic.samples", "N",
     "synthetic: number of samples.", "data_format=synthetic"},
    {kDataFlags, "synthetic_features", "data.synthetic.features", "N",
     "synthetic: number of features.", "data_format=synthetic"},
    {kDataFlags, "synthetic_classes", "data.synthetic.classes", "N",
     "synthetic: number of classes.", "data_format=synthetic"},
    {kDataFlags, "teacher_hidden", "data.synthetic.teacher_hidden", "WIDTH",
     "synthetic: width of the labelling network's hidden layer.", "data_format=synthetic"},
    {kDataFlags, "columns", "data.columns", "COLUMN,...",
     "csv of sparse_logistic_regression and deepfm: label, numeric, categorical (any text, hashed "
     "to a key) or ignored, with a number, as in label,numeric*13,categorical*26.",
     "data_format=csv"},
    {kDataFlags, "delimiter", "data.delimiter", "CHARACTER",
     "csv with --columns: between two columns; tab is a tab.", "data_format=csv"},
    {kDataFlags, "fields", "data.fields", "N",
     "libffm of deepfm: number of fields, numbered from 0.", "data_format=libffm"},
    {kDataFlags, "ctr_samples", "data.synthetic_ctr.samples", "N",
     "synthetic_ctr: number of samples of an epoch.", "data_format=synthetic_ctr"},
    {kDataFlags, "ctr_test_samples", "data.synthetic_ctr.test_samples", "N",
     "synthetic_ctr: number of held-out samples.", "data_format=synthetic_ctr"},
    {kDataFlags, "ctr_keys", "data.synthetic_ctr.keys", "N",
     "synthetic_ctr: number of different keys, 104 to 2^32.", "data_format=synthetic_ctr"},
    {kDataFlags, "ctr_zipf_exponent", "data.synthetic_ctr.zipf_exponent", "X",
     "synthetic_ctr: how unequally frequent keys are, from 0 (equally) to 4.",
     "data_format=synthetic_ctr"},
    {kDataFlags, "ctr_interactions", "data.synthetic_ctr.interactions", "",
     "synthetic_ctr: half of what can be learned is in pairs of keys.",
     "data_format=synthetic_ctr"},

    {kTraining, "batch_size", "training.batch_size", "SAMPLES",
     "Most samples of one worker in one step."},
    {kTraining, "steps", "training.steps", "STEPS",
     "Steps of every worker. 0: --epochs decides. A program learns it from the library "
     "(capstan_steps_of_job); 0: it decides."},
    {kTraining, "epochs", "training.epochs", "EPOCHS",
     "Passes through the data. Given without --steps, it replaces the job file's steps."},

    {kOptimizer, "optimizer", "optimizer.type", "", "How the servers apply gradients."},
    {kOptimizer, "learning_rate", "optimizer.learning_rate", "RATE", "Size of an update, above 0."},
    {kOptimizer, "momentum", "optimizer.momentum", "FRACTION",
     "momentum, nesterov: part of the last update in the next one; from 0 to below 1.",
     "optimizer=momentum,nesterov"},
    {kOptimizer, "beta1", "optimizer.beta1", "FRACTION",
     "adam, adamw: decay of the first moment; from 0 to below 1.", "optimizer=adam,adamw"},
    {kOptimizer, "beta2", "optimizer.beta2", "FRACTION",
     "adam, adamw: decay of the second moment; from 0 to below 1.", "optimizer=adam,adamw"},
    {kOptimizer, "epsilon", "optimizer.epsilon", "X",
     "adagrad, row_adagrad, adam, adamw: added to the denominator; above 0.",
     "optimizer=adagrad,row_adagrad,adam,adamw"},
    {kOptimizer, "beta", "optimizer.beta", "X",
     "ftrl: lowers the first learning rates; above 0. Its alpha is --learning_rate. "
     "sparse_logistic_regression gives ftrl the sum of a batch's gradients, not their mean, so "
     "that alpha, beta, l1 and l2 mean the same for every --batch_size.",
     "optimizer=ftrl"},
    {kOptimizer, "l1", "optimizer.l1", "X",
     "ftrl: values with a sum of gradients up to this are 0; 0 or more.", "optimizer=ftrl"},
    {kOptimizer, "l2", "optimizer.l2", "X", "ftrl: pulls values toward 0; 0 or more.",
     "optimizer=ftrl"},
    {kOptimizer, "weight_decay", "optimizer.weight_decay", "RATE",
     "Decoupled for adamw, added to the gradient (L2) for all others; 0 or more."},

    {kConsistency, "consistency", "consistency.mode", "",
     "bsp: all workers step together; ssp: workers may differ by --staleness steps; async: no "
     "worker waits. Given without --staleness, bsp and async unset the job file's staleness."},
    {kConsistency, "staleness", "consistency.staleness", "STEPS",
     "ssp: workers may differ by this many steps.", "consistency=ssp"},
    {kConsistency, "table_staleness", "consistency.table_staleness", "TABLE:STEPS,...",
     "ssp: tables with a staleness of their own, such as fc1.weight:0,fc2.weight:8."},
    {kConsistency, "update_scale", "consistency.update_scale", "",
     "ssp, async: divisor of each push's learning rate. staleness: the number of live workers plus "
     "the number of updates since the worker's pull; a learning rate for bsp then suits every mode "
     "and number of workers. mean: the number of live workers. sum: 1."},
    {kConsistency, "check_finite", "consistency.check_finite", "",
     "Refuse a push with a NaN or an infinity. Lossy codecs refuse them always."},

    {kCheckpoints, "checkpoint_dir", "checkpoint.dir", "DIR",
     "Folder for checkpoints. The coordinator and all servers must share it."},
    {kCheckpoints, "checkpoint_steps", "checkpoint.steps", "STEPS",
     "Write a checkpoint each time this number of steps is done, and at the end. 0: see "
     "--checkpoint_seconds."},
    {kCheckpoints, "checkpoint_seconds", "checkpoint.seconds", "SECONDS",
     "Write a checkpoint each time this time has passed, and at the end. 0 for both: only for "
     "capstan checkpoint."},
    {kCheckpoints, "keep", "checkpoint.keep", "N",
     "Number of complete checkpoints to keep; older ones are removed."},
    {kCheckpoints, "restore", "checkpoint.restore", "DIR",
     "Go on from the checkpoint in this folder. latest: from the newest complete one in "
     "--checkpoint_dir; if there is none, the job begins anew."},

    {kCodec, "push_codec", "codec.push", "CODEC",
     "Encoding of gradients. float32: exact; bfloat16: half the bytes; int8: a quarter; topk:R: "
     "the values of largest magnitude only, where R below 1 is their ratio, as in topk:0.01, and "
     "from 1 on their number in each slice. topk:R:VALUES: these values as float32, bfloat16 or "
     "int8. What a push lacks is added to the worker's next gradient. auto: float32, and int8 from "
     "some step on if steps then take less time on the job's links."},
    {kCodec, "pull_codec", "codec.pull", "CODEC",
     "Encoding of values for the workers, as --push_codec. topk:R sends differences from what a "
     "worker has; what a difference leaves out is part of the next one."},
    {kCodec, "table_codec", "codec.table_codec", "TABLE:CODEC,...",
     "Tables with a codec of their own for gradients and values, such as "
     "fc1.weight:int8,fc2.weight:float32."},
    {kCodec, "codec_min_bytes", "codec.min_bytes", "BYTES",
     "Tables smaller than this as float32 are sent as float32, unless --table_codec names them."},
    {kCodec, "dgc", "codec.dgc", "",
     "Deep gradient compression, for a topk of gradients and --optimizer=sgd: each worker adds its "
     "momentum to the gradients before values are selected, and takes it from those that were "
     "sent."},
    {kCodec, "dgc_momentum", "codec.dgc_momentum", "FRACTION", "Momentum of the workers.",
     "dgc=true"},
    {kCodec, "dgc_clip_norm", "codec.dgc_clip_norm", "NORM",
     "Make a table's gradient smaller if its norm is larger than NORM / sqrt(workers). 0: never.",
     "dgc=true"},
    {kCodec, "dgc_warmup_steps", "codec.dgc_warmup_steps", "STEPS",
     "The ratio of values that are sent falls during these steps: at least 25, 6.25, 1.5625, 0.4 "
     "and "
     "0.1 % in five equal parts. Then it is that of --push_codec.",
     "dgc=true"},
    {kCodec, "reply_state_bytes", "codec.reply_state_bytes", "BYTES",
     "ssp, async, with a topk of values: most memory of a server for what each worker has. What is "
     "not known is sent as float32."},

    {kScheduler, "schedule", "scheduler.policy", "",
     "Order of sending of workers and servers. tensor_fifo: first ready, first sent; tensors of up "
     "to 64MiB are not cut. slice_fifo: first ready, first sent. priority: slices of the layer "
     "nearest the input first."},
    {kScheduler, "slice_bytes", "scheduler.slice_bytes", "BYTES",
     "Tensors are cut into slices of at most this size: a multiple of 64 up to 64MiB. A job of "
     "several machines with more than 10 MB of parameters measures its links, and chooses what is "
     "not given of this (not with a topk) and of the next two flags."},
    {kScheduler, "credit_bytes", "scheduler.credit_bytes", "BYTES",
     "A slice starts while fewer bytes than this are on their way: started, but not yet "
     "delivered."},
    {kScheduler, "partition_bytes", "scheduler.partition_bytes", "BYTES",
     "Consecutive slices of a tensor go as one transfer, up to this many bytes or one slice. 0: "
     "each slice by itself."},
    {kScheduler, "tune", "scheduler.tune", "",
     "Try other --partition_bytes and --credit_bytes while the job runs, and keep the fastest: 18 "
     "measurements of 12 to 100 steps each. Slices are of 256KiB unless --slice_bytes is given. "
     "Not for tensor_fifo. Under bsp the parameters' bits do not change, but with a "
     "topk they depend on the size of slices."},

    {kMembership, "lease_seconds", "membership.lease_seconds", "SECONDS",
     "A process silent for this long is declared dead; at least 3 heartbeats."},
    {kMembership, "heartbeat_seconds", "membership.heartbeat_seconds", "SECONDS",
     "Time between two heartbeats."},
    {kMembership, "rpc_deadline_seconds", "membership.rpc_deadline_seconds", "SECONDS",
     "A process ends when it cannot reach a peer for this long; at least the lease."},
    {kMembership, "registration_seconds", "membership.registration_seconds", "SECONDS",
     "If members are still missing after this time, the job ends and names them. Workers register "
     "after reading their data. 0: the job waits for ever."},
    {kMembership, "allow_other_bits", "membership.allow_other_bits", "",
     "bsp: if a worker is lost before its last step, the others go on, although the bits are then "
     "not those of an undisturbed job. Otherwise the job fails. capstan run --restart turns this "
     "off unless it is given."},

    {kTransport, "transport", "transport.type", "",
     "Transport of values and gradients. ucx: shared memory within a host, RDMA between hosts; "
     "auto: ucx if it is possible, else grpc."},
    {kTransport, "ucx_poll", "transport.ucx_poll", "",
     "UCX's thread between messages. sleep: it waits. busy: it looks for messages all the time; "
     "the "
     "round trip is shorter, and each process needs a core for it.",
     "transport=ucx,auto"},
    {kTransport, "ucx_transports", "transport.ucx_transports", "NAMES",
     "Transports for UCX, as in tcp,sm,self. Empty: shared memory and RDMA. With tcp, each process "
     "opens a port of UCX. Anyone with access to the port can end the process: for trusted "
     "networks "
     "only.",
     "transport=ucx,auto"},
    {kTransport, "grpc_connections", "transport.grpc_connections", "N",
     "grpc: connections of each worker to each server, 1 to 64. Several fill a link too fast for "
     "one core. With 1, a slice never shares the link with later ones.",
     "transport=grpc,auto"},
    {kTransport, "insecure_data_plane", "transport.insecure_data_plane", "",
     "Let UCX also connect hosts, and use tcp. With keys it admits only workers that have the "
     "token, "
     "but it does not encrypt: whoever reads the network reads the parameters, and may change "
     "them. "
     "Without this flag, or --insecure of servers and workers, UCX stays within a host.",
     "transport=ucx,auto"},
    {kTransport, "max_inflight_bytes", "transport.max_inflight_bytes", "BYTES",
     "Most bytes held by a server for a connection with unread replies; 64KiB or more."},

    {kLimits, "handshake_seconds", "limits.handshake_seconds", "SECONDS",
     "Close a connection if it has not had a call with the job's token within this time."},
    {kLimits, "idle_connection_seconds", "limits.idle_connection_seconds", "SECONDS",
     "Close a connection that has had no open call for this time."},
    {kLimits, "unproved_connections", "limits.unproved_connections", "N",
     "Most connections that have not yet made a call with the job's token, 1 to 65536. Beyond it "
     "the oldest one is closed, of the host that has most of them."},
    {kLimits, "calls_per_connection", "limits.calls_per_connection", "N",
     "Most open calls of one connection, 4 to 1024. Further ones wait."},
    {kLimits, "registrations_per_second", "limits.registrations_per_second", "N",
     "Coordinator: most members that register from one host, at once and each second. Further ones "
     "try again."},
    {kLimits, "message_bytes", "limits.message_bytes", "BYTES",
     "Coordinator: longest message, 64KiB to 64MiB; a worker registers its tables in one. A server "
     "takes a slice and its header."},
};

}  // namespace

absl::Span<const JobFlag> JobFlags() { return kFlags; }

const JobFlag* FindJobFlag(absl::string_view name) {
  for (const JobFlag& flag : kFlags) {
    if (flag.name == name) return &flag;
  }
  return nullptr;
}

JobField FieldOf(const JobFlag& flag, v1::JobSpec* job) {
  google::protobuf::Message* message = job;
  const google::protobuf::FieldDescriptor* field = nullptr;
  for (const std::string& part : std::vector<std::string>(absl::StrSplit(flag.field, '.'))) {
    if (field != nullptr) message = message->GetReflection()->MutableMessage(message, field);
    field = message->GetDescriptor()->FindFieldByName(part);
    CHECK(field != nullptr) << "no field " << flag.field << " in JobSpec";
  }
  return {message, field};
}

}  // namespace capstan
