#ifndef TESTS_BENCHMARK_SERVER_LOAD_H_
#define TESTS_BENCHMARK_SERVER_LOAD_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/ids.h"
#include "common/exchange/parameter_endpoint.h"
#include "common/tensor/buffer_pool.h"
#include "common/tensor/host_buffer.h"
#include "server/optimizer/optimizer.h"
#include "server/shard/shard_host.h"
#include "tests/benchmark/benchmark_job.h"

namespace capstan {

// Something that a server does again and again. For one thread.
class ServerLoad {
 public:
  virtual ~ServerLoad() = default;

  // Does it once; all gradients are 1.
  virtual void Run() = 0;
  // After the first run: whether all values are what they must be then.
  virtual absl::Status Check() = 0;

  // What a run has to read and to write when nothing stays in a cache.
  virtual uint64_t traffic_bytes() const = 0;
  // The memory that it goes through.
  virtual uint64_t memory_bytes() const = 0;
  // Applications or exchanges of a run.
  virtual uint64_t operations() const = 0;
};

// One application of an optimizer to a slice.
class ApplyLoad : public ServerLoad {
 public:
  static absl::StatusOr<std::unique_ptr<ServerLoad>> Create(const BenchmarkJob& job);

  void Run() override;
  absl::Status Check() override;
  uint64_t traffic_bytes() const override;
  uint64_t memory_bytes() const override;
  uint64_t operations() const override { return 1; }

 private:
  explicit ApplyLoad(const BenchmarkJob& job) : job_(job) {}

  const BenchmarkJob job_;
  std::unique_ptr<Optimizer> optimizer_;
  HostBuffer gradient_;
  HostBuffer values_;
  std::vector<HostBuffer> state_;
  std::vector<absl::Span<float>> state_spans_;
  int64_t application_ = 0;
};

// A step of some workers, the exchanges of each slice in turn: pushes from received buffers, and
// under async pulls, whose values are let go at once.
class HostLoad : public ServerLoad {
 public:
  struct Part {
    int first_worker = 0;
    int num_workers = 1;
    uint32_t first_slice = 0;
    uint32_t num_slices = 1;
  };

  // Of a host that `job` has made.
  HostLoad(const BenchmarkJob& job, std::shared_ptr<ShardHost> host, Part part);
  // Of all workers and slices of a host of its own.
  static absl::StatusOr<std::unique_ptr<ServerLoad>> Create(const BenchmarkJob& job);

  void Run() override;
  absl::Status Check() override;
  uint64_t traffic_bytes() const override;
  uint64_t memory_bytes() const override;
  uint64_t operations() const override {
    return static_cast<uint64_t>(part_.num_workers) * part_.num_slices;
  }

 private:
  // Dies unless the reply is there at once, and without error.
  ExchangeReply Exchange(ExchangeRequest request);
  // With a first gradient, of a slice.
  void Fill(uint8_t* gradient) const;

  const BenchmarkJob job_;
  const std::shared_ptr<ShardHost> host_;
  const Part part_;
  const uint64_t state_count_;
  BufferPool received_;
  Step step_ = Step(0);
};

}  // namespace capstan

#endif  // TESTS_BENCHMARK_SERVER_LOAD_H_
