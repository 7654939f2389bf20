#ifndef TESTS_TRANSPORT_TEST_SHARD_HOST_H_
#define TESTS_TRANSPORT_TEST_SHARD_HOST_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "common/base/clock.h"
#include "common/exchange/parameter_endpoint.h"
#include "server/consistency/consistency_policy.h"
#include "server/shard/shard_host.h"

namespace capstan {

inline constexpr uint64_t kTestJob = 42;
inline constexpr uint64_t kTestElements = 2 << 20;  // of the one table with one slice

// A host with one table of one slice, zero at first, under a momentum of 0 with learning rate 1.
// Its values are minus the sum of the gradients, and its optimizer's state is the last gradient.
// Workers 0 ... num_workers - 1 have incarnation 100 + id, and `own_arrays` arrays of own state. It
// goes on from `restored`, if given. The initial values may come from worker 0. The table may reply
// the mean.
std::unique_ptr<ShardHost> MakeTestHost(ConsistencyMode mode, int num_workers,
                                        uint64_t elements = kTestElements, uint32_t own_arrays = 0,
                                        const ShardSnapshot* restored = nullptr,
                                        bool initial_from_worker = false,
                                        bool replies_mean = false);

// An exchange of the slice. All elements of the gradient are `value`.
ExchangeRequest MakeTestRequest(int worker, std::optional<Step> push_step,
                                std::optional<Step> pull_step, float value = 0,
                                uint64_t elements = kTestElements);

std::vector<float> ToVector(const Payload& payload);

// A client of the host. It tries lost exchanges again over `connection`.
std::unique_ptr<ParameterEndpoint> MakeTestClient(Clock* clock,
                                                  std::unique_ptr<ParameterEndpoint> connection);

}  // namespace capstan

#endif  // TESTS_TRANSPORT_TEST_SHARD_HOST_H_
