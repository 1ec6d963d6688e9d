// EBS direct of the simulated region: ListSnapshotBlocks, page by page, with the errors that are
// documented (reference ec2.md 8.1, botocore's ebs model). Which blocks a snapshot has is the
// hardware's knowledge. Its HTTP door is server.cpp's.
#pragma once

#include <functional>
#include <map>
#include <string>

#include "tests/sim/region.hpp"

namespace warmroot::sim {

struct EbsReply {
  int status = 200;
  std::string body;  ///< JSON
  std::string type;  ///< "ValidationException", as x-amzn-errortype says it; empty on success
  std::string request_id;
};

class EbsDirect {
 public:
  /// `region` must outlive it.
  explicit EbsDirect(Region& region) : region_(region) {}

  using Parameter = std::function<std::string(const std::string& name)>;
  /// One request; `parameter` gives a decoded query parameter or an empty text. Never fails: every
  /// trouble is an answer.
  EbsReply answer(const std::string& method, const std::string& path, const Parameter& parameter);
  /// The service's error document.
  EbsReply error(const std::string& type, const std::string& reason, const std::string& message,
                 int status = 400);

  /// All page tokens given out so far end now.
  void expire_tokens() { places_.clear(); }

  int throttles = 0;         ///< so many of the next requests are throttled
  int page_cap = 10'000;     ///< most blocks a page ever holds
  bool empty_pages = false;  ///< before every page comes an empty one with a token
  int requests = 0;          ///< that came, refused or not

 private:
  struct Place {
    std::string snapshot_id;
    std::uint64_t first_block = 0;
    bool after_empty = false;
    Instant expires;
  };
  EbsReply list(const std::string& snapshot_id, const Parameter& parameter);
  EbsReply page(const SnapshotRecord& source, const std::vector<std::uint32_t>& blocks, Place from,
                std::size_t most);
  std::string keep(Place place);

  Region& region_;
  std::map<std::string, Place> places_;  ///< by token
  int count_ = 0;
};

}  // namespace warmroot::sim
