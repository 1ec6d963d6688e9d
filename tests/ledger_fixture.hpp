// A ledger in a directory of its own.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "manager/ledger.hpp"
#include "tests/temporary_directory.hpp"

namespace warmroot::manager {

inline const Instant kNow{std::chrono::hours{24 * 20'000}};
inline const LedgerPins kPins{"research", "us-east-1"};

class LedgerFixture : public ::testing::Test {
 protected:
  /// Opened anew at each call, as after a restart.
  Ledger open() {
    auto ledger = Ledger::open(path_, kPins, kNow);
    EXPECT_TRUE(ledger.has_value()) << ledger.error().message();
    return std::move(*ledger);
  }

  TemporaryDirectory directory_;
  std::string path_ = directory_.path() + "/ledger.sqlite";
};

}  // namespace warmroot::manager
