// Watches the metadata service for the spot notice, on a thread of its own.
#pragma once

#include <functional>
#include <optional>
#include <stop_token>
#include <string>

#include "bootstrap/base/result.hpp"
#include "bootstrap/documents.hpp"

namespace warmroot::bootstrap {

/// One look at spot/instance-action: its body, or nullopt where there is no notice.
using NoticeLook = std::function<Result<std::optional<std::string>>()>;

/// Looks once a second until a notice came (true) or `stop` (false). Failed looks are tried again:
/// a metadata service that is overloaded drops packets.
bool watch_for_notice(const NoticeLook& look, std::stop_token stop,
                      const std::function<void(const InstanceAction&)>& on_notice);

}  // namespace warmroot::bootstrap
