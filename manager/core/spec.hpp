// What the operator asks for, after the TOML has been read and checked (config.cpp) and before
// anything was looked up. Plain data; the planner's `Desired`.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace warmroot::core {

struct VolumeSpec {
  std::string type = "gp3";
  int size_gib = 0;  ///< 0: the snapshot's size
  std::optional<int> iops;
  std::optional<int> throughput_mib_s;
  bool encrypted = false;
  std::string kms_key;
  std::map<std::string, std::string> tags;
};

struct LaunchSpec {
  std::string base_ami;
  std::vector<std::string> instance_types;
  std::map<std::string, std::string> subnets;  ///< zone name to subnet id
  std::vector<std::string> security_groups;
  std::string key_name;
  std::string instance_profile;
  std::string max_price;  ///< USD an hour as decimal text; empty: capped at on-demand
  std::map<std::string, std::string> tags;
  std::string user_data;  ///< the operator's own script, run after ours; text, not a path
};

struct PoolSpec {
  std::string name;
  std::string ami;  ///< exactly one of ami and snapshot is set
  std::string snapshot;
  std::vector<std::string> zones;
  int nodes = 0;    ///< volumes kept, one per node
  int running = 0;  ///< instances wanted now; the first `running` nodes run
  VolumeSpec volumes;
  std::optional<LaunchSpec>
      launch;  ///< absent: serve instances tagged warmroot:pool=<name> that others launch
};

struct Desired {
  std::string deployment;  ///< separates two managers' worlds in one account
  std::vector<PoolSpec> pools;
};

}  // namespace warmroot::core
