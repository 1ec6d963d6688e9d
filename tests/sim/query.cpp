// See the header.
#include "tests/sim/query.hpp"

#include <algorithm>
#include <cstdio>

#include "tests/sim/query_form.hpp"
#include "tests/sim/query_parameters.hpp"
#include "tests/sim/region_rules.hpp"
#include "tests/sim/xml_writer.hpp"

namespace warmroot::sim {

namespace {

constexpr std::string_view kVersion = "2016-11-15";
constexpr std::string_view kNamespace = "xmlns=\"http://ec2.amazonaws.com/doc/2016-11-15/\"";

QueryReply html_page() {
  QueryReply reply;
  reply.content_type = "text/html";
  reply.body = "<!DOCTYPE html><html><body><h1>Sign in to this network</h1></body></html>";
  return reply;
}

}  // namespace

std::string QueryFront::new_request_id() {
  char text[40];
  std::snprintf(text, sizeof text, "00000000-0000-4000-8000-%012llx",
                static_cast<unsigned long long>(++last_request_));
  return text;
}

QueryReply QueryFront::error(const ApiError& error) {
  QueryReply reply;
  reply.status = error.status;
  reply.code = error.code;
  reply.request_id = new_request_id();
  XmlWriter xml;
  xml.open("Response");
  xml.open("Errors");
  xml.open("Error");
  xml.text("Code", error.code);
  xml.text("Message", error.message);
  xml.close();
  xml.close();
  xml.text("RequestID", reply.request_id);
  xml.close();
  reply.body = xml.take();
  return reply;
}

void QueryFront::set_replicas(std::vector<Replica> replicas, std::uint64_t seed) {
  replicas_ = std::move(replicas);
  random_.seed(seed);
  Milliseconds oldest{0};
  for (const auto& replica : replicas_) oldest = std::max(oldest, replica.age);
  region_.keep_history(oldest);
}

Answer<void> QueryFront::find_named(const Form& form, Milliseconds visibility) const {
  const Instant newest = region_.now() - visibility;
  for (const auto& [name, id] : form.values()) {
    const std::string parameter = name.substr(0, name.find('.'));
    if (parameter != "VolumeId" && parameter != "InstanceId" && parameter != "ResourceId") continue;
    if (const auto* disk = region_.volume(id); disk != nullptr && disk->create_time > newest)
      return unknown_resource(id);
    if (const auto* guest = region_.instance(id); guest != nullptr && guest->launch_time > newest)
      return unknown_resource(id);
  }
  return {};
}

/// The action itself, by one of the replicas.
Answer<void> QueryFront::run(const ActionEntry& action, const Form& form, XmlWriter& xml) {
  const bool reads = !action.mutates();
  if (replicas_.empty()) {
    if (!reads) region_.changed();
    return action.run(region_, form, xml);
  }
  const Replica replica = replicas_[random_() % replicas_.size()];
  if (reads) {
    const auto view = region_.look_back(replica.age, replica.visibility);
    return action.run(region_, form, xml);
  }
  if (auto found = find_named(form, replica.visibility); !found) return found;
  region_.changed();
  return action.run(region_, form, xml);
}

QueryReply QueryFront::execute(std::string_view text, CallRecord& record) {
  const auto form = Form::parse(text);
  if (!form) return error(form.error());
  const std::string name = form->text("Action");
  record.action = name;
  if (name.empty())
    return error({400, "MissingAction", "The request must contain the parameter Action"});
  if (form->text("Version").empty())
    return error({400, "MissingParameter", "The request must contain the parameter Version"});
  const ActionEntry* action = find_action(name);
  if (action == nullptr)
    return error(
        {400, "InvalidAction", "The action " + name + " is not valid for this web service."});
  if (form->text("Version") != kVersion)
    return error({400, "NoSuchVersion",
                  "The requested version (" + form->text("Version") +
                      ") of service AmazonEC2 does not exist"});
  if (!throttle_lets(*action, *form)) return error(fault_error({name, FaultKind::throttled}));
  if (auto checked = check_parameters(*action, *form); !checked) return error(checked.error());
  if (auto allowed = check_permission(*action, *form); !allowed) return error(allowed.error());
  const auto dry_run = form->boolean("DryRun");
  if (!dry_run) return error(dry_run.error());
  if (*dry_run && name == "RunInstances")
    if (auto checked = check_run_instances(region_, *form); !checked) return error(checked.error());
  if (*dry_run)
    return error({412, "DryRunOperation", "Request would have succeeded, but DryRun flag is set."});
  QueryReply reply;
  reply.request_id = new_request_id();
  XmlShape shape = shape_;
  if (shape.shuffle != 0) shape.shuffle += last_request_;
  XmlWriter xml(shape);
  xml.open(name + "Response", kNamespace);
  xml.text("requestId", reply.request_id);
  if (auto done = run(*action, *form, xml); !done) return error(done.error());
  xml.close();
  reply.body = xml.take();
  record.effective = action->mutates();
  return reply;
}

void QueryFront::wait(Milliseconds time) {
  if (pass_time)
    pass_time(time);
  else
    region_.advance_by(time);
}

void QueryFront::keep(CallRecord record) {
  if (calls_.size() >= kMaxCalls) calls_.erase(calls_.begin(), calls_.begin() + kMaxCalls / 2);
  calls_.push_back(std::move(record));
}

/// The answer comes late or not at all, and the effect at a time of its own.
QueryReply QueryFront::delayed(const Fault& fault, std::string_view text, CallRecord& record) {
  if (fault.kind == FaultKind::late) {
    region_.later(fault.delay, [this, form = std::string(text), action = record.action] {
      CallRecord done;
      done.time = region_.now();
      done.action = action;
      done.body = form;
      done.late = true;
      const QueryReply reply = execute(form, done);
      done.code = reply.code;
      keep(std::move(done));
    });
    QueryReply nothing;
    nothing.lost = true;
    return nothing;
  }
  if (fault.kind == FaultKind::slow_before) wait(fault.delay);
  QueryReply reply = execute(text, record);
  if (fault.kind == FaultKind::slow_after) wait(fault.delay);
  return reply;
}

QueryReply QueryFront::hit(const Fault& fault, std::string_view text, CallRecord& record) {
  QueryReply reply;
  switch (fault.kind) {
    case FaultKind::unreachable:
    case FaultKind::lost_before:
      reply.lost = true;
      reply.never_connected = fault.kind == FaultKind::unreachable;
      return reply;
    case FaultKind::html_after:
      (void)execute(text, record);
      return html_page();
    case FaultKind::html:
      return html_page();
    case FaultKind::too_many_requests:
      reply.status = 429;
      return reply;
    case FaultKind::late:
    case FaultKind::slow_before:
    case FaultKind::slow_after:
      return delayed(fault, text, record);
    case FaultKind::lost_after:
      reply = execute(text, record);
      reply.lost = true;
      return reply;
    case FaultKind::truncated:
      reply = execute(text, record);
      reply.body.resize(reply.body.size() / 2);
      return reply;
    case FaultKind::throttled_after:
    case FaultKind::internal_after:
    case FaultKind::unavailable_after:
      (void)execute(text, record);
      return error(fault_error(fault));
    case FaultKind::empty_page: {
      region_.knobs.empty_page_now = true;
      reply = execute(text, record);
      region_.knobs.empty_page_now = false;
      return reply;
    }
    case FaultKind::wrong_account: {
      const auto form = Form::parse(text);
      if (form && !record.action.starts_with("Describe"))
        return error(foreign_refusal(form->values()));
      const auto view = region_.look_as_stranger();
      return execute(text, record);
    }
    default:
      return error(fault_error(fault));
  }
}

QueryReply QueryFront::answer(std::string_view text) {
  CallRecord record;
  record.time = region_.now();
  record.body = text;
  const auto form = Form::parse(text);
  record.action = form ? form->text("Action") : std::string();
  const auto fault = faults_.next(record.action, text, region_.now());
  if (fault) record.fault = to_string(fault->kind);
  QueryReply reply = fault ? hit(*fault, text, record) : execute(text, record);
  record.status = reply.lost ? 0 : reply.status;
  record.code = reply.code;
  keep(std::move(record));
  return reply;
}

}  // namespace warmroot::sim
