// Launch templates of ours, which CreateFleet needs: one for each pool that allows several types,
// named after its contents, so that a changed spec makes a new one; those that nothing uses any
// more are deleted after a while. Where the account may not have them, launches do without.
#pragma once

#include <string>

#include "manager/core/draft.hpp"

namespace warmroot::core {

/// An unused template is kept so long: an answer to a fleet that names it may still be open.
inline constexpr Milliseconds kTemplateGrace{900'000};
/// A template that is not listed so long after it was asked for is not waited for.
inline constexpr Milliseconds kTemplateWait{10'000};
/// A permission that is missing may be given; nobody waits for it.
inline constexpr Milliseconds kForbiddenAgain{6 * 3'600'000};

/// "warmroot-<pool>-<hash of the contents>".
std::string template_name(const Draft& draft, const PoolSpec& pool);

enum class FleetWay {
  fleet,  ///< CreateFleet on the template found
  wait,   ///< the template was asked for and comes
  runs,   ///< RunInstances, one type after another
};
struct FleetChoice {
  FleetWay way = FleetWay::runs;
  std::string template_id;
};
/// How a pool that may choose among several offers launches.
FleetChoice choose_fleet(Draft& draft, const PoolDraft& pool);

/// Asks for the templates that pools with something to launch lack, and deletes unused ones.
void keep_templates(Draft& draft);

}  // namespace warmroot::core
