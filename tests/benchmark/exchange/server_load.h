#ifndef TESTS_BENCHMARK_EXCHANGE_SERVER_LOAD_H_
#define TESTS_BENCHMARK_EXCHANGE_SERVER_LOAD_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/ids.h"
#include "common/exchange/parameter_endpoint.h"
#include "common/optimizer/optimizer.h"
#include "common/tensor/buffer_pool.h"
#include "common/tensor/host_buffer.h"
#include "server/shard/shard_host.h"
#include "tests/benchmark/common/benchmark_job.h"

namespace capstan {

// Work of a server, done again and again. For one thread.
class ServerLoad {
 public:
  virtual ~ServerLoad() = default;

  // Does it once; all gradients are 1.
  virtual void Run() = 0;
  // INTERNAL: a value is wrong. Call after the first run.
  virtual absl::Status Check() = 0;

  // The bytes that a run reads and writes if nothing stays in a cache.
  virtual uint64_t traffic_bytes() const = 0;
  // The bytes of memory that a run uses.
  virtual uint64_t memory_bytes() const = 0;
  // The applications or exchanges of a run.
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

// A step of some workers, with the exchanges of each slice in turn. Pushes come from received
// buffers. Under async there are pulls, too; their values are released at once.
class HostLoad : public ServerLoad {
 public:
  struct Part {
    int first_worker = 0;
    int num_workers = 1;
    uint32_t first_slice = 0;
    uint32_t num_slices = 1;
  };

  // `job` has made the host.
  HostLoad(const BenchmarkJob& job, std::shared_ptr<ShardHost> host, Part part);
  // All workers and slices, with a new host.
  static absl::StatusOr<std::unique_ptr<ServerLoad>> Create(const BenchmarkJob& job);

  void Run() override;
  absl::Status Check() override;
  uint64_t traffic_bytes() const override;
  uint64_t memory_bytes() const override;
  uint64_t operations() const override {
    return static_cast<uint64_t>(part_.num_workers) * part_.num_slices;
  }

 private:
  // Dies if the reply is an error. That of a push alone under BSP comes with the step's last one.
  void Push(ExchangeRequest&& request);
  // Writes the gradient of a slice.
  void Fill(uint8_t* gradient) const;

  const BenchmarkJob job_;
  const std::shared_ptr<ShardHost> host_;
  const Part part_;
  const uint64_t state_count_;
  BufferPool received_;
  Step step_ = Step(0);
};

}  // namespace capstan

#endif  // TESTS_BENCHMARK_EXCHANGE_SERVER_LOAD_H_
