// Reports to the manager and its wishes back. A thread of its own: nothing here ever delays
// mounting or unmounting. Protocol: hello once for a key, then numbered reports signed with it
// (report_sign).
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>

#include "bootstrap/base/http.hpp"
#include "bootstrap/documents.hpp"
#include "bootstrap/status.hpp"

namespace warmroot::bootstrap {

class Reporter {
 public:
  /// Imds::identity_signature, or a test's.
  using Identity = std::function<Result<std::optional<std::string>>()>;

  /// `on_wishes` is called on the reporter's thread after every answered report and after hello,
  /// and `identity` before each hello. `key_file` keeps the key over restarts of the daemon.
  Reporter(StatusBook& book, std::string manager_url, std::string key_file, Identity identity,
           std::function<void(const Wishes&)> on_wishes);
  ~Reporter();

  /// Starts the thread; the instance id has to be in the book.
  void start();

  /// Queues one report of a stage; it is sent even when later ones exist, so that the manager knows
  /// when each was.
  void stage_changed(Stage stage, std::string reason, std::string message);

  /// Reports once a second instead of once in five while true.
  void report_often(bool often) { often_ = often; }

  /// One more signed request, sent between reports; `done` gets the body of a good answer, or
  /// nothing, on the reporter's thread. Where there is no answer, or 503, some times more, behind
  /// later reports. Not called where there is no manager.
  using Answered = std::function<void(std::optional<std::string>)>;
  void exchange(std::string method, std::string path, std::string body, Answered done);

  /// Waits until everything queued has been delivered, and every request answered or given up, at
  /// most `limit`. In a `hurry` requests that wait to be tried again are tried sooner meanwhile,
  /// and so given up sooner. False when something is left.
  bool flush(std::chrono::milliseconds limit, bool hurry = false);
  /// Whether a report of this stage was delivered, or there is no manager.
  bool has_told(Stage stage);
  void stop();

  /// What a key file has to hold for this key to go on in another boot, with numbers behind all
  /// that the reports of the next two minutes have (unless one was refused as late), whatever the
  /// clock says then. nullopt: no key
  /// was given. From any thread.
  std::optional<std::string> key_for_next_boot() const;

 private:
  struct Event {
    Stage stage;
    std::string reason, message;
  };
  struct Exchange {
    std::string method, path, body;
    Answered done;
    unsigned tries = 0;
  };
  void run();
  void run_exchanges();
  Result<HttpReply> request_signed(const std::string& method, const std::string& path,
                                   std::string body);
  bool say_hello();
  /// Keeps the present key unless another one is given.
  bool ask_for_key();
  bool recall_key();
  bool send(const Event& event);
  void tell_refusal(const Event& event, const HttpReply& reply);
  bool pause(std::chrono::milliseconds time);
  /// Until the next report is due; false when there will be none.
  bool rest();
  std::uint64_t next_sequence();
  void skip_numbers();

  StatusBook& book_;
  const std::string url_, key_file_;
  const Identity identity_;
  const std::function<void(const Wishes&)> on_wishes_;
  HttpClient http_;
  std::optional<std::string> key_;
  std::atomic<std::uint64_t> sequence_ = 0;  ///< written by the reporter's thread alone
  std::string refusal_;                      ///< that was logged last, of reports never taken
  std::uint64_t skip_ = 3'600'000'000;       ///< an hour of numbers; doubled each time
  std::atomic<bool> often_ = false;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Event> events_;
  std::set<Stage> told_;
  Event latest_{Stage::hello, {}, {}};
  std::deque<Exchange> exchanges_;
  std::deque<Exchange> later_;  ///< the thread's: to be tried again behind the next report
  unsigned unanswered_ = 0;     ///< exchanges, wherever they wait
  unsigned hurried_ = 0;        ///< callers of flush in a hurry
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace warmroot::bootstrap
