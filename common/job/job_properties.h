#ifndef COMMON_JOB_JOB_PROPERTIES_H_
#define COMMON_JOB_JOB_PROPERTIES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "proto/job.pb.h"

namespace capstan {

// The value of checkpoint.restore for the newest checkpoint.
inline constexpr char kLatestCheckpoint[] = "latest";

// The value of data.path for a worker's standard input.
inline constexpr char kStandardInputPath[] = "-";

// Whether the model has a sparse table, and learns from a stream of samples.
bool LearnsFromStream(const v1::ModelSpec& model);

// Whether the model has only communication: there is nothing to test.
bool LearnsNothing(const v1::ModelSpec& model);

// Whether a step of a built-in model is a round of local steps.
bool HasLocalSteps(const v1::JobSpec& job);

// The optimizer of a worker's local steps.
v1::OptimizerSpec LocalOptimizer(const v1::LocalStepsSpec& local_steps);

// So many processes of a worker the default limits of connections expect: a program may be several
// ranks, such as the GPUs of a host.
inline uint32_t ExpectedProcesses(const v1::JobSpec& job) {
  return job.model().type() == v1::ModelSpec::PROGRAM ? 16 : 1;
}

// The number of rounds of a job with --epochs: enough for `local_steps` local steps.
int64_t RoundsFor(int64_t local_steps, const v1::LocalStepsSpec& rounds);

// Gives a job with local steps the servers' optimizer that suits them, unless it names one.
void FillOuterOptimizer(v1::JobSpec* job);

// XXH3-64 of the job's deterministic serialization. Exchanges name their job by it. Setting a field
// to its default changes the fingerprint.
uint64_t JobFingerprint(const v1::JobSpec& job);

// The job's transport. With two replicas, AUTO is GRPC (job.proto says why).
v1::TransportSpec TransportOf(const v1::JobSpec& job);

// The size of a job's slices, the same in every process. Tuning chooses the number of slices of a
// transfer, so slices are small in a tuned job, unless the job has a size of its own.
uint64_t SliceBytes(const v1::SchedulerSpec& scheduler);

// The step at which a worker ends that begins at `first_step`: `steps`, the job's length. In a job
// that stays, the next multiple of it.
int64_t EndStep(const v1::JobSpec& job, int64_t steps, int64_t first_step);

// The most connections for records from other servers to one server. It has as many to them.
uint32_t ReplicaConnections(const v1::JobSpec& job);

// The width of each hidden layer, from the input on, also if the job leaves it to the default.
std::vector<uint32_t> HiddenWidths(const v1::ModelSpec& model);

// For people: "bsp", or "ssp, staleness 4 (fc1.weight 2)".
std::string ConsistencyText(const v1::ConsistencySpec& consistency);

// Some gradients or values may be sent in a codec other than float32.
bool HasCodec(const v1::CodecSpec& codec);
// Some gradients may be.
bool HasPushCodec(const v1::CodecSpec& codec);
// The most arrays, as long as a table, that a worker keeps for the table's pushes.
uint32_t MostPushArrays(const v1::CodecSpec& codec);
// Whether some codecs are chosen while the job runs.
bool HasAutoCodec(const v1::CodecSpec& codec);
// Some pulls may get differences.
bool HasTopkPull(const v1::CodecSpec& codec);
// The result depends on the size of slices.
bool HasTopk(const v1::CodecSpec& codec);

// For people: "push topk:0.01, pull bfloat16 (fc3.bias float32), tables from 16KiB on".
std::string CodecText(const v1::CodecSpec& codec);

}  // namespace capstan

#endif  // COMMON_JOB_JOB_PROPERTIES_H_
