#ifndef SERVER_COORDINATOR_STATE_SAVED_STATES_H_
#define SERVER_COORDINATOR_STATE_SAVED_STATES_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/coordinator/state/state_folder.h"
#include "server/coordinator/state/state_store.h"

namespace capstan {

// Each term has a folder with its states, in the order of their numbers, and the constants that
// they name: term-000003/state-0000000012 and term-000003/constants-0123456789abcdef. A term
// touches no file of another one, except that it removes folders which no later term reads.
std::string TermFolder(uint64_t term);
std::string StatePath(uint64_t term, uint64_t number);
std::string ConstantsPath(uint64_t term, uint64_t xxh3);

// The terms that have begun, the latest first. Other names in the folder are left out.
absl::StatusOr<std::vector<uint64_t>> ListTerms(StateFolder& folder);

// The newest state of the latest term that has one; none: there is no state. `dir` is the folder's
// path, for errors. DATA_LOSS: its files are damaged, although an older state may be intact: the
// error says what to do. FAILED_PRECONDITION: a newer version has written it.
absl::StatusOr<std::optional<SavedJob>> ReadNewestState(StateFolder& folder,
                                                        const std::string& dir);

}  // namespace capstan

#endif  // SERVER_COORDINATOR_STATE_SAVED_STATES_H_
