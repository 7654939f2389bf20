#ifndef SERVER_COORDINATOR_COORDINATOR_METRICS_H_
#define SERVER_COORDINATOR_COORDINATOR_METRICS_H_

#include "common/metrics/metrics_page.h"
#include "proto/coordinator_service.pb.h"

namespace capstan {

// Adds what the coordinator knows of the job. `workers_lost` is JobFacts::WorkersLost.
void AddJobMetrics(const v1::GetStatusReply& status, int workers_lost, MetricsPage& page);

}  // namespace capstan

#endif  // SERVER_COORDINATOR_COORDINATOR_METRICS_H_
