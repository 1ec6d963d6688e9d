// EC2's events from an SQS queue: a thread waits for messages, the loop takes what they mean into
// its tick, and a message is deleted only after the tick that recorded it. Events make things
// faster; the manager is right without them (they may be missing, late, doubled, out of order).
// Started by the daemon where the spec says [events] queue_url.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_set>
#include <vector>

#include "manager/aws/sqs_client.hpp"
#include "manager/core/model.hpp"
#include "manager/event_envelope.hpp"

namespace warmroot::manager {

/// Messages wait here for the tick that acts on them. Any thread.
class EventInbox {
 public:
  /// Takes one event; `receipt` is what deletes its message. True when the loop should be woken:
  /// of instances that are not ours only a warning could matter, and it is not waited for.
  bool take(const CloudEvent& event, std::string receipt, bool known_instance, Instant now);
  /// What the next tick has to know: everything that was not settled.
  core::Heard heard(Instant now);
  /// The tick after the last heard() has recorded what it was told: receipts to delete.
  std::vector<std::string> settle();
  /// Their queue is not listened to any more: what was heard stays, nothing is deleted for it.
  void forget_receipts();
  /// A receive succeeded: events are live for a while.
  void listened(Instant now);

  std::size_t size() const;
  std::map<std::string, int> counters() const;
  void count(const std::string& what);

 private:
  struct Entry {
    CloudEvent event;
    std::string receipt;
  };
  mutable std::mutex mutex_;
  std::deque<Entry> entries_;
  std::size_t handed_out_ = 0;
  std::deque<std::string> recent_ids_;
  std::unordered_set<std::string> recent_;
  std::map<std::string, int> counters_;
  Instant listened_{};
};

struct ListenerHooks {
  std::function<Instant()> now;
  std::function<Instant()> calendar;  ///< what others' stamps are compared with
  std::function<bool(const std::string& instance_id)> known;  ///< one of ours, by the last tick
  std::function<void()> wake;
  /// An instance that is not known begins to run. Absent: nobody cares.
  std::function<void(const std::string& instance_id)> appeared;
  std::function<void(const Error&)> failed;  ///< told once for each new sentence
  std::function<void(const std::string& message_id, const Error&)> unparsable;
};

/// For so long at the end what was settled is still deleted: SIGTERM ends the daemon within seconds.
inline constexpr Milliseconds kDeletesAtTheEnd{2'000};

/// Two threads: one waits for messages, the other deletes, so that neither keeps the other waiting.
class EventListener {
 public:
  EventListener(aws::QueueAddress queue, const aws::Connection& connection, EventInbox& inbox,
                ListenerHooks hooks);
  ~EventListener();
  EventListener(const EventListener&) = delete;
  EventListener& operator=(const EventListener&) = delete;

  /// Deletes these messages soon. One that is not deleted comes again, which is harmless.
  void remove(std::vector<std::string> receipts);

 private:
  void receive_loop();
  void delete_loop();
  void take(const std::vector<aws::QueueMessage>& messages);
  void pause(Milliseconds time);
  void tell(const Error& error);

  EventInbox& inbox_;
  ListenerHooks hooks_;
  std::atomic<bool> stopping_ = false;  ///< set under the lock: who waits looks at it
  std::atomic<bool> giving_up_ = false;
  bool deleted_all_ = false;  ///< the deleting thread has ended
  aws::SqsClient receiver_;
  aws::SqsClient deleter_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::string> doomed_;
  std::string told_;
  std::thread receiving_;
  std::thread deleting_;
};

}  // namespace warmroot::manager
