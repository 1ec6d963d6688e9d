// The simulation without WARMROOT_PLANTED_BUGS: every part of a manager says what is true.
#include "tests/fleet_sim/planted.hpp"

namespace warmroot::fleet {

const std::vector<PlantedBug>& planted_bugs() {
  static const std::vector<PlantedBug> none;
  return none;
}

void plant(int, World&, Host&, ProcessSetup&) {}

core::Desired planted_desired(int, const core::Desired& desired) {
  return desired;
}

std::unique_ptr<aws::Ec2> planted_ec2(int, std::unique_ptr<aws::Ec2> truth) {
  return truth;
}

std::map<std::string, core::NodeReport> planted_reports(
    int, const std::map<std::string, core::NodeReport>& board) {
  return board;
}

std::map<std::string, manager::KnownInstance> planted_known(
    int, std::map<std::string, manager::KnownInstance> known) {
  return known;
}

void planted_after_tick(int, World&, Host&) {}

}  // namespace warmroot::fleet
