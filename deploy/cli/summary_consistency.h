#ifndef DEPLOY_CLI_SUMMARY_CONSISTENCY_H_
#define DEPLOY_CLI_SUMMARY_CONSISTENCY_H_

#include <nlohmann/json.hpp>
#include <string>

namespace capstan {

// For people, the consistency in a coordinator's summary and how it was changed while the job ran:
// "bsp; from step 120 on: ssp, staleness 4 (fc1.weight 2)". Empty when the summary tells no
// periods, or not as the coordinator writes them.
std::string SummaryConsistencyText(const nlohmann::json& summary);

}  // namespace capstan

#endif  // DEPLOY_CLI_SUMMARY_CONSISTENCY_H_
