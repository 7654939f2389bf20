#include "tests/simulation/simulated_connection.h"

#include <memory>
#include <utility>

#include "common/tensor/host_buffer.h"

namespace capstan {
namespace {

constexpr uint64_t kHeaderBytes = 64;

// A message has its own copy, because the sender's buffer may change.
Payload Copy(const Payload& payload) {
  if (payload.empty()) return Payload();
  const size_t floats = (payload.size_bytes() + sizeof(float) - 1) / sizeof(float);
  const auto memory = std::make_shared<HostBuffer>(floats);
  const absl::Span<uint8_t> bytes = memory->bytes().first(payload.size_bytes());
  payload.CopyTo(bytes);
  Payload copy(memory);
  copy.Append(bytes);
  return copy;
}

absl::Status Lost(const char* what) {
  return absl::UnavailableError(std::string("the network has lost the ") + what);
}

}  // namespace

void SimulatedConnection::Path::Exchange(ExchangeRequest&& request, DeliveredCallback delivered,
                                         ReplyCallback done) {
  if (!worker_->is_alive()) {
    delivered();
    return done(ErrorReply(Lost("worker")));
  }
  const absl::Time now = worker_->Now();
  ForEachPayload(request, [](Payload& payload) { payload = Copy(payload); });
  const SimulatedNetwork::Flight flight =
      network_->Send(worker_, server_, kHeaderBytes + PayloadBytes(request));
  if (flight.left == now) {
    delivered();
  } else {
    worker_->RunAt(flight.left, std::move(delivered));
  }
  if (flight.is_duplicated) {
    server_->RunAt(flight.duplicate_arrives, [endpoint = endpoint_, request]() mutable {
      endpoint->Exchange(
          std::move(request), [] {}, [](ExchangeReply) {});
    });
  }
  const absl::Duration noticed_after = network_->options().drop_noticed_after;
  if (flight.is_lost) {
    worker_->RunAt(now + noticed_after,
                   [done = std::move(done)]() mutable { done(ErrorReply(Lost("request"))); });
    return;
  }
  // The way back does not need this object.
  auto reply_arrived = [network = network_, worker = worker_, server = server_, noticed_after,
                        done = std::move(done)](ExchangeReply reply) mutable {
    const SimulatedNetwork::Flight back =
        network->Send(server, worker, kHeaderBytes + reply.values.size_bytes());
    if (back.is_lost) reply = ErrorReply(Lost("reply"));
    worker->RunAt(
        back.is_lost ? server->Now() + noticed_after : back.arrives,
        [done = std::move(done), reply = std::move(reply)]() mutable { done(std::move(reply)); });
  };
  server_->RunAt(flight.arrives, [endpoint = endpoint_, request = std::move(request),
                                  reply_arrived = std::move(reply_arrived)]() mutable {
    endpoint->Exchange(
        std::move(request), [] {}, std::move(reply_arrived));
  });
}

}  // namespace capstan
