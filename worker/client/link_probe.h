#ifndef WORKER_CLIENT_LINK_PROBE_H_
#define WORKER_CLIENT_LINK_PROBE_H_

#include <memory>
#include <vector>

#include "common/base/clock.h"
#include "common/exchange/parameter_endpoint.h"
#include "proto/coordinator_service.pb.h"

namespace capstan {

// Measures the links to all servers of a job at once, with probes that the servers send back; also
// int8 on this thread, for a few milliseconds. The worker is to push and to pull `training_bytes`.
// The measurement takes at most 2 s. It also takes at most 2 % of the time for those bytes, as soon
// as each server has sent back 12 probes of 64 KiB, and more on a long way; if the first 12 alone
// would be more, nothing is measured. Lost probes are sent again. Ends the connections. Blocks; for
// the worker's main thread.
v1::LinkMeasurement MeasureLinks(std::vector<std::unique_ptr<ParameterEndpoint>> servers,
                                 double training_bytes, Clock& clock);

}  // namespace capstan

#endif  // WORKER_CLIENT_LINK_PROBE_H_
