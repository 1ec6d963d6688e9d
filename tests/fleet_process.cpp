// See the header.
#include "tests/fleet_process.hpp"

#include <filesystem>
#include <utility>

#include "manager/aws/ec2_codec.hpp"

namespace warmroot {

std::string_view action_in(std::string_view body) {
  constexpr std::string_view kStart = "Action=";
  return body.substr(kStart.size(), body.find('&') - kStart.size());
}

std::vector<Result<HttpReply>> WatchedTransport::post(std::span<const std::string> bodies) {
  std::vector<Result<HttpReply>> replies;
  if (bodies.size() == 1)
    if (auto known = early.extract(bodies.front())) {
      replies.push_back(std::move(known.mapped()));
      return replies;
    }
  ++posts;
  if (hooks_.before_post) hooks_.before_post();
  for (const auto& body : bodies) {
    // Most calls look, and nobody asks what those look for.
    const auto form = body.starts_with("Action=Describe") ? aws::Form{} : aws::parse_form(body);
    const bool mutates = !form.empty() && !aws::is_read(aws::form_value(form, "Action")) &&
                         aws::form_value(form, "DryRun") != "true";
    if (mutates && hooks_.before_call) hooks_.before_call(form, body);
    if (!mutates && hooks_.before_look) hooks_.before_look(body);
    if (hooks_.effect) hooks_.effect(mutates ? "before a call" : kBeforeRead);
    auto reply = door_.post({&body, 1});
    if (mutates && hooks_.after_call) hooks_.after_call(form, reply.front());
    if (mutates && hooks_.effect) hooks_.effect("after a call");
    replies.push_back(std::move(reply.front()));
  }
  return replies;
}

Ok ManagerProcess::start(ProcessSetup setup) {
  stop();
  setup_ = std::move(setup);
  const auto now = setup_.options.now();
  TRY_ASSIGN(auto opened,
             manager::Ledger::open(setup_.ledger_path,
                                   {setup_.options.desired.deployment, "us-east-1"}, now));
  ledger = std::make_unique<manager::Ledger>(std::move(opened));
  ledger->on_write = [this](const char* what) {
    if (setup_.hooks.effect) setup_.hooks.effect(what);
  };
  TRY_ASSIGN(auto spying, manager::Database::open(setup_.ledger_path));
  spy = std::make_unique<manager::Database>(std::move(spying));
  transport = std::make_unique<WatchedTransport>(*setup_.door, setup_.hooks);
  client = std::make_unique<aws::Ec2Client>(*transport, setup_.sleep, setup_.random);
  if (setup_.disguise) disguise = setup_.disguise(*client);
  reconciler = std::make_unique<manager::Reconciler>(disguise ? *disguise : *client, *ledger,
                                                     setup_.options);
  return {};
}

void ManagerProcess::stop() {
  reconciler.reset();
  disguise.reset();
  client.reset();
  transport.reset();
  ledger.reset();
  spy.reset();
}

void remove_ledger(const std::string& path) {
  for (const char* suffix : {"", "-wal", "-shm"}) std::filesystem::remove(path + suffix);
}

}  // namespace warmroot
