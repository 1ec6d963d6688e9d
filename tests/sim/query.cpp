// See the header.
#include "tests/sim/query.hpp"

#include <algorithm>
#include <cstdio>

#include "tests/sim/query_form.hpp"
#include "tests/sim/query_parameters.hpp"
#include "tests/sim/xml_writer.hpp"

namespace warmroot::sim {

namespace {

constexpr std::string_view kVersion = "2016-11-15";
constexpr std::string_view kNamespace = "xmlns=\"http://ec2.amazonaws.com/doc/2016-11-15/\"";

ApiError fault_error(FaultKind kind) {
  switch (kind) {
    case FaultKind::throttled:
      return {503, "RequestLimitExceeded", "Request limit exceeded."};
    case FaultKind::unavailable:
      return {503, "Unavailable", "The service is unavailable. Please try again shortly."};
    default:
      return {500, "InternalError", "An internal error has occurred"};
  }
}

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

bool QueryFront::take_token(const std::string& action, double size, double refill_per_s) {
  if (throttle_scale_ <= 0) return true;
  const double most = std::max(1.0, size * throttle_scale_);
  auto [found, fresh] = buckets_.try_emplace(action, Bucket{most, region_.now()});
  Bucket& bucket = found->second;
  const double passed = static_cast<double>((region_.now() - bucket.filled).count()) / 1000;
  bucket.tokens = std::min(most, bucket.tokens + passed * refill_per_s * throttle_scale_);
  bucket.filled = region_.now();
  if (bucket.tokens < 1) return false;
  bucket.tokens -= 1;
  return true;
}

const Fault* QueryFront::next_fault(const std::string& action) {
  for (auto& fault : faults_) {
    if (fault.count <= 0 || (fault.action != "*" && fault.action != action)) continue;
    if (fault.after > 0) {
      --fault.after;
      continue;
    }
    --fault.count;
    hit_ = fault;
    std::erase_if(faults_, [](const Fault& done) { return done.count <= 0; });
    return &hit_;
  }
  return nullptr;
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
  if (!take_token(name, action->bucket, action->refill_per_s))
    return error(fault_error(FaultKind::throttled));
  if (auto checked = check_parameters(*action, *form); !checked) return error(checked.error());
  const auto dry_run = form->boolean("DryRun");
  if (!dry_run) return error(dry_run.error());
  if (*dry_run)
    return error({412, "DryRunOperation", "Request would have succeeded, but DryRun flag is set."});
  QueryReply reply;
  reply.request_id = new_request_id();
  XmlWriter xml;
  xml.open(name + "Response", kNamespace);
  xml.text("requestId", reply.request_id);
  if (auto done = action->run(region_, *form, xml); !done) return error(done.error());
  xml.close();
  reply.body = xml.take();
  record.effective = !name.starts_with("Describe");
  return reply;
}

QueryReply QueryFront::answer(std::string_view text) {
  CallRecord record;
  record.time = region_.now();
  record.body = text;
  const auto form = Form::parse(text);
  record.action = form ? form->text("Action") : std::string();
  const Fault* fault = next_fault(record.action);
  QueryReply reply;
  const bool happens = fault == nullptr || fault->kind == FaultKind::lost_after ||
                       fault->kind == FaultKind::truncated;
  if (happens) {
    reply = execute(text, record);
    if (fault != nullptr && fault->kind == FaultKind::truncated)
      reply.body.resize(reply.body.size() / 2);
    reply.lost = fault != nullptr && fault->kind == FaultKind::lost_after;
  } else if (fault->kind == FaultKind::html) {
    reply = html_page();
  } else if (fault->kind == FaultKind::unreachable || fault->kind == FaultKind::lost_before) {
    reply.lost = true;
    reply.never_connected = fault->kind == FaultKind::unreachable;
  } else {
    reply = error(fault_error(fault->kind));
  }
  record.status = reply.lost ? 0 : reply.status;
  record.code = reply.code;
  if (calls_.size() >= kMaxCalls) calls_.erase(calls_.begin(), calls_.begin() + kMaxCalls / 2);
  calls_.push_back(std::move(record));
  return reply;
}

}  // namespace warmroot::sim
