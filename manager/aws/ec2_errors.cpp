// How a reply that is no answer becomes an Error, by the table of ec2_codes.cpp. Messages of EC2
// are shown to people and never matched: their wording drifts.
#include <algorithm>

#include "manager/aws/ec2_codec.hpp"
#include "manager/aws/ec2_xml.hpp"

namespace warmroot::aws {
namespace {

using enum ErrorKind;

/// Longer messages are cut: UnauthorizedOperation carries an encoded blob of some kilobytes.
constexpr std::size_t kMaxMessageBytes = 1200;

bool contains_no_case(std::string_view text, std::string_view lower_word) {
  const auto same = [](char a, char b) {
    return (a >= 'A' && a <= 'Z' ? static_cast<char>(a - 'A' + 'a') : a) == b;
  };
  return std::search(text.begin(), text.end(), lower_word.begin(), lower_word.end(), same) !=
         text.end();
}

std::string header(const HttpReply& reply, const std::string& name) {
  const auto found = reply.headers.find(name);
  return found == reply.headers.end() ? std::string{} : found->second;
}

bool is_html(const HttpReply& reply) {
  constexpr std::size_t kLook = 256;
  const std::string_view start = std::string_view(reply.body).substr(0, kLook);
  return contains_no_case(header(reply, "content-type"), "text/html") ||
         contains_no_case(start, "<html") || contains_no_case(start, "<!doctype html");
}

/// The <Error> of `<Response><Errors><Error>` (EC2) or `<ErrorResponse><Error>` (its neighbours).
const xml::Element* error_element(const tinyxml2::XMLDocument& document) {
  const xml::Element* root = document.RootElement();
  if (root == nullptr) return nullptr;
  if (const auto* error = xml::child(xml::child(root, "Errors"), "Error")) return error;
  return std::string_view(root->Name()) == "ErrorResponse" ? xml::child(root, "Error") : nullptr;
}

std::string sentence(std::string text) {
  if (text.size() > kMaxMessageBytes) text = text.substr(0, kMaxMessageBytes) + "...";
  if (!text.empty() && text.back() != '.') text += '.';
  return text;
}

Error from_code(std::string_view action, int status, std::string code, const std::string& message) {
  const ErrorKind lost = is_read(action) ? retry_later : unknown_outcome;
  Error error{refused, sentence(message), std::move(code), {}};
  if (error.context.empty()) error.context = "refused with HTTP " + std::to_string(status) + ".";
  const CodeEntry* entry = find_code(error.code, action);
  if (entry == nullptr) {
    if (status >= 500) error.kind = lost;
    return error;
  }
  error.kind = entry->reaction == Reaction::transient ? lost : entry->kind;
  error.context += " " + std::string(entry->remedy);
  return error;
}

/// A reply without an EC2 error inside.
Error from_status(std::string_view action, const HttpReply& reply, bool well_formed) {
  const ErrorKind lost = is_read(action) ? retry_later : unknown_outcome;
  const std::string status = "HTTP " + std::to_string(reply.status);
  constexpr int kTooManyRequests = 429;
  if (reply.status >= 500)
    return {lost,
            status + " without an EC2 error. " + std::string(remedy_for("InternalError")),
            {},
            {}};
  if (reply.status == kTooManyRequests)  // the status says what the code would
    return from_code(action, reply.status, "TooManyRequestsException", {});
  const bool success = reply.status >= 200 && reply.status < 300;
  if (reply.body.size() > xml::kMostXmlBytes)
    return {is_read(action) ? broken : unknown_outcome,
            "the answer is larger than " + std::to_string(xml::kMostXmlBytes >> 20) +
                " MiB: check --endpoint-url",
            {},
            {}};
  const bool like_xml = !reply.body.empty() && reply.body.front() == '<' && !is_html(reply);
  if (like_xml && !well_formed) return {lost, "the answer was cut off.", {}, {}};
  if (success && reply.body.empty()) return {lost, "the answer was empty.", {}, {}};
  if (!success || !like_xml) {
    const std::string type = header(reply, "content-type");
    return {misconfigured,
            "the endpoint did not answer like EC2 (" + (type.empty() ? status : type) +
                "): check --endpoint-url",
            std::string(kNotEc2),
            {}};
  }
  return {is_read(action) ? broken : unknown_outcome,
          "the answer is not a " + std::string(action) + "Response.",
          {},
          {}};
}

}  // namespace

std::string_view bare_code(std::string_view code) {
  for (const std::string_view prefix : {"Client.", "Server."})
    if (code.starts_with(prefix)) return code.substr(prefix.size());
  return code;
}

std::string_view remedy_for(std::string_view code, std::string_view action) {
  const CodeEntry* entry = find_code(code, action);
  return entry == nullptr ? std::string_view{} : entry->remedy;
}

Reaction reaction_for(std::string_view code, std::string_view action) {
  const CodeEntry* entry = find_code(code, action);
  return entry == nullptr ? Reaction::unknown : entry->reaction;
}

std::string code_of(const HttpReply& reply) {
  constexpr int kFirstRefusal = 300;
  if (reply.status < kFirstRefusal) return {};
  tinyxml2::XMLDocument document;
  if (!xml::parse(document, reply.body)) return {};
  return std::string(bare_code(xml::text(error_element(document), "Code")));
}

Error refused(std::string_view action, const HttpReply& reply) {
  tinyxml2::XMLDocument document;
  const bool well_formed = xml::parse(document, reply.body) &&
                           document.RootElement() != nullptr;  // cut off behind <?xml ...?> parses
  const xml::Element* element = well_formed ? error_element(document) : nullptr;
  std::string code(bare_code(xml::text(element, "Code")));
  Error error = code.empty() ? from_status(action, reply, well_formed)
                             : from_code(action, reply.status, std::move(code),
                                         xml::text(element, "Message"));
  if (well_formed) error.request_id = xml::text(document.RootElement(), "RequestID");
  if (well_formed && error.request_id.empty())
    error.request_id = xml::text(document.RootElement(), "RequestId");
  if (error.request_id.empty()) error.request_id = header(reply, "x-amzn-requestid");
  return error;
}

}  // namespace warmroot::aws
