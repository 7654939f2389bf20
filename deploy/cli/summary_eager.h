#ifndef DEPLOY_CLI_SUMMARY_EAGER_H_
#define DEPLOY_CLI_SUMMARY_EAGER_H_

#include <nlohmann/json.hpp>
#include <string>

namespace capstan {

// For people, what the pulls of an eager job waited for, from a coordinator's summary: "97.0 % of
// 1,200 pulls answered at once from the worker's cache, 2.5 % when its own push was back, 0.5 %
// when slower workers had caught up". Empty when the summary tells nothing of it.
std::string SummaryEagerText(const nlohmann::json& summary);

}  // namespace capstan

#endif  // DEPLOY_CLI_SUMMARY_EAGER_H_
