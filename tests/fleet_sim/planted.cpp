// See the header.
#include "tests/fleet_sim/planted.hpp"

namespace warmroot::fleet {

const std::vector<PlantedBug>& planted_bugs() {
  static const std::vector<PlantedBug> bugs;
  return bugs;
}

void plant(int, World&, Host&, ProcessSetup&) {}

std::map<std::string, core::NodeReport> planted_reports(
    int, const std::map<std::string, core::NodeReport>& board) {
  return board;
}

void planted_after_tick(int, World&, Host&) {}

}  // namespace warmroot::fleet
