// The simulated region as a Transport of the EC2 client: the same form bodies and XML as over HTTP,
// in one process, under virtual time, without signatures. Used by tests of the client, the
// reconciler and whole simulated runs.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "manager/aws/transport.hpp"
#include "tests/sim/query.hpp"

namespace warmroot::sim {

class RegionTransport : public aws::Transport {
 public:
  /// `front` must outlive this.
  explicit RegionTransport(QueryFront& front) : front_(front) {}

  /// Injected faults come back as HttpClient would report them: retry_later when nothing was
  /// received, unknown_outcome when the answer was lost.
  std::vector<Result<HttpReply>> post(std::span<const std::string> bodies) override;

 private:
  QueryFront& front_;
};

}  // namespace warmroot::sim
